"""Records as bytes in, decoded changes out: a format on Spark, without Kafka or a lake."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from pyspark.sql import DataFrame, Row

from cdc_assets.changes.names import TableName
from cdc_assets.changes.offsets import Coordinate
from cdc_assets.formats.changes import Reading, decode
from cdc_assets.formats.debezium.placeholder import unset_able
from cdc_assets.formats.format import Format
from cdc_assets.formats.layout import Layout
from cdc_assets.formats.sample import Sample
from cdc_assets.formats.spec import ReadSpec
from cdc_assets.formats.writers import Writer, read_alike
from cdc_assets.log.values import RawRecord
from cdc_assets.schema.described import Described
from cdc_assets.schema.inference import infer
from cdc_assets.schema.types import TableSchema
from cdc_assets_tests.pipeline import Session

NOW = datetime(2026, 3, 1, tzinfo=UTC)
TABLE = TableName("shop", "public", "t")
_COLUMNS = "key binary, value binary, partition int, offset bigint"


@dataclass(frozen=True)
class Bytes:
    """One record."""

    key: bytes | None
    value: bytes | None


@dataclass(frozen=True)
class Table:
    """What a table is like whose first records these are."""

    schema: TableSchema
    layout: Layout


def raw(records: Sequence[Bytes]) -> list[RawRecord]:
    """The same records as they lie in a log of one partition."""
    return [
        RawRecord(Coordinate("shop.public.t", 0, offset), NOW, each.key, each.value)
        for offset, each in enumerate(records)
    ]


def table_of(fmt: Format, records: Sequence[Bytes], key: tuple[str, ...] = ()) -> Table:
    """As `cdc_assets.merge.intake.describe` settles it, without a catalog."""
    sample = fmt.look([each for each in raw(records) if each.value is not None], TABLE)
    schema = _described(sample, key).exact()
    split = not (set(schema.key) <= set(sample.key_names) or sample.is_keyed_by(schema.key))
    scheme = sample.scheme
    assert scheme is not None or not sample.events
    layout = Layout(sample.dialect, sample.is_keyed_by(schema.key), split)
    return Table(schema, layout if scheme is None else replace(layout, scheme=scheme))


def decoded(
    spark: Session, fmt: Format, table: Table, records: Sequence[Bytes]
) -> dict[int, list[Row]]:
    """The changes of each record, by its place; one job for all of them."""
    rows = [(each.key, each.value, 0, offset) for offset, each in enumerate(records)]
    found = decode(spark().createDataFrame(rows, _COLUMNS), _reading(fmt, table, records))
    changes: dict[int, list[Row]] = {offset: [] for offset in range(len(records))}
    for row in _judged(found).collect():
        changes[row["offset"]].append(row)
    return changes


def _judged(found: DataFrame) -> DataFrame:
    return found.drop("is_unwritten", "told_ms", "may_witness", "floats", "pair")


def _reading(fmt: Format, table: Table, records: Sequence[Bytes]) -> Reading:
    schema = table.schema
    spec = ReadSpec(schema, table.layout, schema, TABLE, tombstone_keys=True, parse_here=True)
    writers: dict[int, Writer] = {}
    if fmt.writer(table.layout, TABLE) is not None:
        for record in raw(records):
            written = fmt.written(record, table.layout) if record.value is not None else None
            if written is not None and written.number is not None:
                mine = replace(written.described, key=schema.key).exact()
                writers[written.number] = Writer(written.number, mine, written.text)
    readable = [each.schema for each in writers.values() if each.schema is not None]
    spec = replace(spec, unset_able=unset_able(schema, readable))
    alike = (
        replace(spec, schema=replace(group.schema, key=schema.key), writers=group.writers)
        for group in read_alike(writers)
    )
    return Reading(fmt, (*alike, spec))


def _described(sample: Sample, key: tuple[str, ...]) -> Described:
    described = sample.described or infer(sample.rows or sample.keys, sample.key_names)
    return replace(described, key=key) if key else described
