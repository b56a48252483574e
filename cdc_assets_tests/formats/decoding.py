"""Records as bytes in, decoded changes out: a format on Spark, without Kafka or a lake."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from io import StringIO

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from cdc_assets.changes.names import TableName
from cdc_assets.changes.offsets import Coordinate
from cdc_assets.changes.position import Scheme
from cdc_assets.databases.catalog import SourceTable
from cdc_assets.formats.by_table import OF_ROWS, OF_TABLE, opened, with_tables
from cdc_assets.formats.changes import Reading, decode
from cdc_assets.formats.format import Format
from cdc_assets.formats.layout import Layout
from cdc_assets.formats.sample import Refusal, Sample
from cdc_assets.formats.spec import OTHER, ReadSpec
from cdc_assets.formats.writers import Writer, read_alike, read_apart
from cdc_assets.log.values import RawRecord
from cdc_assets.schema.described import Described
from cdc_assets.schema.inference import infer
from cdc_assets.schema.overrides import apply_overrides
from cdc_assets.schema.parse import parse_spec
from cdc_assets.schema.promotions import converts, fits
from cdc_assets.schema.types import TableSchema
from cdc_assets_tests.pipeline import Session

NOW = datetime(2026, 3, 1, tzinfo=UTC)
TABLE = TableName("shop", "public", "t")
_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.constraintPropagation.enabled": "false",
}
"""Those that `cdc_assets.merge.attempt.attempts` sets."""

_UNUSED = ("is_unwritten", "told_ms", "may_witness", "floats", "pair")
_OF_CHANGES = ("key", "old_key", "row", "old_row")
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
    refusal: Refusal | None = None


def raw(records: Sequence[Bytes]) -> list[RawRecord]:
    """The same records as they lie in a log of one partition."""
    return [
        RawRecord(Coordinate("shop.public.t", 0, offset), NOW, each.key, each.value)
        for offset, each in enumerate(records)
    ]


def table_of(
    fmt: Format,
    records: Sequence[Bytes],
    key: tuple[str, ...] = (),
    *,
    catalog: SourceTable | None = None,
    columns: Mapping[str, str] | None = None,
) -> Table:
    """As `cdc_assets.merge.intake.describe` settles it.

    Args:
        fmt: the format.
        records: the first of the table.
        key: that is configured.
        catalog: the table as its database has it; None without one.
        columns: types that are configured.
    """
    sample = fmt.look([each for each in raw(records) if each.value is not None], TABLE)
    described = _described(sample) if catalog is None else fmt.of_catalog(catalog)
    types = {name: parse_spec(text) for name, text in (columns or {}).items()}
    schema = apply_overrides(described, types, key, fmt.source.modes).exact()
    keyed, scheme = sample.is_keyed_by(schema.key), sample.scheme
    told = sample.key_names or (described.key if sample.guessed is not None else ())
    split = not (keyed or set(schema.key) <= set(told))
    form = sample.key_form(schema.key)
    layout = Layout(sample.dialect, keyed, split, scheme or Scheme.OFFSET, form)
    return Table(schema, layout, sample.refusal)


def decoded(
    spark: Session,
    fmt: Format,
    table: Table,
    records: Sequence[Bytes],
    *,
    most_schemas: int = 1000,
    with_texts: bool = True,
    as_json: bool = False,
) -> dict[int, list[Row]]:
    """The changes of each record, by its place; one job for all of them.

    With more than ``most_schemas`` the records of the others are of no known schema. Without
    ``with_texts`` nothing but the number of a schema is known. With ``as_json`` keys, rows and
    times are texts: Python has no timestamps beyond the year 9999.
    """
    reading = _reading(fmt, table, records, most_schemas)
    if not with_texts:
        specs = (replace(s, writers=dict.fromkeys(s.writers, "")) for s in reading.specs)
        reading = replace(reading, specs=tuple(specs))
    found = decode(_frame(spark, records), reading)
    changes: dict[int, list[Row]] = {offset: [] for offset in range(len(records))}
    for row in _judged(found, as_json=as_json).collect():
        changes[row["offset"]].append(row)
    return changes


def read_by(
    spark: Session, fmt: Format, specs: Sequence[ReadSpec], records: Sequence[Bytes]
) -> list[Row]:
    """The changes of records that are read in these ways, in the order of the records."""
    found = decode(_frame(spark, records), Reading(fmt, tuple(specs), ()))
    return _judged(found).orderBy("offset").collect()


def physical_plan(spark: Session, fmt: Format, table: Table, records: Sequence[Bytes]) -> str:
    """How Spark finds the changes; of rows that it has at hand it would find them at once."""
    reading = _reading(fmt, table, records, 1000)
    with redirect_stdout(StringIO()) as out:
        decode(_frame(spark, records).repartition(1), reading).explain()
    return out.getvalue()


def told_or_decoded(
    spark: Session, fmt: Format, table: Table, records: Sequence[Bytes], *, most_schemas: int
) -> tuple[Counter[str], Counter[str]]:
    """The changes of records by a table that reads all, and by one that shares the reading.

    That one decodes what is not told of others, and takes the count of those.
    """
    reading, raw_ = _reading(fmt, table, records, most_schemas), _frame(spark, records)
    apart = with_tables(opened(raw_, fmt, table.layout), fmt, table.layout)
    is_mine = F.col(OF_TABLE).isNull() | (F.col(OF_TABLE) == TABLE.qualified)
    told = _counted(decode(apart.where(is_mine).drop(OF_TABLE, OF_ROWS), reading))
    for row in apart.where(~is_mine).select("offset", OF_TABLE, OF_ROWS).collect():
        told[_other(row["offset"], row[OF_TABLE])] += row[OF_ROWS]
    return _counted(decode(raw_, reading)), told


def _counted(changes: DataFrame) -> Counter[str]:
    rows = _judged(changes, as_json=True).collect()
    assert all(row["reject"] is None for row in rows if row["op"] == OTHER and row["other_table"])
    return Counter(
        _other(row["offset"], row["other_table"]) if row["op"] == OTHER else str(row)
        for row in rows
    )


def _other(offset: int, table: str) -> str:
    return f"{offset}: a change of {table}"


def _frame(spark: Session, records: Sequence[Bytes]) -> DataFrame:
    session = spark()
    for name, value in _SETTINGS.items():
        session.conf.set(name, value)
    rows = [(each.key, each.value, 0, offset) for offset, each in enumerate(records)]
    return session.createDataFrame(rows, _COLUMNS)


def _judged(found: DataFrame, *, as_json: bool = False) -> DataFrame:
    """What becomes of the records: of those that are rejected nothing else counts.

    Their text may be any bytes, which the client cannot read.
    """
    shown = F.to_json if as_json else F.col
    read = {name: F.when(F.col("reject").isNull(), shown(name)) for name in _OF_CHANGES}
    op = F.when(F.is_valid_utf8("op"), F.col("op"))
    ts = F.col("ts").cast("string") if as_json else F.col("ts")
    return found.withColumns({**read, "op": op, "ts": ts}).drop(*_UNUSED)


def _reading(fmt: Format, table: Table, records: Sequence[Bytes], most_schemas: int) -> Reading:
    schema = table.schema
    spec = ReadSpec(schema, table.layout, schema, TABLE, tombstone_keys=True, parse_here=True)
    writers = _writers(fmt, table, records, most_schemas)
    readable = [each.schema for each in writers.values() if each.schema is not None]
    others = tuple(name for name in schema.names if name not in schema.key)
    spec = replace(spec, omittable=others if fmt.leaves_out else omittable(schema, readable))
    groups = read_alike(writers) if fmt.reads_alike else read_apart(writers)
    alike = [
        replace(spec, schema=replace(group.schema, key=schema.key), writers=group.writers)
        for group in groups
    ]
    last = replace(spec, has_rows=not (fmt.names_schemas and alike))
    unreadable = tuple(number for number, each in writers.items() if each.schema is None)
    return Reading(fmt, (*alike, last), unreadable)


def omittable(target: TableSchema, others: Iterable[TableSchema] = ()) -> tuple[str, ...]:
    """As `cdc_assets.merge.intake.decoding` finds them, of columns with the lake's names."""
    marked = {c.name for s in (target, *others) for c in s.columns if c.unchanged_marker}
    return tuple(name for name in target.names if name in marked)


def _writers(fmt: Format, table: Table, records: Sequence[Bytes], most: int) -> dict[int, Writer]:
    """As `cdc_assets.merge.intake.preparation` finds them; a schema that it refuses is none."""
    found: dict[int, Writer] = {}
    if fmt.writer(table.layout, TABLE) is None:
        return found
    mine = [each for each in raw(records) if each.value is not None]
    for message in (message for record in mine for message in fmt.unpacked(record, TABLE)):
        written = fmt.written(message, table.layout)
        if written is None or written.number is None or len(found) >= most:
            continue
        mine = replace(written.described, key=table.schema.key)
        readable = not mine.unmapped and set(table.schema.key) <= set(mine.names)
        schema = mine.exact() if readable else None
        if schema is not None and not _is_held(schema, table.schema):
            schema = None
        found[written.number] = Writer(written.number, schema, written.text)
    return found


def _is_held(schema: TableSchema, lake: TableSchema) -> bool:
    """Whether the lake's columns can have some of its values; else the table stops."""
    types = {column.name: column.type for column in lake.columns}
    both = [(each.type, types[each.name]) for each in schema.columns if each.name in types]
    return all(fits(arriving, kept) or converts(arriving, kept) for arriving, kept in both)


def _described(sample: Sample) -> Described:
    told = sample.described or sample.guessed
    described = told or infer(sample.rows or sample.keys, sample.key_names)
    names = sample.key_names if set(sample.key_names) <= set(described.names) else ()
    return replace(described, key=names or described.key)
