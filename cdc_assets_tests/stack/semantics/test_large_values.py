"""Values stored out of line, which Debezium leaves out of an update that left them alone."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from cdc_assets.changes.names import TableName
from cdc_assets.errors import RejectedRecordError
from cdc_assets.registry import TableEntry
from cdc_assets_tests.lake_view import read_rows
from cdc_assets_tests.stack.merging import Merging
from cdc_assets_tests.stack.replicated import write_config
from cdc_assets_tests.stack.semantics_schema import (
    AS_DATA,
    LARGE,
    PLACEHOLDER,
    SENT_UNCHANGED,
    TEXT,
    large_values,
)
from cdc_assets_tests.toy.profiles import in_soak

pytestmark = pytest.mark.stack


def test_large_values_that_updates_leave_alone_stay_in_every_type(semantics: Merging) -> None:
    run = semantics.database.execute
    nothing = ", ".join(f"{column} = NULL" for column in LARGE)
    run(f"INSERT INTO large SELECT 2, 'new', {large_values(3)}")
    run("UPDATE large SET note = 'left alone' WHERE id IN (1, 2)")
    run(f"INSERT INTO large SELECT 3, 'new', {large_values(5)}")
    run(
        "UPDATE large SET note = 'left alone' WHERE id = 3",
        f"UPDATE large SET {nothing} WHERE id = 3",
    )
    run(f"INSERT INTO large SELECT 4, 'data', {', '.join(AS_DATA.values())}")
    semantics.require_equal("large")
    sent = {r.after["id"]: r.after for r in semantics.records("large") if r.op == "u"}
    assert {column: sent[2][column] for column in LARGE} == SENT_UNCHANGED

    run("UPDATE large SET note = 'once more'")
    run(f"UPDATE large SET t = {TEXT.format(7)}, ia = NULL WHERE id = 2")
    run("UPDATE large SET note = 'and again' WHERE id = 2")
    run(
        "UPDATE large SET j = NULL, h = NULL WHERE id = 1",
        "UPDATE large SET note = '' WHERE id = 1",
    )
    run("DELETE FROM large WHERE id = 3", f"INSERT INTO large SELECT 3, 'back', {large_values(9)}")
    run("UPDATE large SET note = NULL WHERE id = 3")
    semantics.require_equal("large")


def test_with_full_replica_identity_large_values_arrive_whole(semantics: Merging) -> None:
    run = semantics.database.execute
    numbers = "ARRAY(SELECT i::numeric(12,2) FROM generate_series(1, 3000) AS i)"
    texts = f"{TEXT.format(3)}, {LARGE['ta'][1].format(3)}"
    run(f"INSERT INTO logged SELECT n, 'new', {texts}, {numbers} FROM generate_series(1, 2) AS n")
    run("UPDATE logged SET note = 'left alone'")
    run("UPDATE logged SET id = 20 WHERE id = 2")
    semantics.require_equal("logged")
    assert PLACEHOLDER not in json.dumps([r.value for r in semantics.records("logged")])


@in_soak
def test_an_update_to_exactly_the_placeholder_counts_as_unchanged(semantics: Merging) -> None:
    """Nothing in the event tells them apart; an insert is always taken at its word."""
    run = semantics.database.execute
    run(f"INSERT INTO ambiguous VALUES (1, 'before'), (2, '{PLACEHOLDER}')")
    semantics.require_equal("ambiguous")
    run("UPDATE ambiguous SET id = id WHERE id = 2")
    run(f"UPDATE ambiguous SET t = '{PLACEHOLDER}' WHERE id = 1")
    semantics.merge("ambiguous")
    [different] = semantics.database.differences("ambiguous")
    assert "1 rows that differ: (1,) in t" in different
    assert "'before' in the lake" in different


def test_an_update_of_a_row_that_the_lake_lacks_stops_with_its_coordinate(
    semantics: Merging,
) -> None:
    database = semantics.database
    database.execute("UPDATE unread SET note = 'left alone' WHERE id = 2")
    with pytest.raises(RejectedRecordError) as caught:
        semantics.merge("unread")
    [first] = semantics.records("unread")
    coordinate = f"partition={first.partition} offset={first.offset}"
    assert f"topic={database.entry('unread').topic} {coordinate}" in str(caught.value)
    assert read_rows(database.config, database.entry("unread").target) == []


def test_or_is_kept_apart_by_policy_while_other_rows_are_merged(semantics: Merging) -> None:
    database = semantics.database
    database.execute(f"INSERT INTO unread SELECT 4, 'new', {TEXT.format(4)}")
    database.execute("UPDATE unread SET note = 'left alone' WHERE id = 4")
    database.wait_until_delivered()
    config = write_config(
        database.config,
        "apart",
        topics={"include": [rf"{database.name}\.public\.unread"]},
        database={"kind": "postgres", "dsn": {"env": f"{database.name.upper()}_DSN"}},
        bad_records="quarantine",
    )
    name = TableName("apart", "public", "unread")
    target = config.source("apart").lake_name(name)
    entry = TableEntry(name, database.entry("unread").topic, target, datetime.now(UTC))
    batches = semantics.drain(entry, config)
    assert sum(batch.rejected for batch in batches) == 1
    assert [(r["id"], r["note"], len(str(r["t"]))) for r in read_rows(config, target)] == [
        (4, "left alone", 9600)
    ]


@in_soak
def test_a_changed_key_beside_large_values_that_were_left_alone(semantics: Merging) -> None:
    """The create of the new key holds placeholders; its header names the old key."""
    run = semantics.database.execute
    values = f"{TEXT.format(3)}, {LARGE['ta'][1].format(3)}"
    run(f"INSERT INTO moved SELECT n, 'new', {values} FROM generate_series(1, 3) AS n")
    semantics.require_equal("moved")
    run("UPDATE moved SET id = id + 10 WHERE id < 3")
    semantics.require_equal("moved")
