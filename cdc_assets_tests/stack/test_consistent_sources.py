"""Cuts of sources with shards, a renamed table and two connectors are states of the source, too."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress

import pytest
from cdc_assets_devstack.stack import LocalStack
from psycopg.conninfo import make_conninfo

from cdc_assets import consistent
from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import ConfigError
from cdc_assets.lake.connection import CatalogConnection
from cdc_assets.lake.cuts import CutLake, StoredCut
from cdc_assets_tests.lake_view import read_table
from cdc_assets_tests.stack.bank import ACCOUNTS, BEGIN, MAKE, Rows, Transfers, violations
from cdc_assets_tests.stack.postgres_side import PostgresSide
from cdc_assets_tests.stack.replicated import Replicated, new_database, replicated
from cdc_assets_tests.toy import profiles
from cdc_assets_tests.waiting import until

pytestmark = [pytest.mark.stack, profiles.in_soak, pytest.mark.timeout(1800)]

SEED = int(os.environ.get("CDC_ASSETS_SEED", "11"))
OFTEN = {"every": "1s", "keep": "1d"}
SHARDS = ("accounts_0", "accounts_1")
SHARDED = (
    *(f"CREATE TABLE {shard} (id int PRIMARY KEY, balance bigint NOT NULL)" for shard in SHARDS),
    *MAKE[1:3],
    *(f"INSERT INTO accounts_{each % 2} VALUES ({each}, {BEGIN})" for each in range(ACCOUNTS)),
    MAKE[-1],
    "CREATE VIEW accounts AS SELECT * FROM accounts_0 UNION ALL SELECT * FROM accounts_1",
    "CREATE FUNCTION spread() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
    " UPDATE accounts_0 SET balance = NEW.balance WHERE id = NEW.id;"
    " UPDATE accounts_1 SET balance = NEW.balance WHERE id = NEW.id; RETURN NEW; END $$",
    "CREATE TRIGGER spread INSTEAD OF UPDATE ON accounts FOR EACH ROW EXECUTE FUNCTION spread()",
)
"""The bank with accounts in two tables, which are updated by the name of both."""
MERGED = {
    "tables": r"public\.accounts_(?P<number>\d)",
    "namespace": "{source}_all",
    "table": "accounts",
    "shard": "{number}",
}
RENAMED = (
    "ALTER TABLE ledger RENAME TO entries",
    "CREATE VIEW ledger AS SELECT * FROM entries",
)
NOTES = "CREATE TABLE notes (id serial PRIMARY KEY)"


def at_cut(config: ReplicationConfig, source: str, cut: StoredCut) -> Mapping[str, Rows]:
    """The three tables of the bank; its shards are one, and a renamed table keeps its name."""
    catalog = CatalogConnection(config.lake).catalog
    found = consistent(catalog, source, cut.committed_at, log=cut.log)
    assert found.cut.committed_at == cut.committed_at
    names: dict[str, str] = dict.fromkeys(SHARDS, "accounts")
    tables = {name.partition(".")[2]: each for name, each in found.items()}
    return {names.get(name, name): each.scan().to_arrow().to_pylist()
            for name, each in tables.items()}  # fmt: skip


def replicated_and_killed(bank: Replicated, seconds: Sequence[float]) -> None:
    """A run that is killed after each of these times, and one that catches up after each."""
    for each in seconds:
        run = bank.start("replicate", "--until-caught-up")
        with suppress(subprocess.TimeoutExpired):
            run.wait(each)
        run.kill()
        run.wait(10)
        bank.replicate()


def replicated_until_cut(bank: Replicated, lake: CutLake, number: int) -> None:
    """Runs until there is a later cut: what one run begins, the next one may complete."""
    for _ in range(6):
        bank.replicate()
        if any(cut.number > number for cut in lake.cuts(bank.name)):
            return
    bank.run("consistent", "list", bank.name)
    pytest.fail(f"no cut after number {number}: {bank.last_words()}")


@contextmanager
def under_load(*works: Transfers) -> Iterator[None]:
    """Transfers in each of some banks, while the tables are merged."""
    with ExitStack() as all_:
        for each in works:
            all_.enter_context(each.running(lambda over: over.wait(0.02)))
        until(lambda: min(each.done for each in works) > 20, "there is load", within_seconds=120)
        yield


def test_cuts_of_shards_and_a_renamed_table_are_states_of_the_source(
    stack: LocalStack, stack_config: ReplicationConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "shardedbank"
    said = {"consistent": OFTEN, "merge_into": [MERGED]}
    dsn = new_database(stack, name, *SHARDED)
    with replicated(stack, stack_config, name, dsn, **said) as bank:
        work, lake = Transfers(bank.side, SEED), CutLake(bank.config)
        with under_load(work):
            bank.replicate()
            replicated_and_killed(bank, (5, 12))
            before = len(lake.cuts(name))
            bank.execute(*RENAMED)
            until(lambda seen=work.done: work.done > seen + 20, "it goes on", within_seconds=120)
            replicated_and_killed(bank, (5, 12, 3))
        bank.wait_until_delivered()
        bank.replicate()
        cuts = lake.cuts(name)
        assert before >= 1
        assert len(cuts) >= before + 1
        for cut in cuts:
            assert {each.table for each in cut.tables} == {*SHARDS, "ledger", "totals"}
            assert not violations(at_cut(bank.config, name, cut)), cut
        with capsys.disabled():
            print(f"\n{work.done} transfers, {len(cuts)} cuts, {before} of them before the table"
                  f" was renamed, none violated")  # fmt: skip


def test_a_shard_waits_for_no_shard_that_is_paused(
    stack: LocalStack, stack_config: ReplicationConfig
) -> None:
    name = "pausedshard"
    said = {"consistent": OFTEN, "merge_into": [MERGED]}
    with replicated(stack, stack_config, name, new_database(stack, name, *SHARDED), **said) as bank:
        work, lake = Transfers(bank.side, SEED), CutLake(bank.config)
        with under_load(work):
            replicated_until_cut(bank, lake, 0)
            run = bank.start("replicate", "--until-caught-up")
            with suppress(subprocess.TimeoutExpired):
                run.wait(5)
            run.kill()  # most often with a cut to which the shards are on their way
            run.wait(10)
            bank.run("pause", "--table", f"{name}.public.{SHARDS[1]}")
            for _ in range(2):
                until(lambda seen=work.done: work.done > seen + 20, "it goes on")
                bank.replicate()
        bank.wait_until_delivered()
        bank.replicate()
        assert rows_of_shard(bank, "0") == rows_of(bank, SHARDS[0])
        assert rows_of_shard(bank, "1") != rows_of(bank, SHARDS[1])
        number = lake.cuts(name)[0].number
        bank.run("consistent", "list", name)
        why = f"{name}.public.{SHARDS[1]} is paused or fails, and shares its lake table"
        assert why in bank.last_words()
        bank.run("resume", "--table", f"{name}.public.{SHARDS[1]}")
        with under_load(work):
            replicated_until_cut(bank, lake, number)
        for cut in lake.cuts(name):
            assert not violations(at_cut(bank.config, name, cut)), cut


def rows_of(bank: Replicated, table: str) -> dict[object, object]:
    return {row["id"]: row["balance"] for row in bank.side.table(table).rows}


def rows_of_shard(bank: Replicated, shard: str) -> dict[object, object]:
    table = read_table(bank.config, bank.entry(SHARDS[0]).target)
    assert table is not None
    rows = table.scan().to_arrow().to_pylist()
    return {row["id"]: row["balance"] for row in rows if row["shard"] == shard}


def test_each_connector_of_a_source_has_cuts_of_its_own(
    stack: LocalStack, stack_config: ReplicationConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two banks in one database, each with a connector; one transacts over other tables, too."""
    name, other = "twobanks", "twobanks2"
    dsn = new_database(stack, name, *MAKE, NOTES, "CREATE SCHEMA second")
    second = PostgresSide(make_conninfo(dsn, options="-csearch_path=second"), schema="second")
    second.execute(*MAKE)
    topics = {"include": [rf"{name}2?\..*"], "exclude": [rf"{name}\.public\.notes"]}
    with replicated(stack, stack_config, name, dsn, topics=topics, consistent=OFTEN) as bank:
        settings = {**second.connector(stack, other), "schema.include.list": "second"}
        stack.register_connector(other, settings)
        try:
            lake = CutLake(bank.config)
            works = Noting(bank.side, SEED), Transfers(second, SEED + 1)
            with under_load(*works):
                bank.replicate()
                replicated_and_killed(bank, (5, 12, 3))
            bank.wait_until_delivered()
            second.wait_until_delivered(stack, other)
            bank.replicate()
        finally:
            stack.connect.unregister(other)
        cuts = lake.cuts(name)
        assert len({cut.number for cut in cuts}) == len(cuts)
        logs = {f"{each}.transaction": schema for each, schema in
                ((name, "public"), (other, "second"))}  # fmt: skip
        counts = {log: len([cut for cut in cuts if cut.log == log]) for log in logs}
        assert min(counts.values()) >= 2, counts
        for cut in cuts:
            assert {each.schema for each in cut.tables} == {logs[cut.log]}
            assert not violations(at_cut(bank.config, name, cut)), cut
        with pytest.raises(ConfigError, match="the source has several logs"):
            consistent(CatalogConnection(bank.config.lake).catalog, name)
        with capsys.disabled():
            print(f"\n{[each.done for each in works]} transfers, {counts} cuts, none violated")


class Noting(Transfers):
    """Transfers between which a table is changed that is not replicated, alone and with others."""

    def transfer(self) -> None:
        note = "INSERT INTO notes DEFAULT VALUES"
        self._side.execute(note)
        self._side.execute(note, "UPDATE accounts SET balance = balance WHERE id = 3")
        super().transfer()
