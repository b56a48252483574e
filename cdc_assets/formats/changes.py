"""Decodes raw records into changes, for every format, in one pass that parses each record once.

A decoded batch has one row for each change, and for each record that is none. Its columns:

====================  ==============================================================
``op``                ``c`` ``u`` ``d`` ``r`` ``t``; ``tombstone`` for a record without a value;
                      ``control`` for one that is passed over, ``other`` for another table's
``n0`` … ``nk``       the numbers of the position, as many as its scheme has, see
                      `cdc_assets.changes.position`
``partition offset``  the record's coordinates in Kafka
``ts``                the source's commit time; NULL for snapshot rows, whose commits are older
``key``               struct of the key columns; for a record without a value only if asked for
``old_key``           the same before the change, where an update may have changed it; NULL
                      elsewhere: connectors send a delete and a create when their key changes
``row``               struct of all columns, decoded; NULL for deletes
``unset``             struct of booleans: which columns hold the "unchanged" placeholder
``in_doubt``          a create, or an update that changed the key, with such a placeholder: its
                      value is that of another row, or it is data
``old_row``           the row before the change, for tables without a key; NULL elsewhere
``ordinal``           the change's place in its transaction, for tables without a key
``pair``              the same hash for a delete and for the record without a value right after it
``reject``            the reason why the record cannot be merged, without its values; NULL if it can
``other_table``       the table of a change of another table, whose ``op`` is ``other``
``is_unwritten``      whether the record has a schema that is not known yet
``unknown``           fields of the row that the schema does not have; NULL if none was found
``told_ms``           the source's time of the commit, or of reading a snapshot's row
``may_witness``       whether the record comes in the order of commits, ``floats`` whether it is
                      of a connector's first transaction: see `cdc_assets.changes.restarts`
``absent``            expected columns that the row image lacks; NULL if none was found
``key_schema``        only if asked for: see `Format.key_schema`
``read_lsn``          position of a snapshot row, ``floating_lsn`` of a change without last
                      commit: see `cdc_assets.changes.position`
====================  ==============================================================
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_assets.formats.by_table import opened
from cdc_assets.formats.digits import with_digits
from cdc_assets.formats.envelope import Envelope, Image
from cdc_assets.formats.existing import with_existing
from cdc_assets.formats.flat import any_of
from cdc_assets.formats.format import Format
from cdc_assets.formats.instants import FIRST_MICRO, LAST_MICRO
from cdc_assets.formats.order import NUMBERS, Placed
from cdc_assets.formats.oversized import OVERSIZE, refusal
from cdc_assets.formats.record_keys import any_null, has_moved, key_of, old_key
from cdc_assets.formats.spec import (
    CONTROL,
    LINE_BITS,
    OTHER,
    ROW_OPS,
    STATEMENT,
    TOMBSTONE,
    ReadSpec,
)
from cdc_assets.formats.stored_values import stored, unfit_for
from cdc_assets.formats.values import decoded, unfit
from cdc_assets.schema.types import Column, ColumnType, Wire

_NO_SCHEMA: Final = "its schema is not that of a change event"
_UNWRITTEN: Final = "its schema is not known yet"
_UNDECIDED: Final = (
    "a create with the connector's placeholder: without positions (source.lsn and source.sequence) "
    "an unchanged value of a changed key cannot be told from data"
)
_MOST_COLUMNS: Final = 120
"""Limit of the columns of all schemas that one plan reads. Three schemas of forty columns each were
too many for code that Java compiles."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The format and schemas by which the records of a batch are read.

    Attributes:
        format: of the records.
        specs: one for each set of schemas that are read as one; the last is for records without a
            schema.
        unreadable: numbers of schemas that are not those of change events.
    """

    format: Format
    specs: tuple[ReadSpec, ...]
    unreadable: tuple[int, ...] = ()

    @property
    def has_writer(self) -> bool:
        """Whether records have a schema's number, in the column ``writer``."""
        last = self.specs[-1]
        return self.format.writer(last.layout, last.table) is not None


def decode(raw: DataFrame, reading: Reading) -> DataFrame:
    """Decodes changes from Kafka records, ``key value partition offset`` as from Spark's source.

    Nothing is dropped: records that cannot be merged stay, with a reason in ``reject``. Records
    that are too large are not parsed: their ``op`` is NULL.
    """
    fmt, specs = reading.format, reading.specs
    layout, table = specs[-1].layout, specs[-1].table
    known = {number: text for spec in specs for number, text in spec.writers.items()}
    told = fmt.numbered(opened(raw, fmt, layout), layout, table, known)
    if not reading.has_writer or _is_small(specs):
        return _judged(_decoded(told, reading, specs), specs[-1])
    which = _which(specs)
    is_of_others = any_of(each for each in which if each is not None)
    mine = [told.where(~is_of_others if each is None else each) for each in which]
    found = [_decoded(m, reading, (spec,)) for m, spec in zip(mine, specs, strict=True)]
    return _judged(_united(found), specs[-1])


def _is_small(specs: Sequence[ReadSpec]) -> bool:
    """Returns whether one plan can read all these schemas: Java limits the code for a row.

    Separate plans read the log once each.
    """
    return sum(len(spec.schema.columns) for spec in specs if spec.has_rows) <= _MOST_COLUMNS


def _united(frames: Sequence[DataFrame]) -> DataFrame:
    """Unites by halves: a union has two sides, and a chain would be as deep as it is long."""
    if len(frames) == 1:
        return frames[0]
    half = len(frames) // 2
    return _united(frames[:half]).unionByName(_united(frames[half:]))


def _decoded(told: DataFrame, reading: Reading, specs: Sequence[ReadSpec]) -> DataFrame:
    """Decodes records that have one of these schemas, in one plan."""
    fmt, which = reading.format, _which(specs)
    parsed = told.select("*", *_documents(fmt, specs, which))
    if fmt.has_many_rows:
        parsed = _lines(parsed, fmt, _with_all(specs))
    names = ("document0" if fmt.has_many_rows else f"document{i}" for i in range(len(specs)))
    envelopes = [fmt.envelope(F.col(name), spec) for name, spec in zip(names, specs, strict=True)]
    if fmt.has_many_tables or len(specs) > 1 or envelopes[-1].is_made:
        parsed, envelopes = _in_columns(parsed, envelopes)
    parsed, envelopes = with_digits(parsed, envelopes, specs)
    changes = [_change(each, spec, fmt) for each, spec in zip(envelopes, specs, strict=True)]
    named = {name: _case(which, [each[name] for each in changes]) for name in changes[0]}
    if reading.has_writer:
        named |= _of_writers(named, reading)
    if fmt.has_many_tables:
        parsed = parsed.withColumn("other_table", named["other_table"])
        named = _mine({**named, "other_table": F.col("other_table")})
    fits = F.col(OVERSIZE).isNull()
    named["op"] = F.when(fits, named["op"])
    named["reject"] = F.coalesce(refusal(fmt), named["reject"])
    return parsed.select(*(each.alias(name) for name, each in named.items()))


def _lines(parsed: DataFrame, fmt: Format, spec: ReadSpec) -> DataFrame:
    """Gives each row of a message its own row, in steps that read the message only once."""
    found = fmt.rows(F.col("document"), spec)
    told = parsed.select("*", found.head.alias("head"), found.rows.alias("rows"))
    each = told.select("*", F.posexplode_outer("rows").alias("place", "row"))
    line = F.coalesce("place", F.lit(0)).alias("line")
    return each.select("*", line, F.struct("head", "row").alias("document0"))


def _in_columns(
    parsed: DataFrame, envelopes: Sequence[Envelope]
) -> tuple[DataFrame, list[Envelope]]:
    """Puts expressions that nearly all parts of a change use into columns, computed once each.

    With several schemas each part is a choice, and Spark finds no common subexpressions in choices.
    With one schema it does, and is faster by itself.

    Expressions for the source are deep where they parse text, and would deepen everything that uses
    them, see `cdc_assets.formats.flat`; so would the names of other tables. Where the source is
    assembled from many fields, the plan is fifteen times as large without this.
    """
    found: dict[str, Expression] = {}
    kept: list[Envelope] = []
    for i, each in enumerate(envelopes):
        op, is_read, source = f"op{i}", f"is_read{i}", f"source{i}"
        found |= {op: each.op, is_read: each.is_read, source: each.source}
        kept.append(replace(each, op=F.col(op), is_read=F.col(is_read), source=F.col(source)))
    return parsed.select("*", *(each.alias(name) for name, each in found.items())), kept


def _documents(
    fmt: Format, specs: Sequence[ReadSpec], which: Sequence[Expression | None]
) -> list[Expression]:
    if fmt.has_many_rows:
        return [fmt.document(_with_all(specs)).alias("document")]
    found = zip(specs, which, strict=True)
    return [
        _if(is_mine, fmt.document(spec)).alias(f"document{i}")
        for i, (spec, is_mine) in enumerate(found)
    ]


def _with_all(specs: Sequence[ReadSpec]) -> ReadSpec:
    """Returns the last spec with the columns of all: one document for records of any schema."""
    last = specs[-1]
    columns = {each.name: each for spec in specs for each in spec.schema.columns}
    return replace(last, schema=replace(last.schema, columns=(*columns.values(),)))


def _mine(named: Mapping[str, Expression]) -> dict[str, Expression]:
    """Keeps only the name of the table of changes of other tables."""
    other = named["other_table"]
    mine = {name: F.when(other.isNull(), each) for name, each in named.items()}
    kept = {name: named[name] for name in ("partition", "offset", "other_table")}
    return {**mine, **kept, "op": F.when(other.isNotNull(), OTHER).otherwise(named["op"])}


def _which(specs: Sequence[ReadSpec]) -> list[Expression | None]:
    """Returns for each spec the condition of its records; None, for all others, for the last."""
    *first, _ = specs
    return [*(F.col("writer").isin(*spec.writers) for spec in first), None]


def _if(condition: Expression | None, value: Expression) -> Expression:
    return value if condition is None else F.when(condition, value)


def _case(which: Sequence[Expression | None], values: Sequence[Expression]) -> Expression:
    """Returns the value of the first condition that holds. No branch is nested in another."""
    *some, last = values
    if not some:
        return last
    first, *others = zip(which, some, strict=False)
    case = F.when(_given(first[0]), first[1])
    for condition, value in others:
        case = case.when(_given(condition), value)
    return case.otherwise(last)


def _given(condition: Expression | None) -> Expression:
    return F.lit(True) if condition is None else condition


def _of_writers(named: Mapping[str, Expression], reading: Reading) -> dict[str, Expression]:
    """Rejects records whose schemas are not those of change events, or not known."""
    number = F.col("writer")
    known = [each for spec in reading.specs for each in spec.writers]
    is_odd = number.isin(*reading.unreadable) if reading.unreadable else F.lit(False)
    is_new = number.isNotNull() & ~is_odd
    if known:
        is_new = is_new & ~number.isin(*known)
    is_new = F.coalesce(is_new, F.lit(False))
    reject = F.when(is_new, _UNWRITTEN).when(is_odd, _NO_SCHEMA).otherwise(named["reject"])
    return {"is_unwritten": is_new, "reject": reject}


def _change(envelope: Envelope, spec: ReadSpec, fmt: Format) -> dict[str, Expression]:
    op, after, source = envelope.op, envelope.after, envelope.source
    has_row = op.isin(*ROW_OPS) & after.is_there
    return {
        "op": op,
        **_position(envelope, spec, fmt),
        "partition": F.col("partition"),
        "offset": F.col("offset"),
        "ts": F.when(~envelope.is_read, F.timestamp_micros(spec.order.told_micros(source))),
        "key": key_of(envelope, spec),
        "old_key": old_key(envelope, spec),
        "row": F.when(has_row, _row(envelope, spec)) if spec.has_rows else _no_row(spec),
        "unset": _unset(envelope, spec, fmt),
        "old_row": _old_row(envelope, spec),
        "ordinal": envelope.ordinal,
        "pair": _pair(op) if fmt.has_tombstones else F.lit(None).cast("bigint"),
        "reject": _rejection(envelope, spec),
        "is_unwritten": F.lit(False),
        "other_table": envelope.other_table,
        "unknown": envelope.unknown,
        "absent": envelope.absent,
        **_key_schema(spec, fmt),
    }


def _key_schema(spec: ReadSpec, fmt: Format) -> dict[str, Expression]:
    if not spec.tells_key_schema:
        return {}
    told = fmt.key_schema(spec.layout)
    return {"key_schema": F.lit(None).cast("bigint") if told is None else told}


def _judged(named: DataFrame, spec: ReadSpec) -> DataFrame:
    """Adds the results that depend on several parts of a change."""
    any_unset = any_of(F.col("unset").getField(name) for name in spec.unset_able)
    judged = named.withColumns(
        {
            "reject": F.coalesce("reject", *_unplaced(spec)),
            "in_doubt": ((F.col("op") == "c") | has_moved()) & any_unset,
        }
    )
    mergeable = F.col("reject").isNull()
    names = {each: F.when(mergeable, F.col(each)) for each in ("unknown", "absent")}
    return with_existing(judged.withColumns(names), spec).drop("is_late_read")


_LATE_READ: Final = (
    "a row of a snapshot that was taken while changes were streamed: without a key it cannot be "
    "told from them"
)


def _unplaced(spec: ReadSpec) -> Iterator[Expression]:
    """Yields rejections of changes without a complete key, or without a position."""
    op = F.col("op")
    if spec.target.key:
        missing = any_null(F.col("key"), spec.target.key)
        nameless = (op == "d") & F.col("pair").isNull() & missing
        yield F.when(nameless, "a delete with neither key nor before image")
        yield F.when(op.isin(*ROW_OPS, "d") & missing, "a key column has no value")
        unknown = F.col("old_key").isNotNull() & any_null(F.col("old_key"), spec.target.key)
        reason = "an update without the key before it (REPLICA IDENTITY FULL would log it)"
        yield F.when(unknown, reason)
    yield F.when(F.col("is_late_read"), _LATE_READ)
    no_position = ~op.isin(TOMBSTONE, CONTROL, STATEMENT, OTHER) & F.col("n0").isNull()
    yield F.when(no_position, f"no source position ({spec.layout.scheme})")


# ── parts of a change ─────────────────────────────────────────────────────────────────────


def _position(envelope: Envelope, spec: ReadSpec, fmt: Format) -> dict[str, Expression]:
    """Returns the numbers of the position, and the inputs for floors, restarts and late reads."""
    order, state, offset = spec.order, spec.state, F.col("offset")
    line = F.col("first") + F.col("line") if fmt.has_packets else F.col("line")
    place = F.shiftleft(offset, LINE_BITS) + line if fmt.has_many_rows else offset
    placed = Placed(envelope.source, envelope.is_read, F.col("partition"), offset, place)
    read, floating = order.floor_columns(placed, state)
    # Truncates have no key: sent again, they may be in another partition.
    has_key = envelope.op != "t"
    counts_reads = spec.counts_rows and not spec.records_reads
    late = order.is_late_read(placed) if counts_reads else F.lit(False)
    return {
        **dict(zip(NUMBERS, order.numbers(placed, state), strict=False)),
        "read_lsn": read,
        "floating_lsn": floating,
        "told_ms": order.told_ms(envelope.source),
        "may_witness": order.may_witness(placed) & has_key,
        "floats": order.floats(placed) & has_key,
        "is_late_read": late,
    }


def _old_row(envelope: Envelope, spec: ReadSpec) -> Expression:
    if not spec.counts_rows:
        return F.lit(None).cast("struct<none:string>")
    if not spec.has_rows:
        return _no_row(spec)
    values = (_value(envelope.before, *each).alias(each[0].name) for each in spec.pairs)
    return F.when(envelope.op.isin("u", "d"), F.struct(*values))


def _no_row(spec: ReadSpec) -> Expression:
    """Returns NULL of a row's type; of a record without a row nothing can be decoded."""
    nothing = (F.lit(None).cast(str(each.type)).alias(each.name) for each, _ in spec.pairs)
    return F.when(F.lit(False), F.struct(*nothing))


def _pair(op: Expression) -> Expression:
    """Returns the hash that a delete shares with the tombstone that Debezium sends next."""
    after_delete = F.xxhash64(F.col("key"), F.col("partition"), F.col("offset") + 1)
    tombstone = F.xxhash64(F.col("key"), F.col("partition"), F.col("offset"))
    known = F.col("key").isNotNull()
    return F.when(known & (op == "d"), after_delete).when(known & (op == TOMBSTONE), tombstone)


def _row(envelope: Envelope, spec: ReadSpec) -> Expression:
    """Returns all columns; without a key, those left out of ``after`` come from ``before``."""
    after, before = envelope.after, envelope.before

    def value(target: Column, ways: Sequence[Column]) -> Expression:
        now = _value(after, target, ways)
        marks = [envelope.left_out(c) for c in ways if _may_be_held_before(c, spec)]
        held = [each for each in marks if each is not None]
        if not held:
            return now
        unset = (envelope.op == "u") & any_of(held)
        return F.when(unset, _value(before, target, ways)).otherwise(now)

    return F.struct(*(value(*each).alias(each[0].name) for each in spec.pairs))


def _may_be_held_before(column: Column, spec: ReadSpec) -> bool:
    """Returns whether ``before`` has the value of a column that an update leaves out."""
    if spec.counts_rows:
        return True
    split = spec.layout.split_keys and column.wire is Wire.STRING
    return split and column.name in spec.schema.key


def _value(image: Image, target: Column, ways: Sequence[Column]) -> Expression:
    """Returns the value that is present, of the columns as which a column may arrive."""
    found = [stored(decoded(image.value(each), each), each, target) for each in ways]
    if len(found) == 1:
        return found[0]
    return F.coalesce(*found, F.lit(None).cast(str(target.type)))


def _unset(envelope: Envelope, spec: ReadSpec, fmt: Format) -> Expression:
    """Returns which columns are left out: only an update leaves out, or a create of a changed key.

    In ``r`` the same text is data, and in any other create (`cdc_assets.merge.fold.moved`). Without
    positions such a create is rejected, see `_undecided`.
    """
    ops = ("u", "c") if spec.schema.key and spec.order.types else ("u",)
    arriving = {target.name: ways for target, ways in spec.pairs if ways} if spec.has_rows else {}

    def is_unset(name: str) -> Expression:
        if not spec.has_rows:
            return F.lit(False)
        if name not in arriving:
            return F.coalesce(F.lit(fmt.leaves_out) & (envelope.op == "u"), F.lit(False))
        marks = (envelope.left_out(each) for each in arriving[name])
        held = [each for each in marks if each is not None]
        if not held:
            return F.lit(False)
        return F.coalesce(envelope.op.isin(*ops) & any_of(held), F.lit(False))

    flags = [is_unset(name).alias(name) for name in spec.unset_able]
    return F.struct(*flags) if flags else F.struct(F.lit(False).alias("__none"))


def _rejection(envelope: Envelope, spec: ReadSpec) -> Expression:
    op, after, before = envelope.op, envelope.after, envelope.before
    shape = (
        F.when(envelope.reject.isNotNull(), envelope.reject)
        .when(op.isin(TOMBSTONE, CONTROL, STATEMENT), F.lit(None).cast("string"))
        .when(op.isin(*ROW_OPS) & ~after.is_there, "no row image (after)")
        .when(
            _is_beyond_time(envelope, spec),
            "its commit time (source.ts_ms) is beyond the year 9999",
        )
    )
    images = [after] if spec.has_rows else []
    if spec.counts_rows and spec.has_rows:
        images.append(before)
        reason = "no row image before the change: without a key it needs REPLICA IDENTITY FULL"
        shape = shape.when(op.isin("u", "d") & ~before.is_there, reason)
    targets = {way.name: target for target, ways in spec.pairs for way in ways}
    values = [
        F.when(bad, f"column {column.name!r}: its value does not fit {type_}")
        for image in images
        for column in spec.schema.columns
        for bad, type_ in _unfit(image, column, envelope, targets.get(column.name))
    ]
    values += _undecided(envelope, spec)
    return F.coalesce(shape, *values) if values else shape


def _undecided(envelope: Envelope, spec: ReadSpec) -> Iterator[Expression]:
    """Yields rejections of creates with a placeholder, where only offsets order the changes.

    A changed key is a delete and a create at one position; without positions, a create with a
    placeholder may be that, or an insert of this text.
    """
    if not spec.schema.key or spec.order.types or not spec.has_rows:
        return
    is_create = (envelope.op == "c") & ~envelope.is_read
    for column in spec.schema.columns:
        held = envelope.left_out(column)
        if held is not None:
            yield F.when(is_create & held, f"column {column.name!r}: {_UNDECIDED}")


def _is_beyond_time(envelope: Envelope, spec: ReadSpec) -> Expression:
    """Returns whether a change's commit time is out of range; a row of a snapshot has none."""
    source = envelope.source
    given = source.getField("ts_us").isNotNull() | source.getField("ts_ms").isNotNull()
    micros = spec.order.told_micros(source)
    fits = F.coalesce(micros.between(FIRST_MICRO, LAST_MICRO), F.lit(False))
    return given & ~fits & ~envelope.is_read


def _unfit(
    image: Image, column: Column, envelope: Envelope, target: Column | None
) -> Iterator[tuple[Expression, ColumnType]]:
    """Yields whether a value does not fit the column's own type, or does not fit the lake's."""
    value = image.value(column)
    held = envelope.left_out(column) if image is envelope.after else None
    bad = unfit(value, column)
    if bad is not None:
        yield (bad if held is None else bad & ~held), column.type
    other = unfit_for(value, column, target) if target is not None else None
    if target is not None and other is not None:
        yield (other if held is None else other & ~held), target.type
