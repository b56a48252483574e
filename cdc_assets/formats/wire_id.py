"""Finds the id of a record's writer schema, and the start of its data.

=============  =================================================================================
confluent      ``0x00``, id in 4 bytes, data. Confluent's serializer, and Apicurio's from 3.0 on
apicurio-8     ``0x00``, id in 8 bytes, data. Apicurio's before 3.0, or ``Legacy8ByteIdHandler``
headers        the data alone; the id in 8 bytes in a header ``apicurio.value.contentId`` or
               ``.globalId`` (``apicurio.key.…`` of a key)
glue           ``0x03``, ``0x00`` or ``0x05``, a UUID in 16 bytes, data; after ``0x05`` the data is
               compressed by zlib. Serializers of AWS Glue Schema Registry
=============  =================================================================================

Ids are big-endian. They begin with 1 in every registry, and none has reached 2³¹ yet: the first
four bytes of an id of 8 are therefore zero, which an id of 4 never is, so that each record shows
its framing. Apicurio's ``OptimisticFallbackIdHandler`` reads by the same rule. Headers take
precedence, as in Apicurio's deserializer, and of headers with the same name the last counts.

Confluent's clients from 8.0 on can put a GUID into ``__value_schema_id`` instead. Such records are
recognized and not read. Whether a source's records are of Glue, its configuration says
(``schema_registry.api``). Sources: ``schema-serializer/…/schema/id`` in
confluentinc/schema-registry, ``serdes/`` in Apicurio/apicurio-registry, and
``AWSSchemaRegistryConstants`` in awslabs/aws-glue-schema-registry.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from uuid import UUID

from cdc_assets.log.values import Headers, RawRecord

_MAGIC: Final = 0
_MAGIC_OF_GUID: Final = 1
_GUID_BYTES: Final = 17
_LONG_BYTES: Final = 8
_LARGEST: Final = 2**31 - 1
_MAGIC_OF_GLUE: Final = 3
_ZLIB: Final = 5
_COMPRESSIONS: Final = (0, _ZLIB)
_GLUE_BYTES: Final = 18

MOST_INFLATED: Final = 128 << 20
"""Limit of the bytes of a record's data that Glue's serializer has compressed."""


class Side(StrEnum):
    """A side of a record, as headers name it."""

    KEY = "key"
    VALUE = "value"


class Framing(StrEnum):
    """The ways in which a record refers to its schema; see above."""

    CONFLUENT = "confluent"
    APICURIO_8 = "apicurio-8"
    HEADERS = "headers"
    GLUE = "glue"


class IdKind(StrEnum):
    """The kind of object that a schema id numbers."""

    PREFIX = "prefix"
    """Unknown: records with an id before the data do not state its kind."""

    CONTENT = "content"
    """Apicurio's distinct contents."""

    GLOBAL = "global"
    """Apicurio's versions of artifacts."""

    VERSION = "version"
    """Glue's versions of schemas, which have UUIDs."""


@dataclass(frozen=True, slots=True)
class SchemaId:
    """A registry's id of a schema; it never refers to another schema later."""

    number: int
    kind: IdKind = IdKind.PREFIX

    def __str__(self) -> str:
        if self.kind is IdKind.VERSION:
            return str(UUID(int=self.number))
        return str(self.number) if self.kind is IdKind.PREFIX else f"{self.number} ({self.kind})"


@dataclass(frozen=True, slots=True)
class Framed:
    """A key or value: its schema and its Avro binary."""

    framing: Framing
    schema_id: SchemaId
    payload: bytes


@dataclass(frozen=True, slots=True)
class Unframed:
    """The reason why it is none of these; without any content of the record."""

    reason: str


def read_frame(record: RawRecord, side: Side, *, of_glue: bool = False) -> Framed | Unframed | None:
    """Returns the schema id and the data of a record's key or value; None if it has none.

    Args:
        record: the record.
        side: its key, or its value.
        of_glue: whether its schema is in Glue.
    """
    data = record.key if side is Side.KEY else record.value
    if data is None:
        return None
    if of_glue:
        return _of_glue(data, side)
    refused = _refused_by_headers(record.headers, side)
    return refused or _by_headers(record.headers, side, data) or _by_prefix(data, side)


def framing_of(
    records: Iterable[RawRecord], side: Side, *, of_glue: bool = False
) -> Framing | Unframed | None:
    """Returns the one framing of a sample's keys or values.

    Records without a framing are passed over; each of them is rejected when it is merged.

    Returns:
        None if no record of the sample has such a side; a reason if several framings occur, or,
        from the first unreadable record, if none can be read.
    """
    found: dict[Framing, str] = {}
    first: Unframed | None = None
    for record in records:
        match read_frame(record, side, of_glue=of_glue):
            case Framed(framing, _, _):
                found.setdefault(framing, str(record.coordinate))
            case Unframed() as reason:
                first = first or reason
            case None:
                continue
    if len(found) > 1:
        listed = ", ".join(f"{framing} at {place}" for framing, place in sorted(found.items()))
        return Unframed(f"{side}s say in several ways which schema they have: {listed}")
    return next(iter(found), first)


def _refused_by_headers(headers: Headers, side: Side) -> Unframed | None:
    guid, encoding = f"__{side}_schema_id", f"apicurio.{side}.encoding"
    if (given := _last(headers, guid)) is not None:
        what = "a GUID" if len(given) == _GUID_BYTES and given[0] == _MAGIC_OF_GUID else "an id"
        return Unframed(
            f"its schema is {what} in the header {guid}: set {side}.schema.id.serializer at the "
            "converter to io.confluent.kafka.serializers.schema.id.PrefixSchemaIdSerializer"
        )
    if (_last(headers, encoding) or b"BINARY") != b"BINARY":
        return Unframed(
            f"its header {encoding} names another encoding than BINARY: set "
            "apicurio.registry.avro.encoding: BINARY at the converter"
        )
    return None


def _by_headers(headers: Headers, side: Side, data: bytes) -> Framed | Unframed | None:
    """Reads the id from headers, the content id first, as Apicurio does."""
    for kind in (IdKind.CONTENT, IdKind.GLOBAL):
        name = f"apicurio.{side}.{kind}Id"
        given = _last(headers, name)
        if given is None:
            continue
        number = int.from_bytes(given, "big", signed=True)
        if len(given) != _LONG_BYTES or not 0 < number:
            return Unframed(f"its header {name} is no id of 8 bytes")
        return Framed(Framing.HEADERS, SchemaId(number, kind), data)
    if any(name.startswith(f"apicurio.{side}.artifact") for name, _ in headers):
        return Unframed("its headers name an artifact and no id of its schema")
    return None


def _by_prefix(data: bytes, side: Side) -> Framed | Unframed:
    if data[:1] == bytes([_MAGIC_OF_GUID]) and len(data) >= _GUID_BYTES:
        return Unframed(f"its schema may be a GUID before the data, or it is no Avro {side}")
    if data[:1] != bytes([_MAGIC]) or len(data) < 5:
        return Unframed(f"its {side} does not begin with 0x00 and a schema id: look at {_at(side)}")
    short, long = int.from_bytes(data[1:5], "big"), int.from_bytes(data[1:9], "big")
    if 0 < short <= _LARGEST:
        return Framed(Framing.CONFLUENT, SchemaId(short), data[5:])
    if short == 0 and len(data) > _LONG_BYTES and long > 0:
        return Framed(Framing.APICURIO_8, SchemaId(long), data[9:])
    return Unframed(f"no registry has given the schema id that its {side} begins with")


def _of_glue(data: bytes, side: Side) -> Framed | Unframed:
    if len(data) < _GLUE_BYTES or data[0] != _MAGIC_OF_GLUE or data[1] not in _COMPRESSIONS:
        return Unframed(
            f"its {side} does not begin as Glue's serializer writes: look at {_at(side)}"
        )
    schema_id = SchemaId(int.from_bytes(data[2:_GLUE_BYTES], "big"), IdKind.VERSION)
    payload = data[_GLUE_BYTES:]
    if data[1] == _ZLIB:
        inflating = zlib.decompressobj()
        try:
            payload = inflating.decompress(payload, MOST_INFLATED)
        except zlib.error:
            return Unframed(f"its {side} is not compressed as it says")
        if not inflating.eof:
            return Unframed(f"its {side} is cut off, or larger than {MOST_INFLATED:,} bytes")
    return Framed(Framing.GLUE, schema_id, payload)


def _at(side: Side) -> str:
    return f"{side}.converter of the connector"


def _last(headers: Headers, name: str) -> bytes | None:
    """Returns the last header of this name; a header without a value counts as none."""
    return next((value for each, value in reversed(headers) if each == name and value), None)
