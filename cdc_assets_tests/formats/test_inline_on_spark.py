"""Records that begin with a known schema are read without it, and are what they were with it."""

from __future__ import annotations

import json

import pytest

from cdc_assets.formats.debezium.inline import PAYLOAD, SCHEMA, front_of, known_text
from cdc_assets.formats.spark_hash import spark_hash
from cdc_assets.log.kinds import TopicKind
from cdc_assets.schema.types import Column, Decimal, TableSchema, Wire
from cdc_assets_tests.formats.debezium import debezium_json
from cdc_assets_tests.formats.decoding import TABLE, Bytes, decoded, raw, table_of
from cdc_assets_tests.pipeline import Session


def schema(*columns: str, doc: str = "") -> str:
    fields = [
        {"field": name, "type": "int64" if name == "id" else "string", "optional": name != "id"}
        for name in columns
    ]
    after = {"field": "after", "type": "struct", "optional": True, "fields": fields}
    return json.dumps({"type": "struct", "fields": [after], "doc": doc}, separators=(",", ":"))


def payload(**row: object) -> str:
    source = {"ts_ms": 1_760_000_000_000, "lsn": 7, "sequence": '["6","7"]'}
    event = {"before": None, "after": row, "source": source, "op": "c"}
    return json.dumps(event, separators=(",", ":"), ensure_ascii=False)


def value(text: str, event: str) -> bytes:
    return f"{SCHEMA}{text}{PAYLOAD}{event}}}".encode()


KNOWN, WIDER, LONGER = (
    schema("id", "name"),
    schema("id", "name", "more"),
    schema("id", "name") + " ",
)
GOOD = value(KNOWN, payload(id=1, name="é"))
RECORDS = {
    "good": GOOD,
    "another schema": value(WIDER, payload(id=2, name="a", more="b")),
    "a schema that differs in its last letter": value(schema("id", "name", doc="x"), payload(id=3)),
    "a longer schema": value(LONGER, payload(id=4, name="a")),
    "a payload like a schema": value(KNOWN, payload(id=5, name=f"{KNOWN}{PAYLOAD}")),
    "with spaces": GOOD.replace(b'"payload":', b' "payload": '),
    "payload first": b'{"payload":'
    + payload(id=6).encode()
    + b',"schema":'
    + KNOWN.encode()
    + b"}",
    "more beside it": GOOD[:-1] + b',"beside":{"payload":1}}',
    "more after it": GOOD + b"{}",
    "cut off": GOOD[:-1],
    "cut off before the payload": GOOD[: len(SCHEMA + KNOWN + PAYLOAD)],
    "cut off within the separator": GOOD[: len(SCHEMA + KNOWN + PAYLOAD) - 1],
    "cut off within the schema": GOOD[: len(SCHEMA + KNOWN) - 3],
    "not UTF-8": GOOD.replace("é".encode(), b"\xff"),
    "half a character": value(KNOWN, payload(id=7, name="?").replace("?", "\\ud800")),
    "no payload": value(KNOWN, "null"),
    "no object": value(KNOWN, "7"),
    "no schema": payload(id=8, name="a").encode(),
}


@pytest.mark.spark
@pytest.mark.parametrize("known", [1, 2, 1000], ids="{} schemas are known".format)
def test_a_record_is_the_same_read_with_its_schema_and_without(spark: Session, known: int) -> None:
    records = [Bytes(b'{"id":1}', each) for each in RECORDS.values()]
    fmt = debezium_json()
    table = table_of(fmt, records[:1])
    with_it = decoded(spark, fmt, table, records, most_schemas=known, with_texts=False)
    without = decoded(spark, fmt, table, records, most_schemas=known)
    for name, one, other in zip(RECORDS, with_it.values(), without.values(), strict=True):
        assert one == other, name
    assert [row["row"].asDict() for row in without[0]] == [{"id": 1, "name": "é"}]
    is_read = [name for name, rows in zip(RECORDS, without.values(), strict=True)
               if rows[0]["reject"] is None]  # fmt: skip
    assert {"good", "a payload like a schema"} <= set(is_read)
    assert not {"cut off", "not UTF-8", "half a character"} & set(is_read)


@pytest.mark.unit
@pytest.mark.parametrize(
    ("value_", "refused"), [(12.5, True), (7, True), ("BOI=", False), (None, False), (True, False)]
)
def test_decimals_that_are_numbers_are_refused_by_the_settings_name(value_, refused: bool) -> None:
    column = Column("p", Decimal(10, 2), Wire.DECIMAL_BYTES)
    event = json.dumps({"op": "c", "after": {"id": 1, "p": value_}, "source": {}})
    found = debezium_json().look(raw([Bytes(None, event.encode())]), TABLE)
    refusal = found.inexact(TableSchema((column,)))
    assert (refusal is not None) is refused
    assert refusal is None or "decimal.format=BASE64" in refusal.remedy


NOTHING = (b'{"schema":null,"payload":null}', b'{"schema": null, "payload": null}')
ROW = json.dumps({"id": 1, "name": "a", "__op": "c"})
FIRST = {
    "inline": (GOOD, value(KNOWN, payload(id=1, name="a"))),
    "bare": (payload(id=1, name="a").encode(), payload(id=1, name="a").encode()),
    "flat": (ROW.encode(), ROW.encode()),
}


@pytest.mark.spark
@pytest.mark.parametrize("dialect", FIRST)
def test_a_value_with_a_schema_that_is_null_is_the_value(spark: Session, dialect: str) -> None:
    first, same = FIRST[dialect]
    event = ROW if dialect == "flat" else payload(id=1, name="a")
    around = f'{{"schema":null,"payload":{event}}}'.encode()
    odd = (around[:-1], b'{"schema":null,"payload":7}')
    fmt = debezium_json()
    records = [Bytes(b'{"id":1}', each) for each in (same, around, *NOTHING, *odd)]
    found = decoded(spark, fmt, table_of(fmt, [Bytes(b'{"id":1}', first)], ("id",)), records)
    (plain,), (wrapped,) = found[0], found[1]
    assert (wrapped["op"], wrapped["row"], wrapped["reject"]) == ("c", plain["row"], None)
    assert [(found[n][0]["op"], found[n][0]["reject"]) for n in (2, 3)] == [("tombstone", None)] * 2
    assert all(found[n][0]["reject"] for n in (4, 5))


@pytest.mark.spark
def test_a_record_without_a_schema_has_the_tables_columns_or_is_rejected(spark: Session) -> None:
    rows = ({"id": 1, "name": "a"}, {"id": 1, "name": "a", "more": "b"}, {"id": 1}, {"name": "a"})
    values = [f'{{"schema":null,"payload":{payload(**row)}}}'.encode() for row in rows]
    fmt, key = debezium_json(), b'{"id":1}'
    table = table_of(fmt, [Bytes(key, GOOD)], ("id",))
    found = decoded(spark, fmt, table, [Bytes(key, GOOD), *(Bytes(key, each) for each in values)])
    rejected = [found[n][0]["reject"] for n in range(5)]
    assert rejected[:2] == [None, None]
    assert all("other columns than the table" in each for each in rejected[2:])


@pytest.mark.unit
@pytest.mark.parametrize("op", ["c", "d"])
def test_the_first_record_describes_a_table_in_spite_of_a_schema_that_is_null(op: str) -> None:
    image = {"id": 7, "name": "x"}
    event = {"op": op, "before": None, "after": None, "source": {}}
    event["before" if op == "d" else "after"] = image
    text = json.dumps({"schema": None, "payload": event}).encode()
    fmt = debezium_json()
    records = raw([Bytes(None, text), Bytes(b'{"id":7}', NOTHING[0])])
    found = fmt.look(records, TABLE)
    assert (found.events, found.dialect, found.rows) == (1, "bare", (image,))
    assert [fmt.kind(each) for each in records] == [TopicKind.CHANGES, TopicKind.EMPTY]
    assert fmt.mark(records[1], only_partition=True) is None


@pytest.mark.unit
@pytest.mark.parametrize(
    ("text", "number"),
    [
        (KNOWN, 7),
        (KNOWN[:-1], None),
        (f'{{"doc":1{PAYLOAD}2}}', None),
        (schema("id", doc="\ud800"), None),
        ("", None),
    ],
    ids=["of another number", "cut off", "with a separator in it", "half a character", "none"],
)
def test_a_text_that_does_not_tell_the_records_of_its_schema_is_not_used(text, number) -> None:
    assert front_of(text, spark_hash(text.encode()) if number is None else number) is None


@pytest.mark.unit
def test_the_text_of_a_schema_is_told_by_its_record_and_by_what_stands_for_it() -> None:
    alone = f"{SCHEMA}{KNOWN}}}".encode()
    assert known_text(GOOD) == known_text(alone) == KNOWN
    assert front_of(KNOWN, spark_hash(KNOWN.encode())) == alone[:-1]
    assert known_text(None) == known_text(b"{}") == known_text(alone[:-3] + b"\xff}}") == ""
