"""Debezium's JSON envelope, with and without an inline schema: raw records to changes.

A decoded batch has one row per record and these columns (the contract of every format):

====================  ==============================================================
``op``                ``c`` ``u`` ``d`` ``r`` ``t``; ``tombstone`` for a record without a value
``n0`` … ``nk``       the numbers of the position, see `cdc_assets.changes.position`
``partition offset``  where the record lies in Kafka
``ts``                the source's commit time; NULL for snapshot rows, whose changes are older
``key``               struct of the key columns
``row``               struct of all columns, decoded; NULL for deletes
``unset``             struct of booleans: which columns hold the "unchanged" placeholder
``reject``            why the record cannot be merged, without its values; NULL if it can
``unknown``           a field of the row that the schema does not have; NULL if none was found
``read_lsn``          position of a snapshot row, ``floating_lsn`` of a change without last
                      commit: see `cdc_assets.changes.position`
====================  ==============================================================

https://debezium.io/documentation/reference/stable/connectors/postgresql.html
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    LongType,
    StringType,
    StructField,
    StructType,
)

from cdc_assets.formats.values import decoded, unfit, wire_type
from cdc_assets.schema.types import Column, TableSchema, Wire

TOMBSTONE: Final = "tombstone"
ROW_OPS: Final = ("c", "u", "r")
_BAD: Final = "__unreadable"


@dataclass(frozen=True, slots=True)
class DecodeSpec:
    """How to read one batch's records of one table.

    Attributes:
        schema: columns with their wire encodings, and the key.
        inline: records carry their schema: the envelope is under ``payload``.
        target: the lake's columns; those that the record does not have become NULL.
        placeholder: the connector's ``unavailable.value.placeholder``.
        unset_able: columns that ``unset`` tells of; see `unset_able`.
        read_floor: see `cdc_assets.changes.position`.
    """

    schema: TableSchema
    inline: bool
    target: TableSchema
    placeholder: str
    unset_able: tuple[str, ...] = ()
    read_floor: int = 0

    @property
    def key_columns(self) -> tuple[Column, ...]:
        """The columns of the key, in key order."""
        return tuple(self.schema.column(name) for name in self.schema.key)


def decode(raw: DataFrame, spec: DecodeSpec) -> DataFrame:
    """Changes from Kafka records (``key value partition offset`` as Spark's source gives them).

    Nothing is dropped: records that cannot be merged stay, with a reason in ``reject``.
    """
    text = F.col("value").cast("string")
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _BAD}
    parsed = raw.select(
        F.from_json(text, _document_type(spec), options).alias("document"),
        text.alias("text"),
        F.col("key").cast("string").alias("key_text"),
        F.col("value").isNull().alias("is_tombstone"),
        "partition",
        "offset",
    )
    envelope = F.col("document.payload") if spec.inline else F.col("document")
    return _changes(parsed, envelope, spec)


def _changes(parsed: DataFrame, envelope: Expression, spec: DecodeSpec) -> DataFrame:
    op = F.when(F.col("is_tombstone"), TOMBSTONE).otherwise(envelope.getField("op"))
    after = envelope.getField("after")
    has_row = op.isin(*ROW_OPS) & after.isNotNull()
    named = parsed.select(
        op.alias("op"),
        *_position(envelope, spec),
        "partition",
        "offset",
        _commit_time(envelope).alias("ts"),
        _key(envelope, op, spec).alias("key"),
        F.when(has_row, _row(after, spec)).alias("row"),
        _unset(envelope, spec).alias("unset"),
        _rejection(envelope, op, spec).alias("reject"),
        _unknown(after, spec).alias("unknown"),
    )
    if not spec.schema.key:
        return named
    missing = reduce(
        lambda left, right: left | right,
        (F.col("key").getField(name).isNull() for name in spec.schema.key),
    )
    no_key = (F.col("op") != TOMBSTONE) & missing
    return named.withColumn(
        "reject", F.coalesce("reject", F.when(no_key, "a key column has no value"))
    )


# ── shapes ────────────────────────────────────────────────────────────────────────────────


def _document_type(spec: DecodeSpec) -> StructType:
    envelope = StructType(
        [
            StructField("before", _struct(spec.key_columns)),
            StructField("after", _struct(spec.schema.columns)),
            StructField("source", _SOURCE),
            StructField("op", StringType()),
        ]
    )
    if spec.inline:
        envelope = StructType([StructField("payload", envelope)])
    return StructType([*envelope.fields, StructField(_BAD, StringType())])


_SOURCE = StructType(
    [
        StructField("ts_ms", LongType()),
        StructField("ts_us", LongType()),
        StructField("lsn", LongType()),
        StructField("sequence", StringType()),
        StructField("snapshot", StringType()),
    ]
)


def _struct(columns: tuple[Column, ...]) -> StructType:
    if not columns:
        return StructType([StructField("__none", StringType())])
    return StructType([StructField(column.name, wire_type(column)) for column in columns])


# ── parts of a change ─────────────────────────────────────────────────────────────────────


def _position(envelope: Expression, spec: DecodeSpec) -> Iterator[Expression]:
    """The same rule as `position.postgres`; all zero for sources without an LSN."""
    source = envelope.getField("source")
    lsn, sequence = source.getField("lsn"), source.getField("sequence")
    commit = F.when(
        sequence.startswith('["'), F.substring_index(F.substring(sequence, 3, 40), '"', 1)
    ).try_cast("bigint")
    floor = F.lit(spec.read_floor)
    at_floor = F.greatest(lsn, floor)
    is_read = _is_read(envelope)
    first = commit.isNull() | (commit == floor)
    zero = F.lit(0).cast("bigint")
    yield F.coalesce(F.when(is_read, lsn).when(first, at_floor).otherwise(commit), zero).alias("n0")
    yield F.coalesce(F.when(is_read, lsn).when(first, at_floor).otherwise(lsn), zero).alias("n1")
    yield F.col("offset").alias("n2")
    yield F.when(is_read, lsn).alias("read_lsn")
    yield F.when(~is_read & commit.isNull(), lsn).alias("floating_lsn")


def _is_read(envelope: Expression) -> Expression:
    """A row of a snapshot. Some connectors send those as ``c`` and say so in ``snapshot``."""
    snapshot = envelope.getField("source").getField("snapshot")
    in_snapshot = F.coalesce(snapshot, F.lit("false")) != "false"
    return (envelope.getField("op") == "r") | in_snapshot


def _commit_time(envelope: Expression) -> Expression:
    source = envelope.getField("source")
    micros = F.coalesce(source.getField("ts_us"), source.getField("ts_ms") * 1000)
    return F.when(~_is_read(envelope), F.timestamp_micros(micros))


def _key(envelope: Expression, op: Expression, spec: DecodeSpec) -> Expression:
    """From the row; of a delete from ``before``, else from the record's key."""
    if not spec.schema.key:
        return F.lit(None).cast("struct<none:string>")
    after, before = envelope.getField("after"), envelope.getField("before")
    columns = spec.key_columns
    first = before.getField(columns[0].name)
    from_record = F.when((op == "d") & first.isNull(), _record_key(spec))

    def value(column: Column) -> Expression:
        deleted = F.coalesce(before.getField(column.name), from_record.getField(column.name))
        wire = F.when(op == "d", deleted).otherwise(after.getField(column.name))
        return decoded(wire, column).alias(column.name)

    return F.struct(*(value(column) for column in columns))


def _record_key(spec: DecodeSpec) -> Expression:
    """The Kafka key, with or without a schema around it."""
    bare = _struct(spec.key_columns)
    wrapped = StructType([StructField("payload", bare)])
    text = F.col("key_text")
    is_wrapped = text.startswith('{"schema":')
    return F.when(is_wrapped, F.from_json(text, wrapped).getField("payload")).otherwise(
        F.from_json(text, bare)
    )


def _row(after: Expression, spec: DecodeSpec) -> Expression:
    return F.struct(
        *(_value(after, column, spec).alias(column.name) for column in spec.target.columns)
    )


def _value(after: Expression, target: Column, spec: DecodeSpec) -> Expression:
    if target.name not in spec.schema.names:
        return F.lit(None).cast(str(target.type))
    column = spec.schema.column(target.name)
    value = decoded(after.getField(column.name), column)
    return value if column.type == target.type else value.cast(str(target.type))


def _unknown(after: Expression, spec: DecodeSpec) -> Expression:
    """Without a schema in the record, its field names are the only sign of a new column.

    Reading each record's names would cost as much as parsing it. Nearly all records match
    `usual_layout`, which is cheap to test and leaves no room for another name.
    """
    if spec.inline:
        return F.lit(None).cast("string")
    unusual = ~F.col("text").rlike(usual_layout(spec.schema.names))
    fields = F.json_object_keys(F.get_json_object(F.col("text"), "$.after"))
    known = F.array(*(F.lit(name) for name in spec.schema.names))
    return F.when(after.isNotNull() & unusual, F.get(F.array_except(fields, known), F.lit(0)))


def usual_layout(names: tuple[str, ...]) -> str:
    """What a record starts with whose ``after`` has these fields, in this order, and no other.

    Possessive throughout: it neither backtracks nor recurses, however long a value is.
    """
    text = r'"(?:[^"\\]++|\\.)*+"'
    scalar = r'[^",\[\]{}]++'
    array = rf'\[(?:{text}|[^"\[\]{{}}]++)*+\]'
    flat = rf'\{{(?:{text}|[^"{{}}]++)*+\}}'
    value = f"(?:{text}|{scalar}|{array}|{flat})"
    fields = (
        rf"(?:{_in_regex(json.dumps(name, ensure_ascii=False))}:{value},?+)?+" for name in names
    )
    return rf'^\{{(?:"before":(?:null|{flat}),)?+"after":\{{{"".join(fields)}\}}'


def _in_regex(literal: str) -> str:
    return re.sub(r'[^\w"]', lambda found: f"\\{found[0]}", literal)


def _unset(envelope: Expression, spec: DecodeSpec) -> Expression:
    """Only an update can leave a column out: in ``c`` and ``r`` the same text is data."""
    after, op = envelope.getField("after"), envelope.getField("op")
    marked = {column.name: column for column in spec.schema.columns if may_be_unset(column)}

    def is_unset(name: str) -> Expression:
        if name not in marked:
            return F.lit(False)
        held = is_placeholder(after.getField(name), marked[name], spec.placeholder)
        return F.coalesce((op == "u") & held, F.lit(False))

    flags = [is_unset(name).alias(name) for name in spec.unset_able]
    return F.struct(*flags) if flags else F.struct(F.lit(False).alias("__none"))


def unset_able(target: TableSchema, others: Iterable[TableSchema] = ()) -> tuple[str, ...]:
    """Columns of the target that a source's updates may leave out, by any of the schemas."""
    marked = {c.name for schema in (target, *others) for c in schema.columns if may_be_unset(c)}
    return tuple(name for name in target.names if name in marked)


def may_be_unset(column: Column) -> bool:
    """Whether the source may leave the column out of an update."""
    return column.unchanged_marker


def is_placeholder(value: Expression, column: Column, placeholder: str) -> Expression:
    """Whether a wire value is the placeholder: a whole value, in the column's own form.

    https://debezium.io/documentation/reference/stable/connectors/postgresql.html
    (``unavailable.value.placeholder``). As observed: bytes hold its UTF-8 bytes; text arrays
    hold it as their only element, uuid arrays a hash of it, arrays of numbers its bytes.
    """
    match column.wire, column.element_wire:
        case Wire.BYTES_BASE64, _:
            return value == F.encode(F.lit(placeholder), "UTF-8")
        case Wire.LIST, Wire.STRING:
            hashed = str(name_uuid(placeholder.encode()))
            only = F.get(value, F.lit(0))
            return (F.size(value) == 1) & only.isin(placeholder, hashed)
        case Wire.LIST, _:
            element = wire_type(column).elementType.simpleString()  # type: ignore[attr-defined]
            numbers = (F.lit(byte).cast(element) for byte in placeholder.encode())
            return value == F.array(*numbers)
        case _:
            return value == placeholder


def name_uuid(name: bytes) -> uuid.UUID:
    """Java's ``UUID.nameUUIDFromBytes``, which uuid arrays use: version 3 without a namespace."""
    return uuid.UUID(bytes=hashlib.md5(name, usedforsecurity=False).digest(), version=3)


def _rejection(envelope: Expression, op: Expression, spec: DecodeSpec) -> Expression:
    after = envelope.getField("after")
    unreadable = F.col(f"document.{_BAD}").isNotNull() | F.col("document").isNull()
    shape = (
        F.when(op == TOMBSTONE, F.lit(None).cast("string"))
        .when(unreadable, "not a JSON object of the expected shape and types")
        .when(op.isNull(), "not a Debezium envelope: it has no op")
        .when(~op.isin(*ROW_OPS, "d", "t"), "an operation that is not known")
        .when(op.isin(*ROW_OPS) & after.isNull(), "no row image (after)")
    )
    values = [
        F.when(bad, f"column {column.name!r}: its value does not fit {column.type}")
        for column in spec.schema.columns
        if (bad := _unfit(after, column, spec)) is not None
    ]
    return F.coalesce(shape, *values) if values else shape


def _unfit(after: Expression, column: Column, spec: DecodeSpec) -> Expression | None:
    value = after.getField(column.name)
    bad = unfit(value, column)
    if bad is None or not may_be_unset(column):
        return bad
    return bad & ~F.coalesce(is_placeholder(value, column, spec.placeholder), F.lit(False))
