"""How records say which schema they have: each framing, and what is none of them."""

import json
from base64 import b64decode
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_assets.changes.offsets import Coordinate
from cdc_assets.formats.wire_id import (
    Framed,
    Framing,
    IdKind,
    SchemaId,
    Side,
    Unframed,
    framing_of,
    read_frame,
)
from cdc_assets.log.values import RawRecord

GOLDEN = Path(__file__).parent / "golden"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
SECRET = b"a value that is nobody's business"


def record(value=None, key=None, headers=(), offset=7):
    return RawRecord(Coordinate("shop.t", 0, offset), NOW, key, value, tuple(headers))


def eight(number):
    return number.to_bytes(8, "big")


PAYLOADS = st.binary(max_size=20)


@pytest.mark.property
@given(st.integers(1, 2**31 - 1), PAYLOADS, st.sampled_from(Side))
def test_each_framing_is_read_whatever_follows(number, payload, side):
    short = record(**{side: b"\0" + number.to_bytes(4, "big") + payload})
    assert read_frame(short, side) == Framed(Framing.CONFLUENT, SchemaId(number), payload)
    long = record(**{side: b"\0" + eight(number) + payload})
    assert read_frame(long, side) == Framed(Framing.APICURIO_8, SchemaId(number), payload)
    for kind in (IdKind.CONTENT, IdKind.GLOBAL):
        headers = [(f"apicurio.{side}.{kind}Id", eight(number))]
        framed = read_frame(record(**{side: payload}, headers=headers), side)
        assert framed == Framed(Framing.HEADERS, SchemaId(number, kind), payload)


@pytest.mark.unit
def test_what_is_absent_has_no_framing():
    assert read_frame(record(), Side.VALUE) is None
    assert read_frame(record(value=b"\0\0\0\0\1"), Side.KEY) is None
    assert framing_of([record()], Side.VALUE) is None
    assert framing_of([], Side.VALUE) is None


@pytest.mark.unit
@pytest.mark.parametrize(
    ("value", "headers", "words"),
    [
        (b"", (), "does not begin with 0x00"),
        (b"\0\0\0\1", (), "does not begin with 0x00"),
        (b'{"op": "c"}', (), "value.converter"),
        (b"\0" * 5 + SECRET[:3], (), "no registry has given"),
        (b"\0" * 20, (), "no registry has given"),
        (b"\0\xff\xff\xff\xff" + SECRET, (), "no registry has given"),
        (b"\1" + UUID(int=7).bytes + SECRET, (), "a GUID before the data"),
        (SECRET, [("__value_schema_id", b"\1" + UUID(int=7).bytes)], "a GUID in the header"),
        (SECRET, [("__value_schema_id", b"\0\0\0\0\1")], "an id in the header"),
        (SECRET, [("apicurio.value.globalId", b"\1")], "no id of 8 bytes"),
        (SECRET, [("apicurio.value.globalId", eight(0))], "no id of 8 bytes"),
        (SECRET, [("apicurio.value.contentId", b"\xff" * 8)], "no id of 8 bytes"),
        (SECRET, [("apicurio.value.artifactId", b"x")], "an artifact and no id"),
        (
            SECRET,
            [("apicurio.value.globalId", eight(1)), ("apicurio.value.encoding", b"JSON")],
            "another encoding than BINARY",
        ),
    ],
    ids=str,
)
def test_what_is_no_framing_has_a_reason_without_values(value, headers, words):
    found = read_frame(record(value, headers=headers), Side.VALUE)
    assert isinstance(found, Unframed)
    assert words in found.reason
    assert SECRET.decode() not in found.reason


@pytest.mark.unit
@pytest.mark.parametrize(
    ("headers", "number"),
    [
        ([("apicurio.value.globalId", eight(1)), ("apicurio.value.contentId", eight(2))], 2),
        ([("apicurio.value.globalId", eight(1)), ("apicurio.value.globalId", eight(3))], 3),
        ([("apicurio.key.globalId", eight(9)), ("apicurio.value.globalId", eight(4))], 4),
        ([("__value_schema_id", None), ("apicurio.value.globalId", eight(5))], 5),
        ([("__key_schema_id", b"\1" + b"g" * 16)], 6),
        ([("apicurio.value.encoding", b"BINARY")], 6),
    ],
    ids=str,
)
def test_headers_come_first_and_the_last_of_a_name_counts(headers, number):
    found = read_frame(record(b"\0\0\0\0\6", headers=headers), Side.VALUE)
    assert isinstance(found, Framed)
    assert found.schema_id.number == number


@pytest.mark.unit
def test_a_sample_has_one_framing():
    confluent, long = record(b"\0\0\0\0\1x", offset=1), record(b"\0" + eight(1), offset=2)
    odd = record(b"{}", offset=3)
    assert framing_of([odd, record(), confluent, confluent], Side.VALUE) is Framing.CONFLUENT
    assert framing_of([long], Side.VALUE) is Framing.APICURIO_8
    several = framing_of([long, confluent], Side.VALUE)
    assert isinstance(several, Unframed)
    assert "apicurio-8 at" in several.reason
    assert "confluent at" in several.reason
    none = framing_of([odd, odd], Side.VALUE)
    assert isinstance(none, Unframed)
    assert "value.converter" in none.reason


@pytest.mark.unit
@pytest.mark.skipif(not GOLDEN.is_dir(), reason="the recordings of Debezium are not there")
@pytest.mark.parametrize(
    ("way", "framing", "kind"),
    [
        ("eight_bytes_global_id", Framing.APICURIO_8, IdKind.PREFIX),
        ("headers_content_id", Framing.HEADERS, IdKind.CONTENT),
        ("headers_global_id", Framing.HEADERS, IdKind.GLOBAL),
        ("confluent_references", Framing.CONFLUENT, IdKind.PREFIX),
    ],
)
def test_what_apicurio_wrote_is_told_apart(way, framing, kind):
    recorded = json.loads((GOLDEN / "debezium_avro_apicurio.json").read_text())
    records = [
        RawRecord(
            Coordinate(each["topic"], each["partition"], each["offset"]),
            NOW,
            *(None if each[side] is None else b64decode(each[side]) for side in ("key", "value")),
            tuple((name, value and b64decode(value)) for name, value in each["headers"]),
        )
        for each in recorded["ways"][way]["records"]
    ]
    ids = {
        version["contentId" if kind is IdKind.CONTENT else "globalId"]
        for versions in recorded["artifacts"].values()
        for version in versions
    } | {version["contentId"] for each in recorded["artifacts"].values() for version in each}
    for side in Side:
        assert framing_of(records, side) is framing
        for each in records:
            frame = read_frame(each, side)
            assert frame is None or (
                isinstance(frame, Framed)
                and frame.schema_id.kind is kind
                and frame.schema_id.number in ids
            )
