"""Determines a change's row key: from the row, the row before it, or the record's own key."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F

from cdc_assets.formats.envelope import Envelope
from cdc_assets.formats.flat import any_of
from cdc_assets.formats.spec import TOMBSTONE, ReadSpec
from cdc_assets.formats.stored_values import stored
from cdc_assets.formats.values import decoded
from cdc_assets.schema.types import Column, Wire


def key_of(envelope: Envelope, spec: ReadSpec) -> Expression:
    """Returns the key from the row; of a delete from ``before``, else from the record's key."""
    if not spec.schema.key:
        return F.lit(None).cast("struct<none:string>")
    op, before, record = envelope.op, envelope.before, envelope.record_key
    _, ways = spec.key_pairs[0]
    wanted = (op == "d") & ~any_of(before.value(way).isNotNull() for way in ways)
    if spec.tombstone_keys:
        wanted = wanted | (op == TOMBSTONE)

    def value(column: Column) -> Expression:
        from_record = F.when(wanted, record.value(column))
        deleted = F.coalesce(before.value(column), from_record)
        now = _held(envelope, column, spec)
        wire = F.when(op.isin("d", TOMBSTONE), deleted).otherwise(now)
        return decoded(wire, column)

    return _struct(spec, value)


def _held(envelope: Envelope, column: Column, spec: ReadSpec) -> Expression:
    """Returns a column; a large, unchanged column of a configured key is taken from ``before``."""
    value = envelope.after.value(column)
    if not spec.layout.split_keys or column.wire is not Wire.STRING:
        return value
    held = envelope.left_out(column)
    return value if held is None else F.when(held, envelope.before.value(column)).otherwise(value)


def old_key(envelope: Envelope, spec: ReadSpec) -> Expression:
    """Returns the key before an update; columns omitted in ``before`` have the value of ``after``.

    A column of ``before`` that is NULL was not logged (an index as replica identity): it is
    unknown.
    """
    if not spec.schema.key:
        return F.lit(None).cast("struct<none:string>")
    after, before = envelope.after, envelope.before

    def value(column: Column) -> Expression:
        held, unchanged = before.value(column), envelope.unchanged(column)
        wire = F.when(held.isNotNull(), held).when(unchanged, after.value(column))
        return decoded(wire, column)

    return F.when(_may_be_rekeyed(envelope, spec), _struct(spec, value))


def _struct(spec: ReadSpec, value: Callable[[Column], Expression]) -> Expression:
    """Returns the key in the lake's types, from its columns as they arrive."""
    found = (
        _as(target, [stored(value(way), way, target) for way in ways])
        for target, ways in spec.key_pairs
    )
    return F.struct(*found)


def _as(target: Column, values: Sequence[Expression]) -> Expression:
    none = F.lit(None).cast(str(target.type))
    value = values[0] if len(values) == 1 else F.coalesce(*values, none)
    return value.alias(target.name)


def _may_be_rekeyed(envelope: Envelope, spec: ReadSpec) -> Expression:
    """Returns whether an update may change the key: any update, if the key is a configured one.

    For its own record key the connector sends a delete and a create; an update that changes the key
    nevertheless has a different key in ``before``. Ordinary records cost only this comparison.
    """
    is_update = envelope.op == "u"
    if spec.layout.split_keys:
        return is_update
    after, before = envelope.after, envelope.before
    differs = any_of(
        decoded(before.value(column), column) != decoded(after.value(column), column)
        for column in spec.key_columns
    )
    return is_update & before.is_there & differs


def has_moved() -> Expression:
    """Returns whether an update changed the key, of decoded changes."""
    return F.coalesce(F.col("old_key") != F.col("key"), F.lit(False))


def any_null(struct: Expression, names: tuple[str, ...]) -> Expression:
    """Returns whether one of these fields is NULL."""
    return any_of(struct.getField(name).isNull() for name in names)
