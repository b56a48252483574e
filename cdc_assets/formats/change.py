"""Turns an envelope into the columns of a change, each from the envelope alone."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F

from cdc_assets.formats.envelope import Envelope, Image
from cdc_assets.formats.flat import any_of
from cdc_assets.formats.format import Format
from cdc_assets.formats.order import NUMBERS, Placed
from cdc_assets.formats.record_keys import key_of, old_key
from cdc_assets.formats.rejections import rejection
from cdc_assets.formats.spec import LINE_BITS, ROW_OPS, TOMBSTONE, ReadSpec
from cdc_assets.formats.stored_values import stored
from cdc_assets.formats.values import decoded
from cdc_assets.schema.types import Column, Wire


def change_of(envelope: Envelope, spec: ReadSpec, fmt: Format) -> dict[str, Expression]:
    """Returns the columns of a change by name, see `cdc_assets.formats.changes`."""
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
        "reject": rejection(envelope, spec),
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


def _position(envelope: Envelope, spec: ReadSpec, fmt: Format) -> dict[str, Expression]:
    """Returns the numbers of the position, and the inputs for floors, restarts and late reads."""
    order, placed = spec.order, placed_of(envelope, fmt)
    read, floating = order.floor_columns(placed)
    # Truncates have no key: sent again, they may be in another partition.
    has_key = envelope.op != "t"
    counts_reads = spec.counts_rows and not spec.records_reads
    late = order.is_late_read(placed) if counts_reads else F.lit(False)
    return {
        **dict(zip(NUMBERS, order.numbers(placed, spec.state), strict=False)),
        "read_lsn": read,
        "floating_lsn": floating,
        "told_ms": order.told_ms(envelope.source),
        "may_witness": order.may_witness(placed) & has_key,
        "floats": order.floats(placed) & has_key,
        "is_late_read": late,
    }


def placed_of(envelope: Envelope, fmt: Format) -> Placed:
    """Returns the parts of a record from which its position is made."""
    offset = F.col("offset")
    line = F.col("first") + F.col("line") if fmt.has_packets else F.col("line")
    place = F.shiftleft(offset, LINE_BITS) + line if fmt.has_many_rows else offset
    source, partition = envelope.source, F.col("partition")
    return Placed(source, envelope.is_read, partition, offset, place, envelope.placed)


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
    positions such a create is rejected, see `cdc_assets.formats.rejections`.
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
