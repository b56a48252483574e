"""Whatever a record holds, it costs that record only: the others are merged around it."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from cdc_assets.errors import RejectedRecordError, TerminalError, TransientError
from cdc_assets_tests.merge.events import event, tombstone, truncate
from cdc_assets_tests.merge.inline import in_schema
from cdc_assets_tests.merge.odd_records import (
    CANARY,
    COLUMNS,
    NO_SCHEMAS,
    SCHEMA,
    Odd,
    good,
    merged,
    odd_records,
)
from cdc_assets_tests.merge.one_table import TABLE, Make, names, start
from cdc_assets_tests.pipeline import Message, Pipeline
from cdc_assets_tests.toy import profiles

pytestmark = pytest.mark.spark

TYPED = {TABLE: {"primary_key": ["id"], "columns": COLUMNS}}
QUARANTINE: dict[str, Any] = {"bad_records": "quarantine", "tables": TYPED}


def message(odd: Odd) -> Message:
    return Message(odd.key, odd.value)


def set_aside(pipeline: Pipeline) -> dict[int, str]:
    """Offsets in partition 0, and why."""
    kept = pipeline.spark().table(f"lake.cdc_assets_quarantine.{pipeline.prefix}").collect()
    return {row["offset"]: row["reason"] for row in kept}


def require_discreet(reasons: dict[int, str]) -> None:
    assert all(CANARY not in why and len(why) < 200 for why in reasons.values())


def require_only_themselves(pipeline: Pipeline, odd: list[Odd], first_offset: int) -> None:
    wanted = {each.row["id"]: each.row for each in odd if each.row is not None}
    found = pipeline.by_key(TABLE)
    assert {id_: found[id_] for id_ in found if id_ in wanted} == wanted
    reasons = set_aside(pipeline)
    rejected = {first_offset + at: each.name for at, each in enumerate(odd) if each.row is None}
    assert {at: reasons.get(at) for at in rejected if at not in reasons} == {}
    assert {at: odd[at - first_offset].name for at in reasons if at not in rejected} == {}
    require_discreet(reasons)


@pytest.mark.parametrize(
    "inline",
    [False, pytest.param(True, marks=profiles.in_soak)],
    ids=["bare", "inline schema"],
)
def test_odd_records_are_set_aside_and_the_others_merged(pipeline: Make, inline: bool) -> None:
    """They are also among those that the table is described by."""
    odd, then = odd_records(100), odd_records(1000)
    messages = [good(1), *map(message, odd), good(2)]
    wrapped = [in_schema(each, SCHEMA) if inline else each for each in messages]
    made = start(pipeline, *wrapped, **QUARANTINE)
    require_only_themselves(made, odd, 1)
    # Again: the table is there now, and two good ones come after them.
    later = [*map(message, then), good(3), good(4)]
    made.produce(TABLE, [in_schema(each, SCHEMA) if inline else each for each in later])
    made.merge(TABLE)
    rows = made.by_key(TABLE)
    assert {id_: rows[id_] for id_ in (1, 2, 3, 4)} == {id_: merged(id_) for id_ in (1, 2, 3, 4)}
    assert len(rows) == 4 + 2 * sum(each.row is not None for each in odd)
    assert made.merge(TABLE) == []


def test_an_odd_record_stops_the_table_with_its_coordinate_if_so_configured(pipeline: Make) -> None:
    deep = Message(b'{"id":2}', b"[" * 10_000)
    made = pipeline(tables=TYPED)
    made.create_topic(TABLE)
    made.produce(TABLE, [deep, good(1)])
    with pytest.raises(RejectedRecordError, match="partition=0 offset=0"):
        made.merge(TABLE)
    assert made.rows(TABLE) == []


def test_a_schema_that_is_none_costs_its_record_only(pipeline: Make) -> None:
    odd = [in_schema(good(100 + n), schema) for n, schema in enumerate(NO_SCHEMAS.values())]
    deep = b'{"schema":' + b"[" * 10_000 + b"]" * 10_000 + b',"payload":{"op":"c"}}'
    odd.append(Message(b'{"id":99}', deep))
    made = start(pipeline, *odd, in_schema(good(1), SCHEMA), *odd, **QUARANTINE)
    assert made.rows(TABLE) == [merged(1)]
    reasons = set_aside(made)
    assert set(reasons) == set(range(2 * len(odd) + 1)) - {len(odd)}
    require_discreet(reasons)


def test_two_hundred_odd_records_before_the_first_event(pipeline: Make) -> None:
    odd = [Message(b'{"id":7}', b"[" * 10_000)] * 100 + [Message(None, b"\xff")] * 150
    made = start(pipeline, *odd, event("c", {"id": 1, "name": "a"}, 10, commit=5),
                 bad_records="quarantine")  # fmt: skip
    assert names(made) == {1: "a"}
    assert set(set_aside(made)) == set(range(250))


def test_single_odd_values_do_not_settle_a_type(pipeline: Make) -> None:
    rows = [event("c", {"id": n, "name": "a", "n": n}, 100 + n, commit=5) for n in range(60)]
    odd = event("c", {"id": 900, "name": {"a": 1}, "n": "seven"}, 10, commit=5)
    other = event("c", {"id": 901, "name": "b", "n": [1]}, 11, commit=5)
    made = start(pipeline, odd, other, *rows, bad_records="quarantine")
    assert set(made.by_key(TABLE)) == set(range(60))
    assert set(set_aside(made)) == {0, 1}


# ── size ──────────────────────────────────────────────────────────────────────────────────

MEGABYTE = 1 << 20


def large(pipeline: Make, **source: Any) -> Pipeline:
    """A pipeline whose topic takes records of 64 MB."""
    made = pipeline(**source)
    topic = made.create_topic(TABLE)
    raised = ConfigEntry("max.message.bytes", str(64 * MEGABYTE),
                         incremental_operation=AlterConfigOpType.SET)  # fmt: skip
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[raised])
    for future in made.admin.incremental_alter_configs([resource]).values():
        future.result(30)
    brokers = made.base.kafka.bootstrap_servers
    made.producer = Producer({"bootstrap.servers": brokers, "message.max.bytes": 64 * MEGABYTE})
    return made


def named(id_: int, name: str, key: bytes | None = None) -> Message:
    made = event("c", {"id": id_, "name": name}, 100 + id_, commit=5)
    return Message(key or made.key, made.value)


@profiles.in_soak
def test_records_of_twenty_megabytes(pipeline: Make) -> None:
    """A text may be as long as its record."""
    made = large(pipeline, bad_records="quarantine")
    escaped = '"\\\n' * (2 * MEGABYTE)
    texts = {3: CANARY * 2 * MEGABYTE, 1: "a", 2: "b" * 19_900_000, 4: escaped, 5: "e"}
    messages = [named(id_, text) for id_, text in texts.items()]
    huge_key = named(6, "f", b'{"id":6,"x":"' + b"k" * 20 * MEGABYTE + b'"}')
    unread = Message(b'{"id":7}', b"[" * 20 * MEGABYTE)
    for each in (*messages, unread, huge_key):
        made.produce(TABLE, [each])
    made.merge(TABLE)
    assert names(made) == {**texts, 6: "f"}
    reasons = set_aside(made)
    assert set(reasons) == {5}
    require_discreet(reasons)
    made.produce(TABLE, [Message(huge_key.key, None)])
    made.merge(TABLE)
    assert names(made) == texts


# ── the first event ───────────────────────────────────────────────────────────────────────

DELETED = event("d", {"id": 9, "name": "gone"}, 10, commit=5)
ONLY_KEY = event("d", {"id": 9}, 10, commit=5)
BARE_DELETE = Message(
    b'{"id":9}', json.dumps({**json.loads(ONLY_KEY.value or b""), "before": None}).encode()
)
FIRST = {
    "a delete with its row": [DELETED, tombstone(9)],
    "a delete with its key": [ONLY_KEY, tombstone(9)],
    "a delete without before": [BARE_DELETE, tombstone(9)],
    "a record without a value": [tombstone(9)],
    "a truncate": [truncate(10, commit=5)],
    "two hundred deletes": [BARE_DELETE, tombstone(9)] * 250,
}


INFERRED: dict[str, Any] = {}
BY_KEY = {TABLE: {"primary_key": ["id"]}}
TYPES = {"inferred": INFERRED, "configured": TYPED, "configured key": BY_KEY}
AT_HAND = {
    ("a delete with its row", "inferred"),
    ("a delete with its key", "inferred"),
    ("a delete without before", "inferred"),
    ("a truncate", "configured"),
    ("a record without a value", "configured key"),
}
"""Each kind of event, each kind of configuration; the other pairs are for `make soak`."""


@pytest.mark.parametrize(
    ("first", "types"),
    [
        pytest.param(
            FIRST[first], TYPES[types], id=f"{first}, {types}",
            marks=[] if (first, types) in AT_HAND else [profiles.in_soak],
        )
        for first, types in itertools.product(FIRST, TYPES)
    ],
)  # fmt: skip
def test_a_table_may_begin_with_any_event(
    pipeline: Make, first: list[Message], types: dict[str, Any]
) -> None:
    made = pipeline(tables=types)
    made.create_topic(TABLE)
    made.produce(TABLE, first)
    if first[0] is DELETED or types is TYPED:
        made.merge(TABLE)
    else:
        with pytest.raises(TransientError, match="holds no row yet"):
            made.merge(TABLE)
    assert made.rows(TABLE) == []
    made.produce(TABLE, [event("c", {"id": 1, "name": "a"}, 50, commit=45)])
    made.merge(TABLE)
    assert names(made) == {1: "a"}


# ── names ─────────────────────────────────────────────────────────────────────────────────

ODD_NAMES = ["__unreadable", "__none", "payload", "op", "key", "row", "none", "a.b", "back`tick",
             'quo"te', "tab\there", "line\nbreak", "größe", " ", "$", "known_key", "position",
             "\x01", "emoji \U0001f600", "back\\slash", "'"]  # fmt: skip


def test_columns_may_have_odd_names(pipeline: Make) -> None:
    row = {"id": 1, **{name: f"value of {name!r}" for name in ODD_NAMES}}
    made = start(pipeline, event("c", row, 10, commit=5))
    assert made.by_key(TABLE) == {1: row}
    changed = {**row, "__none": None, "a.b": "changed"}
    made.produce(TABLE, [event("u", changed, 20, commit=15, before=row)])
    made.merge(TABLE)
    assert made.by_key(TABLE) == {1: changed}


RESERVED = ["_file", "_row_id", "_cdc_ts", "_cdc_deleted", ""]


@pytest.mark.parametrize("name", RESERVED)
def test_a_column_that_cannot_be_stored_is_refused_with_words(pipeline: Make, name: str) -> None:
    made = pipeline(tables={TABLE: {"deletes": "soft"}})
    made.create_topic(TABLE)
    made.produce(TABLE, [event("c", {"id": 1, name: "a"}, 10, commit=5)])
    with pytest.raises(TerminalError, match=f"columns '{name}' carry names that"):
        made.merge(TABLE)


def test_columns_may_differ_in_case_only(pipeline: Make) -> None:
    row = {"id": 1, "ID": 2, "name": "a", "Name": "b"}
    made = start(pipeline, event("c", row, 10, commit=5))
    made.produce(TABLE, [event("u", {**row, "Name": "c"}, 20, commit=15)])
    made.merge(TABLE)
    assert made.rows(TABLE) == [{"id": 1, "ID__2": 2, "name": "a", "Name__2": "c"}]
