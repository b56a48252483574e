"""Columns that become wider: what was written before them is still found and told."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from cdc_assets.changes.offsets import OffsetRange
from cdc_assets.errors import TerminalError, TransientError
from cdc_assets.merge.intake import read
from cdc_assets.merge.plan.stable_partitions import MovedKeysError
from cdc_assets.schema.file_layout import DeleteMode
from cdc_assets_tests.faults import Fault, How, faults
from cdc_assets_tests.merge.altered_source import (
    BIGINT,
    INT,
    LONGER,
    NUMERIC,
    TEXT,
    Form,
    Kind,
    SourceColumn,
    in_form,
    on_the_wire,
)
from cdc_assets_tests.merge.events import PLACEHOLDER, event
from cdc_assets_tests.merge.one_table import TABLE, Make, names, start
from cdc_assets_tests.merge.test_layouts import compacted
from cdc_assets_tests.pipeline import Message, Pipeline
from cdc_assets_tests.toy import profiles

pytestmark = pytest.mark.stack

Value = int | Decimal
BIG = 3_000_000_000
SMALL = Kind("int16", "int2", (7, -3))


def form_of(kind: Kind, name: str, *, optional: bool = True) -> Form:
    return (SourceColumn(1, name, kind, optional=optional), SourceColumn(2, "name", TEXT))


def keyed(kind: Kind, op: str, id_: Value, name: str | None, lsn: int) -> Message:
    """A change of a table whose key is of this kind."""
    return sent(op, form_of(kind, "id", optional=False), {"id": id_, "name": name}, lsn, ("id",))


def keyless(kind: Kind, op: str, n: Value, lsn: int, order: int | None = 1) -> Message:
    """A change of a table without a key; without ``order`` its content alone tells it."""
    row = {"n": n, "name": "a"}
    return sent(op, form_of(kind, "n"), row, lsn, (), order=order)


def sent(
    op: str,
    form: Form,
    row: dict[str, Any],
    lsn: int,
    key: tuple[str, ...],
    order: int | None = None,
) -> Message:
    wired = {each.name: on_the_wire(each.kind, row[each.name]) for each in form}
    return in_form(event(op, wired, lsn, commit=lsn - 5, key=key, order=order), form, key)


@profiles.in_soak
def test_a_row_without_a_key_is_found_once_its_decimals_may_be_longer(pipeline: Make) -> None:
    price = Decimal("1.25")
    table = start(pipeline, *(keyless(NUMERIC, "c", price, lsn) for lsn in (10, 20)))
    table.produce(TABLE, [keyless(LONGER, "d", price, 30)])
    with faults(Fault("spark: publish rows", How.BEFORE)), pytest.raises(TransientError):
        table.merge(TABLE)
    table.merge(TABLE)
    assert table.rows(TABLE) == [{"n": price, "name": "a"}]


@profiles.in_soak
def test_a_key_is_found_once_it_may_be_a_longer_decimal(pipeline: Make) -> None:
    one, two, three = Decimal(1), Decimal(2), Decimal("999999999.25")
    first = keyed(NUMERIC, "c", one, "a", 10)
    gone = [keyed(NUMERIC, "c", two, "b", 20), keyed(NUMERIC, "d", two, None, 30)]
    table = start(pipeline, first, *gone, keyed(NUMERIC, "u", one, "newer", 40))
    table.produce(TABLE, [first, gone[0], keyed(LONGER, "c", three, "c", 50)])
    table.merge(TABLE)
    assert names(table) == {one: "newer", three: "c"}
    table.produce(TABLE, [first, *gone, keyed(LONGER, "d", three, None, 60)])
    table.merge(TABLE)
    assert names(table) == {one: "newer"}


@profiles.in_soak
@pytest.mark.parametrize("elsewhere", [False, True], ids=["by its batch", "by another writer"])
def test_deletes_of_keys_that_need_the_wider_type_are_remembered(
    pipeline: Make, elsewhere: bool
) -> None:
    """Another shard's batch, or an older release, widens the table alone."""
    old = keyed(INT, "c", 1, "a", 10)
    table = start(pipeline, old, keyed(INT, "d", 1, None, 20), keyed(INT, "c", 2, "b", 30))
    if elsewhere:
        target = table.entry(TABLE).target
        table.spark().sql(f"ALTER TABLE lake.{target} ALTER COLUMN id TYPE bigint")
    new = keyed(BIGINT, "c", BIG, "c", 40)
    table.produce(TABLE, [new, keyed(BIGINT, "d", BIG, None, 50)])
    table.merge(TABLE)
    table.produce(TABLE, [old, new, keyed(BIGINT, "u", 2, "B", 60)])
    table.merge(TABLE)
    assert names(table) == {2: "B"}
    (plan,) = [each.plan_text for each in table.merge(TABLE)] or [""]
    assert "widen" not in plan


def test_a_key_is_wider_in_its_first_batch(pipeline: Make) -> None:
    made = keyed(BIGINT, "c", BIG, "c", 20)
    table = start(pipeline, keyed(INT, "c", 1, "a", 10), made, keyed(BIGINT, "d", BIG, None, 30))
    table.produce(TABLE, [replace(made)])
    table.merge(TABLE)
    assert names(table) == {1: "a"}


@pytest.mark.parametrize(
    ("was", "now"),
    [pytest.param(INT, BIGINT, marks=profiles.in_soak), (SMALL, INT)],
    ids=["another type", "another schema alone"],
)
def test_a_value_that_is_left_alone_is_not_taken_from_before_changes_in_the_former_partition(
    pipeline: Make, was: Kind, now: Kind
) -> None:
    first = [keyed(was, "c", 7, "a", 10), replace(keyed(was, "c", 1, "a", 20), partition=1)]
    table = start(pipeline, *first, partitions=2, batch={"max_records": 6})
    older = [keyed(was, "u", 7, f"{n}", 30 + n) for n in range(8)]
    moved = [keyed(now, "u", 7, PLACEHOLDER, 50)]
    moved += [keyed(now, "u", 1, f"{n}", 60 + n) for n in range(8)]
    table.produce(TABLE, [*older, *(replace(each, partition=1) for each in moved)])
    with faults(Fault("spark: publish rows", How.BEFORE)), pytest.raises(TransientError):
        table.merge(TABLE)
    table.merge(TABLE)
    assert names(table) == {1: "7", 7: "7"}


def test_a_table_ordered_by_offsets_stops_once_its_key_has_other_bytes(pipeline: Make) -> None:
    """Its newer changes are at lower offsets, in another partition."""

    def at(partition: int, message: Message) -> Message:
        value = json.loads(message.value or b"")
        value["payload"]["source"] |= {"connector": "vitess", "lsn": None, "sequence": None}
        text = json.dumps(value, separators=(",", ":")).encode()
        return replace(message, value=text, partition=partition)

    first = [at(0, keyed(INT, "c", 7, f"{n}", 10 + n)) for n in range(3)]
    table = start(pipeline, *first, at(1, keyed(INT, "c", 1, "a", 20)), partitions=2)
    assert names(table) == {1: "a", 7: "2"}
    table.produce(TABLE, [at(1, keyed(BIGINT, "u", 7, "newer", 50))])
    for _ in range(2):
        with pytest.raises(MovedKeysError, match=r"\(id\) was renamed or retyped"):
            table.merge(TABLE)
    assert names(table) == {1: "a", 7: "2"}


@pytest.mark.parametrize(
    ("last", "was", "now"),
    [
        ("u", INT, BIGINT),
        ("d", INT, BIGINT),
        pytest.param("u", SMALL, INT, marks=profiles.in_soak),
        pytest.param("d", SMALL, INT, marks=profiles.in_soak),
    ],
    ids=[f"{last}-another {what}" for what in ("type", "schema alone") for last in "ud"],
)
def test_a_key_whose_bytes_are_others_since_is_not_overwritten_by_its_older_changes(
    pipeline: Make, last: str, was: Kind, now: Kind
) -> None:
    """They wait in the partition that its former bytes belong to."""

    def at(partition: int, message: Message) -> Message:
        return replace(message, partition=partition)

    table = start(
        pipeline,
        at(0, keyed(was, "c", 7, "a", 10)),
        at(1, keyed(was, "c", 1, "a", 20)),
        partitions=2,
        batch={"max_records": 6},
    )
    older = [at(0, keyed(was, "u", 7, "older", 30 + n)) for n in range(8)]
    newest = at(1, keyed(now, last, 7, "newest", 50))
    others = [at(1, keyed(now, "u", 1, f"{n}", 60 + n)) for n in range(8)]
    table.produce(TABLE, [*older, newest, *others])
    table.merge(TABLE)
    assert names(table) == {1: "7"} | ({7: "newest"} if last == "u" else {})


@pytest.mark.parametrize(
    "order", [pytest.param(1, marks=profiles.in_soak), None], ids=["numbered", "by content"]
)
def test_an_event_sent_again_counts_once_though_its_columns_are_others_by_now(
    pipeline: Make, order: int | None
) -> None:
    first = [keyless(INT, "c", 7, 10, order), keyless(INT, "d", 7, 20, order)]
    table = start(pipeline, *first, keyless(INT, "c", 8, 30, order))
    table.produce(TABLE, [keyless(BIGINT, "c", BIG, 40, order)])
    table.merge(TABLE)
    again = [keyless(INT, "d", 7, 20, order), keyless(BIGINT, "c", 9, 50, order)]
    table.produce(TABLE, again)
    table.merge(TABLE)
    assert sorted(int(str(row["n"])) for row in table.rows(TABLE)) == [8, 9, BIG]


@profiles.in_soak
def test_a_changelog_that_is_replayed_has_each_change_once_whatever_its_columns_are_by_now(
    pipeline: Make,
) -> None:
    table = start(
        pipeline,
        *(keyless(INT, "c", n, 10 + n) for n in range(3)),
        tables={TABLE: {"mode": "changelog"}},
    )
    table.produce(TABLE, [keyless(BIGINT, "c", BIG, 40)])
    table.merge(TABLE)
    table.replay_offsets(TABLE, OffsetRange(0, 0, 4))
    assert sorted(int(str(row["n"])) for row in table.rows(TABLE)) == [0, 1, 2, BIG]


NUMBERS = [(INT, BIGINT, int, BIG), (NUMERIC, LONGER, Decimal, Decimal("9999999999.25"))]
Number = tuple[Kind, Kind, Callable[[int], Value], Value]


@profiles.in_soak
@pytest.mark.parametrize("mode", DeleteMode)
@pytest.mark.parametrize("term", ["{}", "bucket(3, {})", "truncate(2, {})"])
@pytest.mark.parametrize("kinds", NUMBERS, ids=["integers", "decimals"])
@pytest.mark.parametrize("column", ["id", "n"])
def test_rows_are_found_in_partitions_by_a_column_that_is_wider_by_now(
    pipeline: Make,
    monkeypatch: pytest.MonkeyPatch,
    *,
    column: str,
    kinds: Number,
    term: str,
    mode: DeleteMode,
) -> None:
    """The column is the key, or another one, whose rows move to other partitions.

    Where Iceberg could not read the files any more, the table stops, and the remedy helps.
    """
    small, wide, of, big = kinds
    monkeypatch.setattr(read, "ONE_TASK", 0)
    layout = {"partition_by": [term.format(column)], "delete_mode": mode.value}

    def change(kind: Kind, op: str, id_: Value, n: Value, lsn: int) -> Message:
        values = {"id": id_, "n": n}
        values[column] = values[column] if values[column] == big else of(int(values[column]))
        named = {"id": INT, "n": INT, column: kind}
        form = (SourceColumn(1, "id", named["id"], optional=False),
                SourceColumn(2, "n", named["n"]))  # fmt: skip
        return sent(op, form, values, lsn, ("id",))

    old = [change(small, "c", n, n, 10 * n) for n in range(1, 9)]
    table = start(pipeline, *old, tables={TABLE: {"layout": layout}})
    large: tuple[Value, Value] = (big, 50) if column == "id" else (50, big)
    table.produce(TABLE, [
        change(wide, "c", *large, 100), change(wide, "u", 1, 7, 110), change(wide, "d", 2, 2, 120),
    ])  # fmt: skip
    if term == "{}" and of is int:
        with pytest.raises(TerminalError, match="becomes wider, by whose values"):
            table.merge(TABLE)
        layout["partition_by"] = [f"truncate(1, {column})"]
        other: dict[str, object] = {"tables": {TABLE: {"layout": layout}}}
        table = Pipeline(table.base, table.spark, table.folder, other, prefix=table.prefix)
        compacted(table, rewrite=True)
    table.merge(TABLE)
    table.produce(TABLE, [
        change(wide, "u", 3, 8, 130), change(wide, "d", 4, 4, 140), change(wide, "u", 1, 9, 150),
        change(wide, "u", large[0], 6, 160), change(wide, "c", 4, 12, 170), *old,
    ])  # fmt: skip
    table.merge(TABLE)
    rows = {row["id"]: row["n"] for row in table.rows(TABLE)}
    assert rows == {large[0]: 6, 1: 9, 3: 8, 4: 12, **{n: n for n in range(5, 9)}}
