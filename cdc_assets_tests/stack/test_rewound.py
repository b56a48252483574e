"""Tables that are taken back again and again, under load and runs that merge, equal their source.

Runs of ``cdc-assets replicate`` and ``cdc-assets rewind`` are processes of their own and meet at
any moment; some of both are killed. Rows with and without a key, changed keys, large values, and a
column that is added now and then.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
from collections import Counter

import pytest
from cdc_assets_devstack.stack import LocalStack

from cdc_assets.config import ReplicationConfig
from cdc_assets.lake import Lake
from cdc_assets_tests.stack.replicated import Replicated, new_database, replicated
from cdc_assets_tests.stack.workload import LAID_OUT, MAKE, TABLES, WHOLE_ROWS, Workload
from cdc_assets_tests.toy import profiles

SEED = int(os.environ.get("CDC_ASSETS_SEED", "5"))
TIMES = 60 if profiles.is_soak() else 2
INLINE = {"value.converter.schemas.enable": "true", "key.converter.schemas.enable": "true",
          "provide.transaction.metadata": "true"}  # fmt: skip

pytestmark = [pytest.mark.stack, pytest.mark.timeout(1500 + 60 * TIMES)]


@profiles.in_soak
def test_tables_that_go_back_under_load_equal_their_source_twice(
    stack: LocalStack, stack_config: ReplicationConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    rng, done = random.Random(SEED), Counter[str]()
    dsn = new_database(stack, "rewound", *MAKE, WHOLE_ROWS)
    work = Workload(dsn, SEED, may_drop=lambda _: False)
    said = {"debezium": INLINE, "tables": LAID_OUT}
    with replicated(stack, stack_config, "rewound", dsn, **said) as own:
        with work.running():
            work.goes_on(100)
            own.replicate()
            work.goes_on(50)
            own.replicate()
            for turn in range(TIMES):
                done.update(taken_back(own, TABLES[turn % 3], rng, killed=turn % 2 == 1))
                work.goes_on(20)
        kept = {table: tags(own, table) for table in TABLES}
        for _ in range(2):
            own.wait_until_delivered()
            own.replicate()
            assert own.differences(*TABLES) == [], f"CDC_ASSETS_SEED={SEED}: {dict(done)}"
            own.require_tiled(*TABLES)
        assert done["went back"], "no table went back"
        for table in TABLES:
            own.run("rewind", table, "--forget")
            assert not tags(own, table)
    with capsys.disabled():
        print(f"\nseed {SEED}: {dict(done)} under {dict(work.done)}; kept {kept}: equal, twice")


def taken_back(own: Replicated, table: str, rng: random.Random, *, killed: bool) -> list[str]:
    """While a run merges."""
    before = set(tags(own, table))
    run = own.start("replicate", "--until-caught-up")
    back = own.start("rewind", table, "--to", str(rng.choice(snapshots(own, table)[1:])))
    if killed:
        ended = [*kill(back, rng, "rewind"), *kill(run, rng, "run")]
    else:
        assert back.wait(120) == 0, own.last_words()
        ended = ["rewinds"]
        assert run.wait(600) == 0, own.last_words()
    gone = set(tags(own, table)) - before
    return [*ended, *(["went back"] if gone else [])]


def kill(process: subprocess.Popen[bytes], rng: random.Random, name: str) -> list[str]:
    try:
        process.wait(rng.uniform(1, 5))
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait(30)
        return [f"{name} killed"]
    return [f"{name} done before"]


def snapshots(own: Replicated, table: str) -> list[int]:
    past = Lake(own.config).past(own.entry(table).target)
    assert past is not None
    return [each.snapshot for each in past.line]


def tags(own: Replicated, table: str) -> list[str]:
    past = Lake(own.config).past(own.entry(table).target)
    return list(past.tags) if past else []
