"""A changelog equals what the database's own triggers have written down, change by change.

PostgreSQL under load of two writers, whose transactions overlap → Debezium → Kafka → runs of
``cdc-assets replicate`` → Iceberg, with runs and Kafka Connect killed.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, TypeVar

import psycopg
import pytest
from cdc_assets_devstack.stack import LocalStack

from cdc_assets.config import ReplicationConfig
from cdc_assets.log.hours import hour_of
from cdc_assets_tests.lake_view import read_table
from cdc_assets_tests.stack.killed import kill_part
from cdc_assets_tests.stack.replicated import Replicated, new_database, replicated
from cdc_assets_tests.stack.workload import MAKE, TABLES, WHOLE_ROWS, Workload
from cdc_assets_tests.toy import profiles
from cdc_assets_tests.waiting import until

pytestmark = [pytest.mark.stack, profiles.in_soak, pytest.mark.timeout(1800)]

Row = TypeVar("Row")

SEED = int(os.environ.get("CDC_ASSETS_SEED", "7"))
KILLS = 2
NAME = "logged"
KEYS = {"people": ("id",), "parts": ("a", "b"), "bag": ()}
AUDIT = (
    "CREATE TABLE audit (n bigserial PRIMARY KEY, what text, op text, was jsonb, now jsonb,"
    " transaction text DEFAULT pg_current_xact_id()::text)",
    """CREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
         INSERT INTO audit (what, op, was, now) VALUES (
           TG_TABLE_NAME, TG_OP,
           CASE WHEN TG_OP IN ('UPDATE', 'DELETE') THEN to_jsonb(OLD) END,
           CASE WHEN TG_OP IN ('UPDATE', 'INSERT') THEN to_jsonb(NEW) END);
         RETURN NULL;
       END $$""",
    *(
        f"CREATE TRIGGER audit AFTER INSERT OR UPDATE OR DELETE ON {table} "
        "FOR EACH ROW EXECUTE FUNCTION audit()"
        for table in TABLES
    ),
    *(
        f"CREATE TRIGGER emptied AFTER TRUNCATE ON {table} "
        "FOR EACH STATEMENT EXECUTE FUNCTION audit()"
        for table in TABLES
    ),
)


@dataclass(frozen=True)
class Change:
    """What a trigger has seen. Of one key their numbers are in order; of several, they are within a
    transaction."""

    number: int
    transaction: str
    op: str
    was: Any
    now: Any

    def key(self, table: str) -> tuple[object, ...]:
        """Of the row; nothing of a table without a key, and of a truncate."""
        row = self.now or self.was or {}
        return tuple(row[name] for name in KEYS[table] if name in row)


def two_writers(dsn: str) -> tuple[Workload, Workload]:
    """The second leaves alone what has no key, whose changes could not be told apart."""
    one = Workload(dsn, SEED, may_drop=lambda _: False)
    return one, Workload(dsn, SEED + 1000, may_alter=False, leaves=("bag",))


@pytest.fixture
def logged(stack: LocalStack, stack_config: ReplicationConfig) -> Iterator[Replicated]:
    dsn = new_database(stack, NAME, *MAKE, WHOLE_ROWS, *AUDIT)
    topics = {"include": [rf"{NAME}\.(transaction|public\.({'|'.join(TABLES)}))"]}
    debezium = {"skipped.operations": "none"}  # truncates too
    with replicated(
        stack, stack_config, NAME, dsn, debezium=debezium, topics=topics, mode="changelog"
    ) as shop:
        yield shop
    stack.up(["connect"])


def test_a_changelog_under_load_and_kills_equals_the_audit_of_the_database(
    logged: Replicated, capsys: pytest.CaptureFixture[str]
) -> None:
    begin, rng = hour_of(datetime.now(UTC)), random.Random(SEED)
    work, other = two_writers(logged.dsn)
    with work.running(), other.running():
        work.goes_on()
        logged.replicate()
        for _ in range(KILLS):
            kill_a_run(logged, rng)
            work.goes_on()
            kill_part(logged.stack.connect)
            work.goes_on(rng.randint(5, 40))
            logged.stack.up(["connect"])
            work.goes_on()
    logged.execute("TRUNCATE parts", "INSERT INTO parts VALUES (1, 1, 'v', 'last')")
    found = require_equal(logged)
    again = sum(each.counts["records"] for t in TABLES for each in logged.publishes(t)) - found

    end = hour_of(datetime.now(UTC))
    heads = [logged.publishes(table)[-1].attempt for table in TABLES]
    for table in TABLES:
        name = str(logged.entry(table).table)
        logged.run("replay", "--table", name, "--from", begin.key, "--to", end.key)
    assert [logged.publishes(table)[-1].attempt for table in TABLES] == heads
    assert require_equal(logged) == found
    with capsys.disabled():
        did = dict(work.done + other.done)
        print(f"\nseed {SEED}: {did}; {found} changes, {again} delivered again")


def kill_a_run(shop: Replicated, rng: random.Random) -> None:
    """At a random moment after it has begun."""
    runs = shop.run_ids()
    run = shop.start("replicate", "--until-caught-up")
    begun = lambda: shop.run_ids() > runs or run.poll() is not None  # noqa: E731
    until(begun, "the run begins", within_seconds=300)
    with suppress(subprocess.TimeoutExpired):
        run.wait(rng.uniform(0, 4))
    run.send_signal(signal.SIGKILL)
    run.wait(10)


def require_equal(shop: Replicated) -> int:
    """How many changes there are."""
    shop.wait_until_delivered()
    shop.replicate()
    audited, total = audit(shop.dsn), 0
    for table in TABLES:
        rows, where = lake_rows(shop, table), f"{table}: CDC_ASSETS_SEED={SEED}"
        expected = by_key(audited.get(table, []), lambda change, table=table: change.key(table))
        found = by_key(rows, lambda row, table=table: key_of(table, row))
        assert {k: len(v) for k, v in found.items()} == {k: len(v) for k, v in expected.items()}
        told = dict[int, Change]()
        for key, changes in expected.items():
            for row, change in zip(found[key], changes, strict=True):
                require_same(table, row, change, f"{where}: {key}, {change.number}")
                told[id(row)] = change
        require_order([told[id(row)] for row in rows], where)
        places = Counter((r["_cdc_topic"], r["_cdc_partition"], r["_cdc_offset"]) for r in rows)
        assert set(places.values()) <= {1}, f"{table}: a coordinate is there twice"
        total += len(rows)
    assert total > 100, "there was hardly any load"
    return total


def require_order(changes: list[Change], where: str) -> None:
    """Transactions are in one piece each, their changes in order."""
    together = [(name, [*each]) for name, each in groupby(changes, lambda c: c.transaction)]
    assert len({name for name, _ in together}) == len(together), where
    for name, each in together:
        numbers = [change.number for change in each]
        assert numbers == sorted(numbers), f"{where}: transaction {name}"


def by_key(
    rows: Iterable[Row], key: Callable[[Row], tuple[object, ...]]
) -> dict[tuple[object, ...], list[Row]]:
    found: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return found


def key_of(table: str, row: dict[str, Any]) -> tuple[object, ...]:
    return () if row["_cdc_op"] == "t" else tuple(row[name] for name in KEYS[table])


def require_same(table: str, row: dict[str, Any], change: Change, where: str) -> None:
    """A row of the changelog is this change; what it does not tell the update has left alone."""
    op, was, now = change.op, change.was, change.now
    values = {name: row[name] for name in row if not name.startswith("_cdc")}
    assert row["_cdc_op"] == op, where
    if op == "t":
        assert not any(value is not None for value in values.values()), where
    elif op == "d":
        kept = KEYS[table] or tuple(was)
        expected = dict.fromkeys(values) | {name: was[name] for name in kept}
        assert values == expected, where
    else:
        unset = set(row["_cdc_unset"] or ())
        assert unset <= {"big"}, where
        for name in unset:
            assert was is not None, where
            assert was[name] == now[name], where
            assert values[name] is None, where
        expected = dict.fromkeys(values) | now | dict.fromkeys(unset)
        assert values == expected, where


def audit(dsn: str) -> dict[str, list[Change]]:
    """By table, in order. A changed key is two changes."""
    found: dict[str, list[Change]] = {}
    with psycopg.connect(dsn) as connection:
        for number, table, op, was, now, transaction in connection.execute(
            "SELECT n, what, op, was, now, transaction FROM audit ORDER BY n"
        ):
            key, changes = KEYS[table], found.setdefault(table, [])
            if op == "UPDATE" and any(was[name] != now[name] for name in key):
                said = [("d", was, None), ("c", was, now)]
            else:
                said = [({"INSERT": "c", "TRUNCATE": "t"}.get(op, op[0].lower()), was, now)]
            changes += [Change(number, transaction, *each) for each in said]
    return found


def lake_rows(shop: Replicated, table: str) -> list[dict[str, Any]]:
    """In order: of a changed key, whose changes have one position, the delete first."""
    lake = read_table(shop.config, shop.entry(table).target)
    rows = lake.scan().to_arrow().to_pylist() if lake else []
    return sorted(rows, key=lambda row: (row["_cdc_position"][:-8], row["_cdc_op"] != "d"))
