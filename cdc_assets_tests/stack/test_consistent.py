"""Every cut of a source is a state that the source had; the heads of its tables are not.

PostgreSQL under load of transfers over three tables → Debezium → Kafka → runs of
``cdc-assets replicate`` → Iceberg → PyIceberg at the snapshots of the cuts.
"""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace

import dagster as dg
import pytest
from cdc_assets_devstack.stack import LocalStack
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from cdc_assets import consistent
from cdc_assets.changes.names import cuts_name
from cdc_assets.config import ReplicationConfig
from cdc_assets.lake.connection import CatalogConnection
from cdc_assets.lake.cuts import TAG, CutLake, StoredCut
from cdc_assets_tests.pipeline import Session
from cdc_assets_tests.stack.bank import MAKE, TABLES, Rows, Transfers, violations
from cdc_assets_tests.stack.first_reads import unread
from cdc_assets_tests.stack.killed import kill_part
from cdc_assets_tests.stack.read_beside import POSTGRES
from cdc_assets_tests.stack.replicated import (
    Replicated,
    new_database,
    new_mariadb_database,
    replicated,
)
from cdc_assets_tests.toy import profiles
from cdc_assets_tests.waiting import until

NAME = "bank"
SEED = int(os.environ.get("CDC_ASSETS_SEED", "11"))
LEAST_SECONDS = int(os.environ.get("CDC_ASSETS_CUT_SECONDS", "0"))
"""For how long transfers are killed at and altered, if six rounds take less."""
pytestmark = [pytest.mark.stack, pytest.mark.timeout(1200 + 2 * LEAST_SECONDS)]


@contextmanager
def a_bank(
    stack: LocalStack, config: ReplicationConfig, kind: str, name: str
) -> Iterator[Replicated]:
    new = new_database if kind == "postgres" else new_mariadb_database
    schema = "public" if kind == "postgres" else name
    topics = {"include": [rf"{name}\.(transaction|{schema}\.({'|'.join(TABLES)}))"]}
    often = {"every": "1s", "keep": "1d"}
    with replicated(
        stack, config, name, new(stack, name, *MAKE), topics=topics, consistent=often
    ) as made:
        yield made
    stack.up(["connect"])


@pytest.fixture
def bank(stack: LocalStack, stack_config: ReplicationConfig) -> Iterator[Replicated]:
    with a_bank(stack, stack_config, "postgres", NAME) as made:
        yield made


def catalog_of(config: ReplicationConfig) -> Catalog:
    return CatalogConnection(config.lake).catalog


def rows(table: Table) -> Rows:
    return table.scan().to_arrow().to_pylist()


def heads(bank: Replicated) -> Mapping[str, Rows]:
    catalog = catalog_of(bank.config)
    targets = {each: bank.entry(each).target for each in TABLES}
    return {each: rows(catalog.load_table((to.namespace, to.name))) for each, to in targets.items()}


def at_cut(bank: Replicated, cut: StoredCut) -> Mapping[str, Rows]:
    found = consistent(catalog_of(bank.config), bank.name, cut.committed_at)
    assert found.cut.committed_at == cut.committed_at
    return {name.partition(".")[2]: rows(each) for name, each in found.items()}


def test_every_cut_is_a_state_of_the_source_and_heads_are_not(
    bank: Replicated, spark: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    work = Transfers(bank.side, SEED)
    broken = looks = 0
    with work.running(lambda over: over.wait(0.02)):
        until(lambda: work.done > 20, "there is some load", within_seconds=60)
        bank.replicate()
        for _ in range(3):
            before = work.done
            run = bank.start("replicate", "--until-caught-up")
            while run.poll() is None:
                broken += bool(violations(heads(bank)))
                looks += 1
            assert run.wait() == 0, bank.last_words()
            until(lambda seen=before: work.done > seen + 20, "it goes on", within_seconds=60)
    bank.wait_until_delivered()
    bank.replicate()
    assert not bank.differences(*TABLES)
    cuts = CutLake(bank.config).cuts(bank.name)
    assert len(cuts) >= 3
    for cut in cuts:
        assert not violations(at_cut(bank, cut)), cut
    assert broken, "the heads agreed at each look, so the test proves nothing"
    newest = at_cut(bank, cuts[0])
    last = max(row["transfers"] for row in newest["totals"])
    catalog = catalog_of(bank.config)
    for each in cuts[0].tables:
        table = catalog.load_table((each.lake_namespace, each.lake_table))
        assert table.metadata.refs[TAG].snapshot_id == each.snapshot
    with dg.DagsterInstance.from_config(str(bank.instance)) as instance:
        event = instance.get_latest_materialization_event(dg.AssetKey(["consistent", NAME]))
    assert event is not None
    assert event.asset_materialization is not None
    assert event.asset_materialization.metadata["cut"].value == cuts[0].number
    run = bank.start("consistent", "sql", NAME)
    assert run.wait(60) == 0
    for line in bank.last_words().splitlines()[-len(TABLES) :]:
        (count,) = spark().sql(line.replace("SELECT *", "SELECT count(*) n").rstrip(";")).collect()
        name = next(each for each in TABLES if f"`{bank.entry(each).target.name}`" in line)
        assert count["n"] == len(newest[name])
    with capsys.disabled():
        print(f"\n{work.done} transfers, {len(cuts)} cuts, none violated; "
              f"{broken} of {looks} looks at heads were; the newest cut has {last} transfers; "
              f"{cuts_name(NAME)}")  # fmt: skip


@profiles.in_soak
@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
def test_cuts_are_states_of_the_source_despite_kills_and_new_columns(
    stack: LocalStack,
    stack_config: ReplicationConfig,
    kind: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    rng = random.Random(SEED)
    with a_bank(stack, stack_config, kind, f"{kind}bank") as bank:
        work = Transfers(bank.side, SEED)
        with work.running(lambda over: over.wait(0.02)):
            bank.replicate()
            enough = time.monotonic() + LEAST_SECONDS
            for number in itertools.count():
                if number >= 6 and time.monotonic() > enough:
                    break
                run = bank.start("replicate", "--until-caught-up")
                with suppress(subprocess.TimeoutExpired):
                    run.wait(rng.uniform(2, 15))
                run.kill()
                run.wait(10)
                if number % 2:
                    kill_part(stack.connect)
                    stack.up(["connect"])
                else:
                    bank.execute(f"ALTER TABLE ledger ADD COLUMN note{number} varchar(10)")
                bank.replicate()
        bank.wait_until_delivered()
        bank.replicate()
        assert not bank.differences(*TABLES)
        cuts = CutLake(bank.config).cuts(bank.name)
        assert len(cuts) >= 6
        for cut in cuts:
            assert not violations(at_cut(bank, cut)), cut
        with capsys.disabled():
            print(f"\n{kind}: {work.done} transfers, {number} rounds, "
                  f"{len(cuts)} cuts, none violated")  # fmt: skip


@profiles.in_soak
def test_tables_that_rest_since_their_source_was_read_hold_no_cut_up(
    stack: LocalStack, stack_config: ReplicationConfig
) -> None:
    """One of them has no topic, as nothing has ever changed in it."""
    still = ("CREATE TABLE still (id int PRIMARY KEY)", "INSERT INTO still VALUES (1), (2)")
    kind = replace(POSTGRES, make=lambda stack, name: new_database(stack, name, *MAKE, *still))
    often = {"every": "1s", "keep": "1d"}
    with unread(stack, stack_config, "resting", kind, consistent=often) as bank:
        bank.replicate()
        lake, work = CutLake(bank.config), Transfers(bank.side, SEED)
        assert not lake.cuts(bank.name)
        read_until = time.monotonic() + 300
        with work.running(lambda over: over.wait(0.2)):
            while len(lake.cuts(bank.name)) < 2:
                assert time.monotonic() < read_until, bank.last_words()
                bank.replicate()
        for cut in lake.cuts(bank.name):
            tables = at_cut(bank, cut)
            assert not violations(tables), cut
            assert [row["id"] for row in tables["still"]] == [1, 2]
