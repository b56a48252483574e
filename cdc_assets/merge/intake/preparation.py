"""Completes a plan by what the batch's records say: how positions are numbered, and columns.

Reads records, changes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from cdc_assets.changes.position import Scheme
from cdc_assets.changes.restarts import COMMIT_NUMBERS, Restarts
from cdc_assets.errors import TerminalError
from cdc_assets.merge.intake.absent import AbsentColumns
from cdc_assets.merge.intake.binlog import epochs_of, numberings, scanned, to_text
from cdc_assets.merge.intake.decoding import BatchDecoder, RecordSchema, distinct_schemas
from cdc_assets.merge.intake.describe import TypeSource
from cdc_assets.merge.intake.layouts import LakeTables
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.merge.plan.result import UnknownColumn
from cdc_assets.merge.plan.table_steps import DescribeColumns, LeaveOut, TableStep
from cdc_assets.merge.statements.failures import translated
from cdc_assets.schema.evolution import lacking
from cdc_assets.schema.types import Column, TableSchema

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Preparation:
    """For the batches of one table.

    Attributes:
        spark: gives the session.
        catalog: name of the lake's catalog.
        types: of its source.
        tables: plans its lake table.
        placeholder: the connector's ``unavailable.value.placeholder``.
    """

    spark: Callable[[], SparkSession]
    catalog: str
    types: TypeSource
    tables: LakeTables
    placeholder: str

    def of(
        self,
        plan: BatchPlan,
        raw: DataFrame,
        unknown: Sequence[UnknownColumn] = (),
        lacks: Sequence[str] = (),
    ) -> tuple[BatchPlan, BatchDecoder]:
        """The whole plan, and the decoder of these records.

        Args:
            plan: of the log and the lake.
            raw: the batch's records.
            unknown: columns that only the records have shown, where these carry no schema.
            lacks: likewise those that some of them lack.

        Raises:
            TerminalError: if the table cannot hold what the records have, or would lose what
                they lack.
        """
        plan = _numbered(plan, raw)
        schemas = self._schemas(plan, raw) if plan.layout.inline else ()
        readable = [each.schema for each in schemas if each.schema is not None]
        plan = self._widened(plan, readable, unknown)
        decoder = BatchDecoder(raw, plan, self.placeholder, schemas)
        names = dict.fromkeys(n for each in readable for n in lacking(plan.schema, each))
        return self._settled(plan, decoder, tuple(dict.fromkeys([*names, *lacks])))

    def _widened(
        self, plan: BatchPlan, readable: Sequence[TableSchema], unknown: Sequence[UnknownColumn]
    ) -> BatchPlan:
        """With the columns that records have and the table has not."""
        known = {*plan.schema.names, *plan.schema.left_out}
        shown = [*(n for each in readable for n in each.names), *(each.name for each in unknown)]
        new = tuple(dict.fromkeys(name for name in shown if name not in known))
        gone = self.types.unpublished(plan.entry, new) if new else {}
        for name, why in gone.items():
            _log.warning("table=%s: column %s is left out: %s", plan.entry.table, name, why)
        schema = replace(plan.schema, left_out=(*plan.schema.left_out, *gone))
        added = [self._column(plan, each) for each in unknown if each.name not in gone]
        records = list(readable)
        if added:
            records.append(replace(schema, columns=(*schema.columns, *added)))
        columns = self.tables.columns(schema, plan.state, records)
        left: tuple[TableStep, ...] = (LeaveOut(tuple(gone)),) if gone else ()
        return replace(plan, schema=columns.schema, steps=(*plan.steps, *left, *columns.steps))

    def _settled(
        self, plan: BatchPlan, decoder: BatchDecoder, names: tuple[str, ...]
    ) -> tuple[BatchPlan, BatchDecoder]:
        """The same once it is known what has become of columns that records lack."""
        if not names:
            return plan, decoder
        absent = AbsentColumns(self.spark(), self.catalog, self.types, self.tables)
        schema = absent.settled(decoder, names)
        marked = tuple(c for c in schema.columns if c not in plan.schema.columns)
        steps = (*plan.steps, DescribeColumns(marked)) if marked else plan.steps
        plan = replace(plan, schema=schema, steps=steps)
        return plan, replace(decoder, plan=plan, may_lack=frozenset(names))

    def _column(self, plan: BatchPlan, found: UnknownColumn) -> Column:
        """A column that only the records have shown.

        Raises:
            TerminalError: if nobody knows its type.
        """
        entry = plan.entry
        column = self.types.column(entry, found.name, plan.schema.key)
        if column is None:
            what = f"the source has a column {found.name!r} that the table has not"
            where = f"table={entry.table} {found.coordinate}"
            remedy = "give its type under tables.<schema.table>.columns, or configure database:"
            raise TerminalError(what, where=where, remedy=remedy)
        return column

    def _schemas(self, plan: BatchPlan, raw: DataFrame) -> tuple[RecordSchema, ...]:
        with translated("read schemas", plan.where):
            return distinct_schemas(
                raw, lambda value: self.types.of_record(plan.entry, value, plan.schema)
            )


def _numbered(plan: BatchPlan, raw: DataFrame) -> BatchPlan:
    """With the epochs of its positions. What was merged before is not looked at again."""
    if plan.layout.scheme in COMMIT_NUMBERS:
        return replace(plan, epochs=Restarts.from_json(plan.numbering).epochs)
    if plan.layout.scheme is not Scheme.BINLOG:
        return plan
    known = numberings(plan.numbering)
    if not plan.replay:
        with translated("read binlog positions", plan.where):
            known = scanned(raw, known, inline=plan.layout.inline)
    return replace(plan, numbering=to_text(known), epochs=epochs_of(known))
