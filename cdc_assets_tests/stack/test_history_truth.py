"""A history equals what the database's own triggers have written down, version by version.

PostgreSQL under load of two writers, whose transactions overlap → Debezium → Kafka → runs of
``cdc-assets replicate`` → Iceberg, with runs and Kafka Connect killed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from cdc_assets_devstack.stack import LocalStack

from cdc_assets.config import ReplicationConfig
from cdc_assets.log.hours import hour_of
from cdc_assets_tests.lake_view import read_table
from cdc_assets_tests.pipeline import Session
from cdc_assets_tests.stack.killed import kill_part
from cdc_assets_tests.stack.merging import Merging
from cdc_assets_tests.stack.replicated import Replicated, new_database, replicated
from cdc_assets_tests.stack.test_changelog_truth import (
    AUDIT,
    KEYS,
    SEED,
    Change,
    audit,
    kill_a_run,
    two_writers,
)
from cdc_assets_tests.stack.workload import MAKE, WHOLE_ROWS
from cdc_assets_tests.toy import profiles

pytestmark = [pytest.mark.stack, pytest.mark.timeout(1800)]

KILLS = 3 if profiles.is_soak() else 1
STATEMENTS = 60 if profiles.is_soak() else 25
NAME = "versioned"
KEYED = ("people", "parts")
Expected = tuple[str, str | None, Any]


@pytest.fixture
def versioned(stack: LocalStack, stack_config: ReplicationConfig) -> Iterator[Replicated]:
    dsn = new_database(stack, NAME, *MAKE, WHOLE_ROWS, *AUDIT)
    topics = {"include": [rf"{NAME}\.(transaction|public\.({'|'.join(KEYED)}))"]}
    debezium = {"skipped.operations": "none"}  # truncates too
    with replicated(
        stack, stack_config, NAME, dsn, debezium=debezium, topics=topics, mode="history"
    ) as shop:
        yield shop
    stack.up(["connect"])


@profiles.in_soak
def test_a_history_under_load_and_kills_equals_the_audit_of_the_database(
    versioned: Replicated, spark: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    here = Merging(versioned, spark)  # a run of its own takes its time to begin
    merge = versioned.replicate if profiles.is_soak() else lambda: here.merge(*KEYED)
    begin, rng = hour_of(datetime.now(UTC)), random.Random(SEED)
    work, other = two_writers(versioned.dsn)
    with work.running(), other.running():
        work.goes_on(STATEMENTS)
        if profiles.is_soak():
            versioned.replicate()
        for _ in range(KILLS):
            kill_a_run(versioned, rng)
            work.goes_on(STATEMENTS)
            kill_part(versioned.stack.connect)
            work.goes_on(rng.randint(5, 40))
            versioned.stack.up(["connect"])
            work.goes_on(STATEMENTS)
    versioned.execute("TRUNCATE parts", "INSERT INTO parts VALUES (1, 1, 'v', 'last')")
    found = require_equal(versioned, merge)
    read = sum(each.counts["records"] for t in KEYED for each in versioned.publishes(t))

    if profiles.is_soak():
        end = hour_of(datetime.now(UTC))
        heads = [versioned.publishes(table)[-1].attempt for table in KEYED]
        for table in KEYED:
            name = str(versioned.entry(table).table)
            versioned.run("replay", "--table", name, "--from", begin.key, "--to", end.key)
        assert [versioned.publishes(table)[-1].attempt for table in KEYED] == heads
        assert require_equal(versioned, merge) == found
        versioned.run("verify", "--source", NAME)
    with capsys.disabled():
        print(f"\nseed {SEED}: {dict(work.done + other.done)}; {found} versions of {read} changes")


def require_equal(shop: Replicated, merge: Callable[[], object]) -> int:
    """How many versions there are."""
    shop.wait_until_delivered()
    merge()
    audited, total = audit(shop.dsn), 0
    for table in KEYED:
        where = f"{table}: CDC_ASSETS_SEED={SEED}"
        expected, found = audited_versions(table, audited.get(table, [])), lake_rows(shop, table)
        assert found.keys() == expected.keys(), where
        for key, versions in expected.items():
            rows = found[key]
            names = [name for name in rows[0] if not name.startswith("_cdc")]
            said = [
                (row["_cdc_op"], row["_cdc_ended_by"], {name: row[name] for name in names})
                for row in rows
            ]
            told = [(op, ended, dict.fromkeys(names) | now) for op, ended, now in versions]
            assert said == told, f"{where}: {key}"
            require_joined(rows, f"{where}: {key}")
            total += len(rows)
    assert total > 3 * STATEMENTS, "there was hardly any load"
    return total


def require_joined(rows: list[dict[str, Any]], where: str) -> None:
    """A version begins where the one before ends, unless the row was not there between."""
    for row, following in zip(rows, [*rows[1:], None], strict=True):
        assert row["_cdc_current"] == (row["_cdc_ended_by"] is None), where
        assert (row["_cdc_valid_to"] is None) == row["_cdc_current"], where
        assert following is not None or row["_cdc_ended_by"] != "u", where
        if row["_cdc_ended_by"] == "u" and following is not None:
            assert row["_cdc_end_position"] == following["_cdc_position"], where
            assert row["_cdc_valid_to"] == following["_cdc_valid_from"], where
        elif not row["_cdc_current"] and following is not None:
            assert row["_cdc_end_position"] < following["_cdc_position"], where


def audited_versions(table: str, changes: list[Change]) -> dict[tuple[object, ...], list[Expected]]:
    """By key, in order: what made it, what ended it, its values."""
    made: dict[tuple[object, ...], list[Expected]] = {}
    for change in changes:
        op, was, now = change.op, change.was, change.now
        of = [tuple((was or now)[name] for name in KEYS[table])] if op != "t" else [*made]
        for key in of:
            versions = made.setdefault(key, [])
            if versions and versions[-1][1] is None and op != "c":
                versions[-1] = (versions[-1][0], op, versions[-1][2])
        if now is not None:
            key = tuple(now[name] for name in KEYS[table])
            made.setdefault(key, []).append((op, None, now))
    return {key: versions for key, versions in made.items() if versions}


def lake_rows(shop: Replicated, table: str) -> dict[tuple[object, ...], list[dict[str, Any]]]:
    """By key, in order."""
    lake = read_table(shop.config, shop.entry(table).target)
    found: dict[tuple[object, ...], list[dict[str, Any]]] = {}
    for row in sorted(lake.scan().to_arrow().to_pylist(), key=lambda row: row["_cdc_position"]):
        found.setdefault(tuple(row[name] for name in KEYS[table]), []).append(row)
    return found
