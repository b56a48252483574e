"""A batch's raw records to decoded changes, each record by its own schema.

Records without a schema are decoded by the schema stored with the table. Records that carry
one are grouped by it first: within a topic nearly always one, parsed once and not per record.
Schemas that give no column two meanings are one group, however many there are: a column that a
record's own schema lacks is not in the record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_assets.changes.json_text import read_json
from cdc_assets.changes.position import Floors
from cdc_assets.formats.debezium_json import decode
from cdc_assets.formats.placeholder import unset_able
from cdc_assets.formats.spec import DecodeSpec
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.schema.connect import is_envelope_schema
from cdc_assets.schema.types import Column, TableSchema

_ENVELOPE_START = '{"schema":'
_PAYLOAD = ',"payload":'
_LONGEST = 2**31 - 1
_LONGEST_SCHEMA = 8 << 20
_NO_SCHEMA = "its schema is not that of a change event"
SchemaOf = Callable[[Mapping[str, Any]], TableSchema]


@dataclass(frozen=True, slots=True)
class RecordSchema:
    """One distinct schema among a batch's records; None if it is not that of change events."""

    fingerprint: int
    schema: TableSchema | None


@dataclass(frozen=True, slots=True)
class BatchDecoder:
    """Decodes the records of one batch.

    Attributes:
        raw: the records.
        plan: of the batch; its schema is what rows are decoded to.
        placeholder: the connector's ``unavailable.value.placeholder``.
        schemas: distinct schemas of the records; empty if they carry none.
        may_lack: columns whose absence from these records was looked into.
    """

    raw: DataFrame
    plan: BatchPlan
    placeholder: str
    schemas: tuple[RecordSchema, ...] = ()
    may_lack: frozenset[str] = frozenset()

    @property
    def unset_able(self) -> tuple[str, ...]:
        """Columns that updates may leave out."""
        return unset_able(self.plan.schema, self.readable.values())

    @property
    def readable(self) -> dict[int, TableSchema]:
        """The schemas of change events, by fingerprint."""
        return {each.fingerprint: each.schema for each in self.schemas if each.schema}

    def decode(
        self,
        floors: Floors,
        raw: DataFrame | None = None,
        *,
        tombstone_keys: bool = False,
        parse_here: bool = True,
    ) -> DataFrame:
        """All records, decoded; those of no known schema come with a rejection.

        Args:
            floors: see `cdc_assets.changes.position.floor_at`.
            raw: other records of the table; None for the batch's own.
            tombstone_keys: decode the keys of records without a value too.
            parse_here: see `DecodeSpec`; where the changes are observed, that does the same.
        """
        plan, records = self.plan, self.raw if raw is None else raw
        spec = DecodeSpec(
            schema=plan.schema,
            inline=plan.layout.inline,
            target=plan.schema,
            placeholder=self.placeholder,
            scheme=plan.layout.scheme,
            unset_able=self.unset_able,
            floors=floors,
            epochs=plan.epochs,
            firsts=self._firsts if raw is None else {},
            split_keys=plan.layout.split_keys,
            tombstone_keys=tombstone_keys,
            may_lack=self.may_lack,
            parse_here=parse_here,
        )
        if not self.schemas:
            return decode(records, spec)
        keyed = records.withColumn("fingerprint", fingerprint())
        parts = [
            decode(
                keyed.where(F.col("fingerprint").isin(*each.fingerprints)),
                replace(
                    spec,
                    schema=replace(each.schema, key=spec.target.key),
                    lacks=self._lacks(each, spec.expected),
                ),
            )
            for each in read_alike(self.readable)
        ]
        bare = decode(keyed.where("fingerprint IS NULL"), spec)
        return _united([*parts, bare, *self._odd(keyed, spec)])

    def _lacks(self, group: Alike, expected: Sequence[str]) -> dict[int, tuple[str, ...]]:
        """By schema, what it has not of these columns; empty if none lacks any."""
        found: dict[int, tuple[str, ...]] = {}
        for number in group.fingerprints:
            names = set(self.readable[number].names)
            found[number] = tuple(name for name in expected if name not in names)
        return found if any(found.values()) else {}

    def _odd(self, keyed: DataFrame, spec: DecodeSpec) -> list[DataFrame]:
        """Records with a schema that is not one: rejected, if there are any."""
        if len(self.readable) == len(self.schemas):
            return []
        others = keyed.where(~F.col("fingerprint").isin(list(self.readable)))
        return [decode(others, spec).withColumn("reject", F.lit(_NO_SCHEMA))]

    @property
    def _firsts(self) -> Mapping[int, int]:
        """The record before each range belongs to it, see `BatchPlan.context`."""
        return {each.partition: max(each.start - 1, 0) for each in self.plan.ranges}


@dataclass(frozen=True, slots=True)
class Alike:
    """Records that are read by one schema, which has the columns of all of theirs."""

    fingerprints: tuple[int, ...]
    schema: TableSchema


def read_alike(schemas: Mapping[int, TableSchema]) -> tuple[Alike, ...]:
    """As few groups of schemas as they come, in which no column has two meanings.

    Args:
        schemas: by fingerprint.
    """
    groups: list[tuple[list[int], dict[str, Column]]] = []
    for fingerprint, schema in schemas.items():
        columns = {column.name: column for column in schema.columns}
        for fingerprints, known in groups:
            if all(_meaning(known.get(name, c)) == _meaning(c) for name, c in columns.items()):
                fingerprints.append(fingerprint)
                known.update(columns)
                break
        else:
            groups.append(([fingerprint], columns))
    return tuple(Alike(tuple(f), TableSchema((*known.values(),))) for f, known in groups)


def _meaning(column: Column) -> tuple[object, ...]:
    return (column.type, column.wire, column.element_wire, column.unchanged_marker)


def _united(frames: Sequence[DataFrame]) -> DataFrame:
    """By halves: a union has two sides, and a chain of them would be as deep as it is long."""
    if len(frames) == 1:
        return frames[0]
    half = len(frames) // 2
    return _united(frames[:half]).unionByName(_united(frames[half:]))


def schema_text() -> Expression:
    """The record's schema as text; NULL for records without one.

    The converter writes ``{"schema":{…},"payload":…``, with the same text for the same schema,
    so that the text in between identifies it. Within a JSON string the quotes would be
    escaped: no value can look like the separator. Other layouts are parsed.
    """
    text = F.col("value").cast("string")
    front = F.substring_index(text, _PAYLOAD, 1)
    cut = F.substring(front, len(_ENVELOPE_START) + 1, _LONGEST)
    plain = text.startswith(_ENVELOPE_START) & text.contains(_PAYLOAD) & front.endswith("}")
    return F.when(plain, cut).otherwise(F.get_json_object(text, "$.schema"))


def fingerprint() -> Expression:
    """A hash of `schema_text`."""
    return F.when(schema_text().isNotNull(), F.xxhash64(schema_text()))


def distinct_schemas(raw: DataFrame, schema_of: SchemaOf) -> tuple[RecordSchema, ...]:
    """The schemas that a batch's records carry, in the order of their first record.

    Args:
        raw: the records.
        schema_of: from the parsed ``schema`` object of a value to a table's schema.

    """
    text = F.when(F.length(schema_text()) <= _LONGEST_SCHEMA, schema_text())
    found = (
        raw.select(fingerprint().alias("fingerprint"), text.alias("text"), "partition", "offset")
        .where("fingerprint IS NOT NULL")
        .groupBy("fingerprint")
        .agg(
            F.any_value("text").alias("text"), F.min(F.struct("partition", "offset")).alias("first")
        )
        .collect()
    )
    ordered = sorted(found, key=lambda row: (row["first"]["offset"], row["first"]["partition"]))
    parsed = ((row["fingerprint"], read_json(row["text"])) for row in ordered)
    return tuple(
        RecordSchema(number, schema_of(schema) if is_envelope_schema(schema) else None)
        for number, schema in parsed
    )
