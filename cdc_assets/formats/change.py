"""Turns an envelope into the columns of a change, each from the envelope alone."""

from __future__ import annotations

import json

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F

from cdc_assets.decode import read_change
from cdc_assets.formats.envelope import Envelope
from cdc_assets.formats.format import Format
from cdc_assets.formats.order import NUMBERS, Placed
from cdc_assets.formats.spec import LINE_BITS, TOMBSTONE, ReadSpec
from cdc_assets.formats.values import arriving
from cdc_assets.schema.types import Column as TableColumn


def change_of(envelope: Envelope, spec: ReadSpec, fmt: Format) -> Expression:
    """Returns ``struct<key, old_key, row, unset, old_row, reject, in_doubt, ts>`` of a change.

    It has all that depends on the values of a record, see ``Changes.java``.
    """
    return read_change(
        _wanted(envelope, spec, fmt),
        envelope.op,
        F.coalesce(envelope.is_read, F.lit(False)),
        envelope.after.row,
        envelope.before.row,
        _key_of_record(envelope, spec),
        envelope.left_out.names,
        envelope.unchanged,
        F.col("key").isNotNull(),
        envelope.reject,
        envelope.odd,
        envelope.replaced,
        _tells_time(envelope.source),
        spec.order.source_micros(envelope.source),
    )


def _key_of_record(envelope: Envelope, spec: ReadSpec) -> Expression:
    """Returns the record's own key where it may be needed: a row after a change has its key."""
    key = envelope.record_key.row
    if envelope.checks_texts:
        return key
    rowless = ("d", TOMBSTONE) if spec.tombstone_keys else ("d",)
    return F.when(envelope.op.isin(*rowless), key)


def _wanted(envelope: Envelope, spec: ReadSpec, fmt: Format) -> dict[str, object]:
    """Returns the parts of the table's records to decode, and the rules for decoding them.

    ``split_keys``: whether the key is a configured one, which any update may change.
    ``has_positions``: whether a create of a changed key is distinguished from an insert.
    ``has_tombstones``: whether a delete without a row is known by its record's key. ``leaves_out``:
    whether an update leaves out the columns that its record does not know. ``no_op``: the reason
    for a record without an operation, if operations are judged.
    """
    left_out = envelope.left_out
    places = {each.name: place for place, each in enumerate(spec.schema.columns)}
    targets = {each.name: place for place, (each, _) in enumerate(spec.pairs)}
    columns = [
        {**arriving(each), **_salt(each, spec), "may_be_left_out": left_out.may_be(each)}
        for each in spec.schema.columns
    ]
    target = [
        {"name": each.name, "type": str(each.type), "ways": [places[way.name] for way in ways]}
        for each, ways in spec.pairs
    ]
    wanted: dict[str, object] = {
        "columns": columns,
        "target": target,
        "key": [targets[name] for name in spec.target.key] if spec.schema.key else [],
        "unset": [targets[name] for name in spec.omittable],
        "counts_rows": spec.counts_rows,
        "has_rows": spec.has_rows,
        "split_keys": spec.layout.split_keys,
        "reads_tombstones": spec.tombstone_keys,
        "is_shared": spec.own is not None and spec.own.is_shared,
        "has_positions": bool(spec.order.types),
        "has_tombstones": fmt.has_tombstones,
        "leaves_out": fmt.leaves_out,
        "checks_texts": envelope.checks_texts,
        "no_op": envelope.no_op,
    }
    if left_out.placeholder:
        wanted["placeholder"] = text = left_out.placeholder
        # As the connector writes an unchanged map, without spaces.
        wanted["placeholder_map"] = json.dumps({text: text}, separators=(",", ":"))
    return wanted


def _salt(column: TableColumn, spec: ReadSpec) -> dict[str, str]:
    """Returns the salt of a column's digests in the place of its mark."""
    mark = column.detail.salt if column.detail else ""
    return {"salt": spec.salts.get(mark, mark)} if mark else {}


def parts_of(
    envelope: Envelope, change: Expression, spec: ReadSpec, fmt: Format
) -> dict[str, Expression]:
    """Returns the columns of a change by name, see `cdc_assets.formats.changes`.

    Args:
        envelope: of the record.
        change: from `change_of`.
        spec: of the table.
        fmt: of the records.
    """
    op = envelope.op
    names = ("ts", "key", "old_key", "row", "unset", "old_row", "reject", "in_doubt")
    return {
        "op": op,
        **_position(envelope, spec, fmt),
        "partition": F.col("partition"),
        "offset": F.col("offset"),
        **{name: change.getField(name) for name in names},
        "ordinal": envelope.ordinal,
        "pair": _pair(op) if fmt.has_tombstones else F.lit(None).cast("bigint"),
        "is_unwritten": F.lit(False),
        "other_table": envelope.other_table,
        "unknown": envelope.unknown,
        "absent": envelope.absent,
        **_key_schema(spec, fmt),
    }


def _tells_time(source: Expression) -> Expression:
    """Whether a record has a commit time, even one that overflows in microseconds."""
    return source.getField("ts_us").isNotNull() | source.getField("ts_ms").isNotNull()


def _key_schema(spec: ReadSpec, fmt: Format) -> dict[str, Expression]:
    if not spec.tells_key_schema:
        return {}
    found = fmt.key_schema(spec.layout)
    return {"key_schema": F.lit(None).cast("bigint") if found is None else found}


def _position(envelope: Envelope, spec: ReadSpec, fmt: Format) -> dict[str, Expression]:
    """Returns a position's numbers, and what low watermarks, restarts and late reads need."""
    order, placed = spec.order, placed_of(envelope, fmt)
    read, floating = order.low_watermark_columns(placed)
    # Truncates have no key: sent again, they may be in another partition.
    has_key = envelope.op != "t"
    counts_reads = spec.counts_rows and not spec.records_reads
    late = order.is_late_read(placed) if counts_reads else F.lit(False)
    return {
        **dict(zip(NUMBERS, order.numbers(placed, spec.state), strict=False)),
        "read_lsn": read,
        "floating_lsn": floating,
        "told_ms": order.source_ms(envelope.source),
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


def _pair(op: Expression) -> Expression:
    """Returns the hash that a delete shares with the tombstone that Debezium sends next."""
    after_delete = F.xxhash64(F.col("key"), F.col("partition"), F.col("offset") + 1)
    tombstone = F.xxhash64(F.col("key"), F.col("partition"), F.col("offset"))
    known = F.col("key").isNotNull()
    return F.when(known & (op == "d"), after_delete).when(known & (op == TOMBSTONE), tombstone)
