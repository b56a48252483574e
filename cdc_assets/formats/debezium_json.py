"""Debezium's JSON envelope, with and without an inline schema: raw records to changes.

A decoded batch has one row per record and these columns (the contract of every format):

====================  ==============================================================
``op``                ``c`` ``u`` ``d`` ``r`` ``t``; ``tombstone`` for a record without a value
``n0`` … ``nk``       the numbers of the position, see `cdc_assets.changes.position`; its scheme
                      says how many
``partition offset``  where the record lies in Kafka
``ts``                the source's commit time; NULL for snapshot rows, whose changes are older
``key``               struct of the key columns; of a record without a value only if asked for
``old_key``           the same before the change, where an update may have changed it; NULL
                      elsewhere: connectors send a delete and a create when their key changes
``row``               struct of all columns, decoded; NULL for deletes
``unset``             struct of booleans: which columns hold the "unchanged" placeholder
``in_doubt``          a create, or an update that changed the key, with such a placeholder: its
                      value is that of another row, or it is data
``old_row``           the row before the change, for tables without a key; NULL elsewhere
``ordinal``           the change's place in its transaction, likewise
``pair``              the same hash for a delete and for the record without a value right after it
``reject``            why the record cannot be merged, without its values; NULL if it can
``unknown``           a field of the row that the schema does not have; NULL if none was found
``told_ms``           the source's time of the commit, or of the reading of a snapshot's row
``may_witness``       whether the record comes in the order of commits, ``floats`` whether it is
                      of a connector's first transaction: see `cdc_assets.changes.restarts`
``absent``            columns that should be in the row image and are not; NULL if none was found
``read_lsn``          position of a snapshot row, ``floating_lsn`` of a change without last
                      commit: see `cdc_assets.changes.position`
====================  ==============================================================

https://debezium.io/documentation/reference/stable/connectors/postgresql.html
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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

from cdc_assets.changes.position import Scheme
from cdc_assets.formats.flat import any_of
from cdc_assets.formats.placeholder import is_placeholder, may_be_unset
from cdc_assets.formats.positions import (
    NUMBERS,
    floats,
    floor_columns,
    may_witness,
    numbers,
    source_fields,
)
from cdc_assets.formats.record_keys import any_null, has_moved, key_of, old_key
from cdc_assets.formats.spec import ROW_OPS, TOMBSTONE, DecodeSpec, wire_struct
from cdc_assets.formats.usual_layout import usual_layout
from cdc_assets.formats.values import FIRST_MICRO, LAST_MICRO, decoded, unfit
from cdc_assets.schema.types import Column, Wire

_BAD: Final = "__unreadable"
_NO_KEY_TEXT: Final = "its key is not UTF-8"
_LONGEST_TEXT: Final = 20_000_000
"""Jackson's ``StreamReadConstraints``, as Spark leaves them."""


def decode(raw: DataFrame, spec: DecodeSpec) -> DataFrame:
    """Changes from Kafka records (``key value partition offset`` as Spark's source gives them).

    Nothing is dropped: records that cannot be merged stay, with a reason in ``reject``.
    """
    text = F.col("value").cast("string")
    options = {
        "mode": "PERMISSIVE",
        "columnNameOfCorruptRecord": _BAD,
        "allowSingleQuotes": "false",
    }
    # Within an object of ours, whatever follows the record's own object makes it unreadable.
    wrapped = text if spec.inline else F.concat(F.lit('{"payload":'), text, F.lit("}"))
    parsed = raw.select(
        F.from_json(
            _once(wrapped) if spec.parse_here else wrapped, _document_type(spec), options
        ).alias("document"),
        text.alias("text"),
        F.col("key").cast("string").alias("key_text"),
        F.col("value").isNull().alias("is_tombstone"),
        "partition",
        "offset",
        *(["fingerprint"] if spec.lacks else []),
    )
    envelope = F.col("document.payload")
    return _changes(parsed, envelope, spec)


def _once(text: Expression) -> Expression:
    """The same, as what Spark calls not deterministic: it is parsed where this stands.

    Otherwise a condition on a change is pushed below the parsing, into the scan of the records,
    and each part of it that looks at the document parses it for itself: with 1,500 columns a
    record was parsed some thousand times.
    """
    return F.when(F.spark_partition_id() >= 0, text)


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
        key_of(envelope, op, spec).alias("key"),
        old_key(envelope, spec).alias("old_key"),
        F.when(has_row, _row(envelope, spec)).alias("row"),
        _unset(envelope, spec).alias("unset"),
        _old_row(envelope, spec).alias("old_row"),
        _ordinal(envelope, spec).alias("ordinal"),
        _pair(op).alias("pair"),
        _is_late_read(envelope, spec).alias("is_late_read"),
        _rejection(envelope, op, spec).alias("reject"),
        _unlike(after, op, spec).alias("unlike"),
    )
    any_unset = any_of(F.col("unset").getField(name) for name in spec.unset_able)
    judged = named.withColumns(
        {
            "reject": F.coalesce("reject", *_unplaced(spec)),
            "in_doubt": ((F.col("op") == "c") | has_moved()) & any_unset,
        }
    )
    mergeable, unlike = F.col("reject").isNull(), F.col("unlike")
    names = {each: F.when(mergeable, unlike.getField(each)) for each in ("unknown", "absent")}
    return judged.withColumns(names).drop("unlike")


_LATE_READ: Final = (
    "a row of a snapshot that was taken while changes were streamed: without a key it cannot be "
    "told from them"
)


def _is_late_read(envelope: Expression, spec: DecodeSpec) -> Expression:
    """A row of an ad-hoc snapshot, which holds more than what was committed at its position."""
    if not spec.counts_rows or spec.scheme is not Scheme.POSTGRES:
        return F.lit(False)
    return _is_read(envelope) & envelope.getField("source").getField("sequence").startswith('["')


def _unplaced(spec: DecodeSpec) -> Iterator[Expression]:
    """Rejections of changes without a complete key, or without a position."""
    op = F.col("op")
    if spec.schema.key:
        missing = any_null(F.col("key"), spec.schema.key)
        nameless = (op == "d") & F.col("pair").isNull() & missing
        yield F.when(nameless, "a delete with neither key nor before image")
        yield F.when(op.isin(*ROW_OPS, "d") & missing, "a key column has no value")
        unknown = F.col("old_key").isNotNull() & any_null(F.col("old_key"), spec.schema.key)
        reason = "an update without the key before it (REPLICA IDENTITY FULL would log it)"
        yield F.when(unknown, reason)
    if spec.counts_rows and spec.scheme is Scheme.POSTGRES:
        yield F.when(F.col("is_late_read"), _LATE_READ)
    no_position = (op != TOMBSTONE) & F.col("n0").isNull()
    yield F.when(no_position, f"no source position ({spec.scheme})")


# ── shapes ────────────────────────────────────────────────────────────────────────────────


def _document_type(spec: DecodeSpec) -> StructType:
    before = spec.schema.columns if spec.counts_rows else spec.key_columns
    envelope = StructType(
        [
            StructField("before", wire_struct(before)),
            StructField("after", wire_struct(spec.schema.columns)),
            StructField("source", source_type(spec.scheme)),
            StructField("op", StringType()),
        ]
    )
    if spec.counts_rows:
        envelope = envelope.add("transaction", StructType().add("total_order", LongType()))
    return StructType([StructField("payload", envelope), StructField(_BAD, StringType())])


_SOURCE = (
    StructField("ts_ms", LongType()),
    StructField("ts_us", LongType()),
    StructField("snapshot", StringType()),
)


def source_type(scheme: Scheme) -> StructType:
    """What is read of an envelope's ``source``."""
    return StructType([*_SOURCE, *source_fields(scheme)])


# ── parts of a change ─────────────────────────────────────────────────────────────────────


def _position(envelope: Expression, spec: DecodeSpec) -> Iterator[Expression]:
    """The numbers of the position, and what the read floor is found by."""
    source, is_read = envelope.getField("source"), _is_read(envelope)
    found = numbers(
        spec.scheme,
        source,
        is_read=is_read,
        offset=F.col("offset"),
        partition=F.col("partition"),
        floors=spec.floors,
        epochs=spec.epochs,
        firsts=spec.firsts,
    )
    yield from (number.alias(name) for name, number in zip(NUMBERS, found, strict=False))
    read, floating = floor_columns(
        spec.scheme,
        source,
        is_read=is_read,
        offset=F.col("offset"),
        partition=F.col("partition"),
        epochs=spec.epochs,
    )
    yield read.alias("read_lsn")
    yield floating.alias("floating_lsn")
    yield source.getField("ts_ms").alias("told_ms")
    # Truncates have no key: sent again, they may lie in another partition.
    has_key = envelope.getField("op") != "t"
    yield (may_witness(spec.scheme, source, is_read=is_read) & has_key).alias("may_witness")
    yield (floats(spec.scheme, source, is_read=is_read) & has_key).alias("floats")


def _is_read(envelope: Expression) -> Expression:
    """A row of a snapshot. Some connectors send those as ``c`` and say so in ``snapshot``."""
    snapshot = envelope.getField("source").getField("snapshot")
    in_snapshot = F.coalesce(snapshot, F.lit("false")) != "false"
    return (envelope.getField("op") == "r") | in_snapshot


def _commit_time(envelope: Expression) -> Expression:
    source = envelope.getField("source")
    return F.when(~_is_read(envelope), F.timestamp_micros(_commit_micros(source)))


def _commit_micros(source: Expression) -> Expression:
    """NULL also where milliseconds are too many to count in microseconds."""
    return F.coalesce(
        source.getField("ts_us"), F.try_multiply(source.getField("ts_ms"), F.lit(1000))
    )


def _old_row(envelope: Expression, spec: DecodeSpec) -> Expression:
    before = envelope.getField("before")
    if not spec.counts_rows:
        return F.lit(None).cast("struct<none:string>")
    values = (_value(before, *each).alias(each[0].name) for each in spec.pairs)
    return F.when(envelope.getField("op").isin("u", "d"), F.struct(*values))


def _ordinal(envelope: Expression, spec: DecodeSpec) -> Expression:
    if not spec.counts_rows:
        return F.lit(None).cast("bigint")
    return envelope.getField("transaction").getField("total_order")


def _pair(op: Expression) -> Expression:
    """Debezium sends a record without a value right after each delete, with the same key."""
    after_delete = F.xxhash64(F.col("key_text"), F.col("partition"), F.col("offset") + 1)
    tombstone = F.xxhash64(F.col("key_text"), F.col("partition"), F.col("offset"))
    known = F.col("key_text").isNotNull()
    return F.when(known & (op == "d"), after_delete).when(known & (op == TOMBSTONE), tombstone)


def _row(envelope: Expression, spec: DecodeSpec) -> Expression:
    """All columns; without a key, those that ``after`` leaves out are taken from ``before``."""
    after, before = envelope.getField("after"), envelope.getField("before")

    def value(target: Column, column: Column | None) -> Expression:
        now = _value(after, target, column)
        if column is None or not _may_be_held_before(column, spec):
            return now
        held = is_placeholder(after.getField(column.name), column, spec.placeholder)
        unset = F.coalesce((envelope.getField("op") == "u") & held, F.lit(False))
        return F.when(unset, _value(before, target, column)).otherwise(now)

    return F.struct(*(value(*each).alias(each[0].name) for each in spec.pairs))


def _may_be_held_before(column: Column, spec: DecodeSpec) -> bool:
    """Where ``before`` is read, and an update may hold a placeholder instead of the value."""
    if spec.counts_rows:
        return may_be_unset(column)
    return spec.split_keys and column.name in spec.schema.key and column.wire is Wire.STRING


def _value(after: Expression, target: Column, column: Column | None) -> Expression:
    if column is None:
        return F.lit(None).cast(str(target.type))
    value = decoded(after.getField(column.name), column)
    return value if column.type == target.type else value.cast(str(target.type))


def _unlike(after: Expression, op: Expression, spec: DecodeSpec) -> Expression:
    """``unknown`` and ``absent``: how a row image's fields differ from the table's columns.

    With a schema in the record, only that is looked at. Without, its field names are the only
    sign, and reading each record's would cost as much as parsing it. Nearly all records match
    `usual_layout`, which is cheap to test and leaves no room for another name or a missing one.
    """
    is_row = op.isin(*ROW_OPS)
    if spec.inline:
        lacks = _lacks(spec)
        return _names(F.lit(None).cast("string"), F.when(is_row & (F.size(lacks) > 0), lacks))
    must = (*spec.expected, *spec.schema.key)
    unusual = ~F.col("text").rlike(usual_layout(spec.schema.names, must))
    fields = F.json_object_keys(F.get_json_object(F.col("text"), "$.after"))
    known = _texts((*spec.schema.names, *spec.target.left_out))
    lacks = F.array_except(_texts(spec.expected), fields)
    strange = F.get(F.array_except(fields, known), F.lit(0))
    names = _names(strange, F.when(is_row & (F.size(lacks) > 0), lacks))
    return F.when(after.isNotNull() & unusual, names)


def _lacks(spec: DecodeSpec) -> Expression:
    """The expected columns that the schema of a record does not have."""
    of_all = _texts([name for name in spec.expected if name not in spec.schema.names])
    if not spec.lacks:
        return of_all
    by_schema = [
        (F.lit(number).cast("bigint"), _texts(names)) for number, names in spec.lacks.items()
    ]
    return F.create_map(*(each for pair in by_schema for each in pair))[F.col("fingerprint")]


def _names(unknown: Expression, absent: Expression) -> Expression:
    return F.struct(unknown.alias("unknown"), absent.alias("absent"))


def _texts(values: Sequence[str]) -> Expression:
    return F.array(*(F.lit(each) for each in values)).cast("array<string>")


def _unset(envelope: Expression, spec: DecodeSpec) -> Expression:
    """Only an update can leave a column out, and a create that is one of a changed key.

    In ``r`` the same text is data, and in any other create (`cdc_assets.merge.fold.moved`).
    """
    after, op = envelope.getField("after"), envelope.getField("op")
    ops = ("u", "c") if spec.schema.key and spec.scheme is not Scheme.OFFSET else ("u",)
    marked = {column.name: column for column in spec.schema.columns if may_be_unset(column)}

    def is_unset(name: str) -> Expression:
        if name not in marked:
            return F.lit(False)
        held = is_placeholder(after.getField(name), marked[name], spec.placeholder)
        return F.coalesce(op.isin(*ops) & held, F.lit(False))

    flags = [is_unset(name).alias(name) for name in spec.unset_able]
    return F.struct(*flags) if flags else F.struct(F.lit(False).alias("__none"))


def _rejection(envelope: Expression, op: Expression, spec: DecodeSpec) -> Expression:
    after = envelope.getField("after")
    unreadable = F.col(f"document.{_BAD}").isNotNull() | F.col("document").isNull()
    nothing = F.lit("neither key nor value") if spec.schema.key else F.lit(None).cast("string")
    shape = (
        F.when(F.col("key_text").isNotNull() & ~F.is_valid_utf8("key_text"), _NO_KEY_TEXT)
        .when((op == TOMBSTONE) & F.col("key_text").isNull(), nothing)
        .when(op == TOMBSTONE, F.lit(None).cast("string"))
        .when(~F.is_valid_utf8("text"), "its value is not UTF-8")
        .when(unreadable, _unreadable())
        .when(_has_half_a_character(F.col("text")), "a text holds half of a surrogate pair")
        .when(op.isNull(), "not a Debezium envelope: it has no op")
        .when(~op.isin(*ROW_OPS, "d", "t"), "an operation that is not known")
        .when(op.isin(*ROW_OPS) & after.isNull(), "no row image (after)")
        .when(_is_beyond_time(envelope), "its commit time (source.ts_ms) is beyond the year 9999")
    )
    images = [after]
    if spec.counts_rows:
        before = envelope.getField("before")
        images.append(before)
        reason = "no row image before the change: without a key it needs REPLICA IDENTITY FULL"
        shape = shape.when(op.isin("u", "d") & before.isNull(), reason)
    values = [
        F.when(bad, f"column {column.name!r}: its value does not fit {column.type}")
        for image in images
        for column in spec.schema.columns
        if (bad := _unfit(image, column, spec)) is not None
    ]
    return F.coalesce(shape, *values) if values else shape


def _unreadable() -> Expression:
    """Spark reads no text of more than 20,000,000 characters, and nothing else of its record."""
    shape = "not a JSON object of the expected shape and types"
    limited = f"{shape}, or a text in it is longer than {_LONGEST_TEXT:,} characters"
    return F.when(F.octet_length("text") > _LONGEST_TEXT, limited).otherwise(shape)


def _has_half_a_character(text: Expression) -> Expression:
    r"""Spark would read a lone ``\ud800`` as a question mark.

    Escaped back-slashes and whole pairs are taken out before what is left is looked at; nearly
    all records are done with after the first condition.
    """
    whole = r"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rest = F.regexp_replace(text, whole, " ")
    return text.contains("\\u") & rest.rlike(r"\\u[dD][89a-fA-F]")


def _is_beyond_time(envelope: Expression) -> Expression:
    """Of a change: a row of a snapshot has no commit time."""
    source = envelope.getField("source")
    given = source.getField("ts_us").isNotNull() | source.getField("ts_ms").isNotNull()
    fits = F.coalesce(_commit_micros(source).between(FIRST_MICRO, LAST_MICRO), F.lit(False))
    return given & ~fits & ~_is_read(envelope)


def _unfit(after: Expression, column: Column, spec: DecodeSpec) -> Expression | None:
    value = after.getField(column.name)
    bad = unfit(value, column)
    if bad is None or not may_be_unset(column):
        return bad
    return bad & ~F.coalesce(is_placeholder(value, column, spec.placeholder), F.lit(False))
