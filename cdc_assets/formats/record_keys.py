"""Which row a change is of: from the row, the row before it, or the record's own key."""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from cdc_assets.formats.flat import any_of
from cdc_assets.formats.spec import TOMBSTONE, DecodeSpec, wire_struct
from cdc_assets.formats.values import decoded
from cdc_assets.schema.types import Column, Wire


def key_of(envelope: Expression, op: Expression, spec: DecodeSpec) -> Expression:
    """From the row; of a delete from ``before``, else from the record's key."""
    if not spec.schema.key:
        return F.lit(None).cast("struct<none:string>")
    after, before = envelope.getField("after"), envelope.getField("before")
    columns = spec.key_columns
    wanted = (op == "d") & before.getField(columns[0].name).isNull()
    if spec.tombstone_keys:
        wanted = wanted | (op == TOMBSTONE)
    from_record = F.when(wanted, _record_key(spec))

    def value(column: Column) -> Expression:
        deleted = F.coalesce(before.getField(column.name), from_record.getField(column.name))
        now = _held(after, before, column, spec)
        wire = F.when(op.isin("d", TOMBSTONE), deleted).otherwise(now)
        return decoded(wire, column).alias(column.name)

    return F.struct(*(value(column) for column in columns))


def _held(after: Expression, before: Expression, column: Column, spec: DecodeSpec) -> Expression:
    """A column of a configured key may be large and unchanged: then ``before`` holds it."""
    value = after.getField(column.name)
    if not spec.split_keys or column.wire is not Wire.STRING:
        return value
    return F.when(value == spec.placeholder, before.getField(column.name)).otherwise(value)


def old_key(envelope: Expression, spec: DecodeSpec) -> Expression:
    """The key before an update; a ``before`` of changed columns only says nothing of the rest.

    A column that is there and NULL was not logged (an index as replica identity): not known.
    """
    if not spec.schema.key:
        return F.lit(None).cast("struct<none:string>")
    after, before = envelope.getField("after"), envelope.getField("before")
    path = "$.payload.before" if spec.inline else "$.before"
    logged = F.json_object_keys(F.get_json_object(F.col("text"), path))

    def value(column: Column) -> Expression:
        held = before.getField(column.name)
        unchanged = before.isNotNull() & ~F.array_contains(logged, column.name)
        wire = F.when(held.isNotNull(), held).when(unchanged, after.getField(column.name))
        return decoded(wire, column).alias(column.name)

    old = F.struct(*(value(column) for column in spec.key_columns))
    return F.when(_may_be_rekeyed(envelope, spec), old)


def _may_be_rekeyed(envelope: Expression, spec: DecodeSpec) -> Expression:
    """Any update if the key is one of the configuration.

    For its own record key the connector sends a delete and a create; an update that changes it
    nevertheless has another one before. Ordinary records cost this comparison and no more.
    """
    is_update = envelope.getField("op") == "u"
    if spec.split_keys:
        return is_update
    after, before = envelope.getField("after"), envelope.getField("before")
    differs = any_of(
        decoded(before.getField(column.name), column)
        != decoded(after.getField(column.name), column)
        for column in spec.key_columns
    )
    return is_update & before.isNotNull() & differs


def has_moved() -> Expression:
    """Whether an update changed the key, of decoded changes."""
    return F.coalesce(F.col("old_key") != F.col("key"), F.lit(False))


def any_null(struct: Expression, names: tuple[str, ...]) -> Expression:
    """Whether one of these fields is NULL."""
    return any_of(struct.getField(name).isNull() for name in names)


def _record_key(spec: DecodeSpec) -> Expression:
    """The Kafka key, with or without a schema around it."""
    bare = wire_struct(spec.key_columns)
    wrapped = StructType([StructField("payload", bare)])
    text = F.col("key_text")
    is_wrapped = text.startswith('{"schema":')
    return F.when(is_wrapped, F.from_json(text, wrapped).getField("payload")).otherwise(
        F.from_json(text, bare)
    )
