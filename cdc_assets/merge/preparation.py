"""Completes a plan by what the batch's records say: how binlog files are numbered, and columns.

Reads records, changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame

from cdc_assets.changes.position import Scheme
from cdc_assets.changes.restarts import COMMIT_NUMBERS, Restarts
from cdc_assets.merge.binlog import epochs_of, numberings, scanned, to_text
from cdc_assets.merge.decoding import BatchDecoder, RecordSchema, distinct_schemas
from cdc_assets.merge.describe import TypeSource
from cdc_assets.merge.failures import translated
from cdc_assets.merge.plan import BatchPlan
from cdc_assets.merge.tables import LakeTables
from cdc_assets.registry import TableEntry
from cdc_assets.schema.types import Column, TableSchema


@dataclass(frozen=True, slots=True)
class Preparation:
    """For the batches of one table.

    Attributes:
        types: of its source.
        tables: plans its lake table.
        placeholder: the connector's ``unavailable.value.placeholder``.
    """

    types: TypeSource
    tables: LakeTables
    placeholder: str

    def of(
        self, plan: BatchPlan, raw: DataFrame, seen: Sequence[Column] = ()
    ) -> tuple[BatchPlan, BatchDecoder]:
        """The whole plan, and the decoder of these records.

        Args:
            plan: of the log and the lake.
            raw: the batch's records.
            seen: columns that only the records have shown, where these carry no schema.

        Raises:
            RejectedRecordError: if a record's schema cannot be parsed.
            TerminalError: if the table cannot hold what the records have.
        """
        if plan.layout.scheme is Scheme.BINLOG:
            plan = _with_epochs(plan, raw)
        elif plan.layout.scheme in COMMIT_NUMBERS:
            plan = replace(plan, epochs=Restarts.from_json(plan.numbering).epochs)
        schemas = self._schemas(plan, raw) if plan.layout.inline else ()
        records = [each.schema for each in schemas]
        if seen:
            records.append(replace(plan.schema, columns=(*plan.schema.columns, *seen)))
        columns = self.tables.columns(plan.schema, plan.state, records)
        plan = replace(plan, schema=columns.schema, steps=(*plan.steps, *columns.steps))
        return plan, BatchDecoder(raw, plan, self.placeholder, schemas)

    def _schemas(self, plan: BatchPlan, raw: DataFrame) -> tuple[RecordSchema, ...]:
        with translated("read schemas", plan.where):
            return distinct_schemas(raw, plan, _schema_of(self.types, plan.entry, plan.schema.key))


def _schema_of(
    types: TypeSource, entry: TableEntry, key: tuple[str, ...]
) -> Callable[..., TableSchema]:
    return lambda value: types.of_record(entry, value, key)


def _with_epochs(plan: BatchPlan, raw: DataFrame) -> BatchPlan:
    """What was merged before is not looked at again: its epochs are known."""
    known = numberings(plan.numbering)
    if not plan.replay:
        with translated("read binlog positions", plan.where):
            known = scanned(raw, known, inline=plan.layout.inline)
    return replace(plan, numbering=to_text(known), epochs=epochs_of(known))
