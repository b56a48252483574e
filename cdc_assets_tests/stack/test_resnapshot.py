"""`cdc-assets resnapshot` against real parts: under load, killed, and beside newer changes."""

from __future__ import annotations

import random
import re

import pytest
from cdc_assets_devstack.stack import LocalStack
from pyspark.sql import SparkSession

from cdc_assets.config import ReplicationConfig
from cdc_assets.merge.statements import sql
from cdc_assets.operate.services import Services
from cdc_assets.operations.resnapshot import wave
from cdc_assets.operations.resnapshot.comparing import KeyState
from cdc_assets.operations.rewind.goal import Goal
from cdc_assets.operations.rewind.history import read_history
from cdc_assets.operations.rewind.table_rewind import TableRewind
from cdc_assets_tests.operated import verified
from cdc_assets_tests.pipeline import Session
from cdc_assets_tests.stack.corrupting import beside, corrupt
from cdc_assets_tests.stack.killed_commands import require_read_again
from cdc_assets_tests.stack.ledger import ledger, writing
from cdc_assets_tests.stack.replicated import Replicated, new_database, replicated
from cdc_assets_tests.stack.rereading import ROWS, VANISHED, changing_meanwhile, merge, read_again
from cdc_assets_tests.toy.profiles import in_soak

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900)]

__all__ = ["beside"]

VERIFY: dict[str, object] = {"nudge": True, "wait_seconds": 120}
LEDGER = ledger(ROWS)
LAID_OUT = {"partition_by": ["truncate(1000, n)"], "sort_by": ["note", "n desc"]}
"""A layout in which changes move rows to another partition."""


@in_soak
def test_killed_under_load_it_goes_on_and_the_table_equals_its_source(
    stack: LocalStack, stack_config: ReplicationConfig, spark: Session, beside: SparkSession
) -> None:
    name, part = "readload", ROWS // 10
    dsn = new_database(stack, name, *LEDGER)
    sizes = {"chunk_rows": part, "parallel": 3}
    said = {"verify": VERIFY, "tables": {"public.ledger": {"layout": LAID_OUT}}}
    with replicated(stack, stack_config, name, dsn, resnapshot=sizes, **said) as database:
        database.wait_until_delivered()
        database.replicate()
        entry = database.entry("ledger")
        keys = random.Random(5).sample(range(0, ROWS, 2), ROWS // 20)
        corrupt(database, spark, "ledger", keys, new=10 * ROWS, seed=5)
        table = sql.table(database.config.lake.catalog.name, entry.target)
        spark().sql(f"UPDATE {table} SET note = 'lost' WHERE id % 100 = 13")
        assert database.differences("ledger")
        require_read_again(database, writing(dsn, ROWS), beside)


@pytest.mark.parametrize(
    "layout", [LAID_OUT, pytest.param({}, marks=in_soak)], ids=["laid out", "plain"]
)
def test_what_changes_meanwhile_wins_and_what_vanished_goes(
    stack: LocalStack,
    stack_config: ReplicationConfig,
    spark: Session,
    beside: SparkSession,
    layout: dict[str, list[str]],
) -> None:
    """Rows that are put move to the partition of their new values."""
    name = f"readmeanwhile{len(layout)}"
    dsn = new_database(stack, name, *LEDGER)
    said = {"verify": VERIFY, "tables": {"public.ledger": {"layout": layout}}}
    with changing_meanwhile(stack, stack_config, name, dsn, spark, beside, **said) as database:
        report = read_again(database, spark)
        assert report.is_whole, list(report.words())
        counts = report.progress.counts
        assert counts[KeyState.VANISHED] == VANISHED
        assert report.progress.rows == ROWS
        # The notes of 103, 113 and 123 were left alone by what changed them meanwhile.
        assert report.looked_at == 3
        merge(database, beside)
        assert database.differences("ledger") == []
        again = read_again(database, spark)
        assert again.progress.put == 0
        assert set(again.progress.counts) == {KeyState.EQUAL}
        require_warned_of_rewinds(database, spark)


def require_warned_of_rewinds(database: Replicated, spark: Session) -> None:
    """Going back before a re-snapshot and a repair says that both are taken back."""
    entry = database.entry("ledger")
    table = sql.table(database.config.lake.catalog.name, entry.target)
    spark().sql(f"UPDATE {table} SET note = 'wrong' WHERE id = 300")
    assert verified(database.config, entry, spark, repair=True).repaired == 1
    services = Services(database.config)
    first = read_history(services, entry).lines(1_000)[-1]
    words = r"can be rewound to: takes back \d+ repairs, 1 waves of a re-snapshot"
    assert re.fullmatch(words, first.words()), "keys in doubt are repaired one by one"
    plan = TableRewind(services, entry).plan(Goal(str(first.snapshot)))
    said = "\n".join(plan.lines())
    assert f"cdc-assets verify --repair --table {entry.table}" in said
    assert f"cdc-assets resnapshot --table {entry.table}" in said
    assert {each["kind"] for each in plan.to_dict()["loses"]} == {"repair", "resnapshot"}


@in_soak
def test_without_its_position_a_wave_would_overwrite_newer_changes(
    stack: LocalStack,
    stack_config: ReplicationConfig,
    spark: Session,
    beside: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The naive way: whatever was read is put in, and whatever was not is removed."""
    name = "readnaively"
    dsn = new_database(stack, name, *LEDGER)
    with changing_meanwhile(
        stack, stack_config, name, dsn, spark, beside, verify=VERIFY
    ) as database:
        monkeypatch.setattr(wave, "highest_of", lambda _: "FF" * 24)
        read_again(database, spark)
        merge(database, beside)
        assert database.differences("ledger")
