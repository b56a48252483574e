"""A batch's raw records to decoded changes, each record by its own schema.

Records without a schema are decoded by the schema stored with the table. Records that carry
one are grouped by it first: within a topic nearly always one, parsed once and not per record.
Schemas that give no column two meanings are one group, however many there are: a column that a
record's own schema lacks is not in the record.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_assets.changes.offsets import Coordinate
from cdc_assets.changes.position import Floors
from cdc_assets.errors import RejectedRecordError
from cdc_assets.formats.debezium_json import decode
from cdc_assets.formats.placeholder import unset_able
from cdc_assets.formats.spec import DecodeSpec
from cdc_assets.merge.plan import BatchPlan
from cdc_assets.schema.types import Column, TableSchema

_ENVELOPE_START = '{"schema":'
_PAYLOAD = ',"payload":'
_LONGEST = 2**31 - 1
SchemaOf = Callable[[Mapping[str, Any]], TableSchema]


@dataclass(frozen=True, slots=True)
class RecordSchema:
    """One distinct schema among a batch's records."""

    fingerprint: int
    schema: TableSchema


@dataclass(frozen=True, slots=True)
class BatchDecoder:
    """Decodes the records of one batch.

    Attributes:
        raw: the records.
        plan: of the batch; its schema is what rows are decoded to.
        placeholder: the connector's ``unavailable.value.placeholder``.
        schemas: distinct schemas of the records; empty if they carry none.
    """

    raw: DataFrame
    plan: BatchPlan
    placeholder: str
    schemas: tuple[RecordSchema, ...] = ()

    @property
    def unset_able(self) -> tuple[str, ...]:
        """Columns that updates may leave out."""
        return unset_able(self.plan.schema, (each.schema for each in self.schemas))

    def decode(
        self, floors: Floors, raw: DataFrame | None = None, *, tombstone_keys: bool = False
    ) -> DataFrame:
        """All records, decoded; those of no known schema come with a rejection.

        Args:
            floors: see `cdc_assets.changes.position.floor_at`.
            raw: other records of the table; None for the batch's own.
            tombstone_keys: decode the keys of records without a value too.
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
        )
        if not self.schemas:
            return decode(records, spec)
        keyed = records.withColumn("fingerprint", fingerprint())
        parts = [
            decode(
                keyed.where(F.col("fingerprint").isin(*each.fingerprints)),
                replace(spec, schema=replace(each.schema, key=spec.target.key)),
            )
            for each in read_alike(self.schemas)
        ]
        bare = decode(keyed.where("fingerprint IS NULL"), spec)
        return _united([*parts, bare])

    @property
    def _firsts(self) -> Mapping[int, int]:
        """The record before each range belongs to it, see `BatchPlan.context`."""
        return {each.partition: max(each.start - 1, 0) for each in self.plan.ranges}


@dataclass(frozen=True, slots=True)
class Alike:
    """Records that are read by one schema, which has the columns of all of theirs."""

    fingerprints: tuple[int, ...]
    schema: TableSchema


def read_alike(schemas: Sequence[RecordSchema]) -> tuple[Alike, ...]:
    """As few groups of schemas as they come, in which no column has two meanings."""
    groups: list[tuple[list[int], dict[str, Column]]] = []
    for each in schemas:
        columns = {column.name: column for column in each.schema.columns}
        for fingerprints, known in groups:
            if all(_meaning(known.get(name, c)) == _meaning(c) for name, c in columns.items()):
                fingerprints.append(each.fingerprint)
                known.update(columns)
                break
        else:
            groups.append(([each.fingerprint], columns))
    return tuple(Alike(tuple(each), TableSchema((*known.values(),))) for each, known in groups)


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


def distinct_schemas(
    raw: DataFrame, plan: BatchPlan, schema_of: SchemaOf
) -> tuple[RecordSchema, ...]:
    """The schemas that a batch's records carry, in the order of their first record.

    Args:
        raw: the records.
        plan: of the batch, for coordinates.
        schema_of: from the parsed ``schema`` object of a value to a table's schema.

    Raises:
        RejectedRecordError: if a schema cannot be parsed.
    """
    found = (
        raw.select(
            fingerprint().alias("fingerprint"), schema_text().alias("text"), "partition", "offset"
        )
        .where("fingerprint IS NOT NULL")
        .groupBy("fingerprint")
        .agg(
            F.any_value("text").alias("text"), F.min(F.struct("partition", "offset")).alias("first")
        )
        .collect()
    )
    ordered = sorted(found, key=lambda row: (row["first"]["offset"], row["first"]["partition"]))
    return tuple(
        RecordSchema(row["fingerprint"], schema_of(_parsed(row["text"], row["first"], plan)))
        for row in ordered
    )


def _parsed(text: str, first: Mapping[str, int], plan: BatchPlan) -> Mapping[str, Any]:
    try:
        return json.loads(text)
    except ValueError:
        what = "a record's schema is not readable JSON"
        at = Coordinate(plan.entry.topic, first["partition"], first["offset"])
        where = f"table={plan.entry.table} {at}"
        remedy = "check the connector's value.converter"
        raise RejectedRecordError(what, where=where, remedy=remedy) from None
