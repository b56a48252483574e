"""GoldenGate's operations: which tables they are of, and what becomes of them in the lake."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from cdc_assets.changes.names import TableName
from cdc_assets.changes.offsets import Coordinate
from cdc_assets.changes.position import Scheme
from cdc_assets.config import SourceConfig
from cdc_assets.databases.mysql.table import MysqlTable
from cdc_assets.errors import TerminalError
from cdc_assets.formats.layout import Layout
from cdc_assets.formats.registered import format_of
from cdc_assets.log.kinds import TopicKind
from cdc_assets.log.values import RawRecord
from cdc_assets.merge.guards.restarts.watch import RestartError
from cdc_assets_tests.formats.messages import ITEMS, format_named, ogg
from cdc_assets_tests.pipeline import Message, Pipeline
from cdc_assets_tests.toy.profiles import in_soak

Make = Callable[..., Pipeline]
NOTES, TOPIC = "shop.notes", "ogg"
PRICED = {"tables": {ITEMS: {"columns": {"price": "decimal(12,4)"}}}}
OGG = format_named("ogg-json")
TABLE = TableName("s", "shop", "items")


def row(id_: int, name: str | None, price: float | None = 1.5) -> dict[str, Any]:
    return {"id": id_, "name": name, "price": price}


@pytest.fixture
def topic(pipeline: Make) -> Callable[..., Pipeline]:
    """A topic of its own name, with these operations in it, and the tables that they name."""

    def start(*messages: Message, partitions: int = 1, **source: object) -> Pipeline:
        made = pipeline(format="ogg-json", **{**PRICED, **source})
        made.shared = {ITEMS: TOPIC, NOTES: TOPIC}
        made.create_topic(TOPIC, partitions)
        made.produce(TOPIC, messages)
        return made

    return start


def names(made: Pipeline) -> dict[object, object]:
    return {key: each["name"] for key, each in made.by_key(ITEMS).items()}


@pytest.mark.stack
def test_what_an_update_leaves_out_is_kept_and_null_is_not(
    topic: Callable[..., Pipeline],
) -> None:
    made = topic(
        ogg("I", 1000, after=row(1, "a", 12345678.1234)),
        ogg("I", 1100, after=row(2, "b")),
        ogg("I", 1150, after={"id": 1, "text": "n"}, table=NOTES),
        ogg("U", 1200, before={}, after={"id": 1, "name": "A"}),
        ogg("U", 1300, before={"id": 2}, after={"id": 2, "name": None}),
    )
    (merged,) = made.merge(ITEMS)
    assert (merged.of_others, merged.other_tables) == (1, (NOTES,))
    assert made.by_key(ITEMS) == {
        1: {"id": 1, "name": "A", "price": Decimal("12345678.1234")},
        2: {"id": 2, "name": None, "price": Decimal("1.5000")},
    }
    made.produce(TOPIC, [ogg("U", 1400, before={"id": 1}, after={"id": 1, "price": 2.5})])
    made.produce(TOPIC, [ogg("D", 1500, before={"id": 2})])
    made.merge(ITEMS)
    assert made.by_key(ITEMS) == {1: {"id": 1, "name": "A", "price": Decimal("2.5000")}}
    made.replay(ITEMS)
    assert made.by_key(ITEMS) == {1: {"id": 1, "name": "A", "price": Decimal("2.5000")}}


@pytest.mark.stack
def test_changes_count_in_the_order_of_the_trail(topic: Callable[..., Pipeline]) -> None:
    """Also between partitions, where a change of the key goes with the new one."""
    made = topic(
        ogg("I", 1000, after=row(1, "a")),
        ogg("U", 1300, before={"id": 1}, after=row(7, "moved"), partition=1),
        ogg("U", 1100, before={"id": 1}, after=row(1, "sent again")),
        ogg("I", 1400, after=row(1, "another"), partition=0),
        partitions=2,
    )
    made.merge(ITEMS)
    assert names(made) == {1: "another", 7: "moved"}
    made.produce(TOPIC, [ogg("U", 1200, before={"id": 1}, after=row(1, "late"))])
    made.merge(ITEMS)
    assert names(made) == {1: "another", 7: "moved"}


@pytest.mark.stack
def test_a_change_of_the_key_comes_as_an_update_or_as_two_operations(
    topic: Callable[..., Pipeline],
) -> None:
    """``pkUpdateHandling``: ``update``, and ``delete-insert`` at one place."""
    made = topic(
        ogg("I", 1000, after=row(1, "a")),
        ogg("I", 1100, after=row(2, "b")),
        ogg("U", 1200, before={"id": 1}, after=row(3, "a")),
        ogg("D", 1300, before=row(2, "b")),
        ogg("I", 1300, after=row(4, "b")),
    )
    made.merge(ITEMS)
    assert names(made) == {3: "a", 4: "b"}


@in_soak
@pytest.mark.stack
def test_a_truncate_removes_what_came_before_in_the_trail(
    topic: Callable[..., Pipeline],
) -> None:
    made = topic(
        ogg("I", 1000, after=row(1, "gone")),
        ogg("I", 1300, after=row(2, "stays")),
        ogg("T", 1200, partition=1),
        ogg("T", 1250, table=NOTES),
        partitions=2,
    )
    made.merge(ITEMS)
    assert names(made) == {2: "stays"}


@in_soak
@pytest.mark.stack
def test_a_trail_that_begins_again_stops_the_table(topic: Callable[..., Pipeline]) -> None:
    made = topic(ogg("I", 10_000_001_000, after=row(1, "a")))
    made.merge(ITEMS)
    newer = {"op_ts": "2026-01-31 13:00:00.000000"}
    made.produce(TOPIC, [ogg("U", 1000, before={}, after=row(1, "newer"), **newer)])
    with pytest.raises(RestartError, match="positions went back"):
        made.merge(ITEMS)
    assert names(made) == {1: "a"}


@pytest.mark.stack
@pytest.mark.parametrize(
    ("messages", "source", "reason"),
    [
        ([ogg("I", 1000, after=row(1, "a"))], {"tables": {}}, "price .*decimal from a float"),
        ([ogg("I", 1000, **row(1, "a"))], {}, "flat rows"),
        ([ogg("I", 1000, after=row(1, "a"), primary_keys=None)], {}, "name no key columns"),
        pytest.param([ogg("I", 1000, after=row(1, "a")), ogg("X", 1100)],
                     {}, "not an operation", marks=in_soak),
        ([ogg("I", 1000, after=row(1, "a")), ogg("U", 1100, before={"id": 1}, after={"id": 3})],
         {}, "key that leaves other columns out"),
        ([ogg("I", 1000, after=row(1, "a")), ogg("I", 1100, after={"id": 2, "price": 1.5})],
         {}, "omitNullValues"),
    ],
    ids=["types", "flat", "keyless", "unknown", "compressed move", "nulls left out"],
)  # fmt: skip
def test_what_cannot_be_exact_stops_the_table(
    topic: Callable[..., Pipeline], messages: list[Message], source: dict[str, Any], reason: str
) -> None:
    made = topic(*messages, **source)
    with pytest.raises(TerminalError, match=reason):
        made.merge(ITEMS)


# ── few records, in Python ────────────────────────────────────────────────────────────────


def raw(each: Message) -> RawRecord:
    return RawRecord(Coordinate("t", 0, 0), datetime(2026, 1, 1, tzinfo=UTC), each.key, each.value)


@pytest.mark.unit
@pytest.mark.parametrize(
    ("message", "kind", "tables"),
    [
        (ogg("I", 1, after=row(1, "a")), TopicKind.CHANGES, {TABLE}),
        (ogg("D", 1, before={"id": 1}, table="pdb.shop.items"), TopicKind.CHANGES,
         {TableName("s", "pdb.shop", "items")}),
        (ogg("I", 1, **row(1, "a")), TopicKind.CHANGES, {TABLE}),
        (ogg("T", 1), TopicKind.CHANGES, {TABLE}),
        (ogg("I", 1, after=row(1, "a"), table="items"), TopicKind.CHANGES, set()),
        (ogg("X", 1), TopicKind.OTHER, set()),
        (Message(None, b'{"op_type":["I"],"table":1}'), TopicKind.OTHER, set()),
        (Message(None, b"[1]"), TopicKind.UNREADABLE, set()),
    ],
    ids=range(8),
)  # fmt: skip
def test_operations_say_what_they_are(
    message: Message, kind: TopicKind, tables: set[TableName]
) -> None:
    assert OGG.kind(raw(message)) is kind
    assert OGG.tables([raw(message)], "s") == tables


@pytest.mark.unit
def test_the_first_insert_tells_the_table() -> None:
    records = [raw(ogg("U", 1, after={"id": 1})), raw(ogg("I", 2, after=row(1, "a", 2)))]
    assert [OGG.holds_row(each, TABLE) for each in records] == [False, True]
    sample = OGG.look(records, TABLE)
    assert (sample.scheme, sample.has_row, sample.refusal) == (Scheme.TRAIL, True, None)
    assert sample.guessed is not None
    assert (sample.guessed.names, sample.guessed.key) == (("id", "name", "price"), ("id",))


@pytest.mark.unit
@pytest.mark.parametrize(
    ("rows", "refused"),
    [
        ([row(1, "a"), {"id": 2, "price": 1.5}], True),
        ([row(1, None), {"id": 2, "price": 1.5}], False),
        ([{"id": 1}, {"id": 2, "added": 1}], False),
        ([{"id": 1, "dropped": 1}, {"id": 2}], False),
    ],
    ids=["nulls left out", "nulls written", "added", "dropped, and named"],
)
def test_inserts_that_lack_columns_tell_that_nulls_are_left_out(rows: list, refused: bool) -> None:
    said = {"tables": {ITEMS: {"absent_columns": ["dropped"]}}, "format": "ogg-json"}
    fmt = format_of(SourceConfig.model_validate({**said, "topics": {"include": [".*"]}}))
    found = fmt.look([raw(ogg("I", at, after=each)) for at, each in enumerate(rows)], TABLE)
    assert (found.refusal is not None) is refused


@pytest.mark.unit
def test_a_table_without_a_key_is_refused() -> None:
    assert OGG.refuses(Layout("goldengate"), ()) is not None
    assert OGG.refuses(Layout("goldengate"), ("id",)) is None


@pytest.mark.unit
def test_no_catalog_tells_how_goldengate_writes_values() -> None:
    with pytest.raises(TerminalError, match="no types from a database's catalog"):
        OGG.of_catalog(MysqlTable((), ()))
