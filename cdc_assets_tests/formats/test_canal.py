"""Canal's messages: rows as text, several in a message, several tables in a topic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from cdc_assets.changes.names import TableName
from cdc_assets.changes.offsets import Coordinate
from cdc_assets.config import SourceConfig
from cdc_assets.errors import TerminalError
from cdc_assets.formats.registered import format_of
from cdc_assets.log.kinds import TopicKind
from cdc_assets.log.values import RawRecord
from cdc_assets_tests.formats.canal import (
    OTHER,
    TABLE,
    TOPIC,
    TYPES,
    Flat,
    as_json,
    as_packet,
    ddl,
    flat,
    row,
)
from cdc_assets_tests.pipeline import Message, Pipeline
from cdc_assets_tests.toy import profiles

Make = Callable[..., Pipeline]


@dataclass(frozen=True)
class Way:
    """How changes become records."""

    format: str
    write: Callable[[Sequence[Flat]], list[Message]]


JSON = Way("canal-json", lambda said: [as_json(each) for each in said])
PACKETS = Way("canal-protobuf", lambda said: [as_packet([each]) for each in said])
ONE_PACKET = Way("canal-protobuf", lambda said: [as_packet(said)])
WAYS = {"json": JSON, "packets": PACKETS, "one-packet": ONE_PACKET}
of_json = pytest.mark.parametrize("way", [pytest.param(JSON, id="json")])


def usually(*chosen: str) -> pytest.MarkDecorator:
    """Each way in the soak, and these without it."""
    return pytest.mark.parametrize(
        "way",
        [pytest.param(way, id=name, marks=() if name in chosen else profiles.in_soak)
         for name, way in WAYS.items()],
    )  # fmt: skip


@pytest.fixture
def canal(pipeline: Make, way: Way) -> Callable[..., Pipeline]:
    """A topic of its own name, with these messages in it, and the tables that they name."""

    def start(*said: Flat | Message, **source: object) -> Pipeline:
        made = pipeline(format=way.format, **source)
        made.shared = {TABLE: TOPIC, OTHER: TOPIC}
        made.create_topic(TOPIC)
        odd = [each for each in said if isinstance(each, Message)]
        made.produce(TOPIC, [*way.write([e for e in said if not isinstance(e, Message)]), *odd])
        return made

    return start


@usually("packets")
@pytest.mark.stack
def test_rows_of_one_message_count_in_their_order(canal: Callable[..., Pipeline]) -> None:
    """``UPDATE … SET id = id + 1`` moves each row onto the key that the next one leaves."""
    moved = flat(
        "UPDATE",
        [row(3, "b"), row(2, "a")],
        [{"id": "2"}, {"id": "1"}],
    )
    made = canal(flat("INSERT", [row(1, "a"), row(2, "b")]), moved)
    made.merge(TABLE)
    assert made.by_key(TABLE) == {
        2: {"id": 2, "name": "a", "price": Decimal("1.00")},
        3: {"id": 3, "name": "b", "price": Decimal("1.00")},
    }
    made.replay(TABLE)
    assert len(made.rows(TABLE)) == 2


@usually()
@pytest.mark.stack
def test_null_is_not_the_empty_text_and_a_truncate_removes_what_came_before(
    canal: Callable[..., Pipeline],
) -> None:
    made = canal(
        flat("INSERT", [row(1, "gone")]),
        ddl("TRUNCATE", "TRUNCATE TABLE items"),
        flat("INSERT", [row(2, ""), row(3, None, None)]),
        ddl("ALTER", "/* c */ ALTER TABLE items COMMENT 'x'"),
        flat("DELETE", [row(2, "")]),
        flat("INSERT", [row(2, "")]),
    )
    (merged,) = made.merge(TABLE)
    assert merged.passed_over == 1
    assert made.by_key(TABLE) == {
        2: {"id": 2, "name": "", "price": Decimal("1.00")},
        3: {"id": 3, "name": None, "price": None},
    }


@usually("json")
@pytest.mark.stack
def test_tables_of_one_topic_are_told_apart_and_told_of(canal: Callable[..., Pipeline]) -> None:
    notes = {"id": "bigint unsigned", "text": "text"}
    made = canal(
        flat("INSERT", [row(1, "a")]),
        flat("INSERT", [{"id": "18446744073709551615", "text": "n"}], table=OTHER, types=notes),
        ddl("TRUNCATE", "TRUNCATE TABLE notes", OTHER),
        flat("INSERT", [{"id": "7", "text": "n"}], table=OTHER, types=notes),
    )
    (merged,) = made.merge(TABLE)
    assert (merged.records, merged.of_others, merged.other_tables) == (1, 3, (OTHER,))
    assert made.by_key(TABLE) == {1: {"id": 1, "name": "a", "price": Decimal("1.00")}}
    (merged,) = made.merge(OTHER)
    assert merged.other_tables == (TABLE,)
    assert made.rows(OTHER) == [{"id": Decimal(7), "text": "n"}]


@usually("packets")
@pytest.mark.stack
def test_a_column_more_is_added_though_its_message_came_last(
    canal: Callable[..., Pipeline],
) -> None:
    wider = {**TYPES, "added": "double"}
    made = canal(
        flat("INSERT", [row(1, "a")]),
        flat("UPDATE", [{**row(1, "a"), "added": "2.5"}], [{"added": None}], types=wider),
    )
    made.merge(TABLE)
    assert made.rows(TABLE) == [{"id": 1, "name": "a", "price": Decimal("1.00"), "added": 2.5}]


@of_json
@pytest.mark.stack
def test_tidb_orders_by_its_commit_timestamp(canal: Callable[..., Pipeline]) -> None:
    made = canal(
        flat("INSERT", [row(1, "first")], commit=10),
        flat("UPDATE", [row(1, "newest")], [{"name": "x"}], commit=30),
        flat("UPDATE", [row(1, "late")], [{"name": "y"}], commit=20),
        flat("TIDB_WATERMARK", None, types={}, commit=None, _tidb={"watermarkTs": 31}),
    )
    made.merge(TABLE)
    assert [each["name"] for each in made.rows(TABLE)] == ["newest"]
    made.produce(TOPIC, [as_json(flat("DELETE", [row(1, "newest")], commit=40))])
    made.produce(TOPIC, [as_json(flat("UPDATE", [row(1, "back")], [{"name": "z"}], commit=25))])
    made.merge(TABLE)
    assert made.rows(TABLE) == []


@profiles.in_soak
@pytest.mark.stack
@pytest.mark.parametrize(
    ("way", "reason"),
    [
        pytest.param(JSON, "not a JSON object", id="json"),
        pytest.param(PACKETS, "it is not protobuf", id="packets"),
    ],
)
def test_what_is_no_message_stops_each_table_of_the_topic(
    canal: Callable[..., Pipeline], reason: str
) -> None:
    made = canal(flat("INSERT", [row(1, "a")]), Message(None, b'{"data": 7'))
    with pytest.raises(TerminalError, match=reason) as caught:
        made.merge(TABLE)
    assert "offset=1" in str(caught.value)


def raw(each: Message) -> RawRecord:
    return RawRecord(Coordinate("t", 0, 0), datetime(2026, 1, 1, tzinfo=UTC), each.key, each.value)


CANAL = format_of(
    SourceConfig.model_validate({"format": "canal-json", "topics": {"include": [".*"]}})
)
ODD = [
    b"",
    b"no JSON",
    b"[1]",
    b'{"type":{}}',
    b'{"type":[],"database":"a","table":"b"}',
    b'{"data":[1,[],null],"mysqlType":{"id":1}}',
    b"\xff",
    b"[" * 99999,
]


@pytest.mark.unit
def test_messages_name_their_tables() -> None:
    found = [
        flat("INSERT", [row(1, "a")]),
        ddl("ALTER", "ALTER TABLE x", "shop.altered"),
        flat("DELETE", [row(1, "a")], table=OTHER),
    ]
    records = [raw(as_json(each)) for each in found]
    assert CANAL.tables(records, "s") == {
        TableName("s", *TABLE.split(".")),
        TableName("s", *OTHER.split(".")),
    }
    kinds = [CANAL.kind(each) for each in records]
    assert kinds == [TopicKind.CHANGES, TopicKind.SCHEMA_CHANGES, TopicKind.CHANGES]


@pytest.mark.unit
@pytest.mark.parametrize("value", ODD, ids=range(len(ODD)))
def test_odd_messages_describe_nothing(value: bytes) -> None:
    record = raw(Message(None, value))
    assert CANAL.tables([record], "s") == frozenset()
    assert CANAL.kind(record) in {TopicKind.UNREADABLE, TopicKind.OTHER}
    sample = CANAL.look([record], TableName("s", "a", "b"))
    assert (sample.events, sample.described) == (0, None)
