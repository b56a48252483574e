"""Completes a plan by what the batch's records say: how positions are numbered, and columns.

Reads records, changes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from cdc_assets.errors import TerminalError
from cdc_assets.formats.format import Format
from cdc_assets.formats.order import order_of
from cdc_assets.formats.oversized import blanked
from cdc_assets.formats.sample import Written
from cdc_assets.formats.writers import Writer
from cdc_assets.merge.intake.absent import AbsentColumns
from cdc_assets.merge.intake.decoding import BatchDecoder
from cdc_assets.merge.intake.describe import TypeSource
from cdc_assets.merge.intake.layouts import LakeTables
from cdc_assets.merge.intake.written import Schemas
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
        format: of its records.
        written: the schemas of its records.
    """

    spark: Callable[[], SparkSession]
    catalog: str
    types: TypeSource
    tables: LakeTables
    format: Format
    written: Callable[[BatchPlan, DataFrame], Schemas]

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
        writers = self.writers(plan, raw)
        plan = self._numbered(plan, raw, writers)
        readable = [each.schema for each in writers.values() if each.schema and not each.is_of_key]
        plan = self._widened(plan, readable, unknown)
        decoder = BatchDecoder(raw, plan, self.format, writers)
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
        column = self.types.column(entry, found.name, plan.schema.of_source.key)
        if column is None:
            what = f"the source has a column {found.name!r} that the table has not"
            where = f"table={entry.table} {found.coordinate}"
            remedy = "give its type under tables.<schema.table>.columns, or configure database:"
            raise TerminalError(what, where=where, remedy=remedy)
        return column

    def writers(self, plan: BatchPlan, raw: DataFrame) -> dict[int, Writer]:
        """The schemas of the records, as those of the table; none if the records tell none."""
        if self.format.writer(plan.layout, plan.entry.table) is None:
            return {}
        with translated("read schemas", plan.where):
            found = self.written(plan, raw)
        return {number: self._writer(plan, number, each) for number, each in found.items()}

    def _writer(self, plan: BatchPlan, number: int, written: Written | None) -> Writer:
        if written is None:
            return Writer(number, None)
        if written.is_of_key:
            return Writer(number, _of_key(plan.schema), written.text, is_of_key=True)
        schema = self.types.of_record(plan.entry, written.described, plan.schema)
        return Writer(number, schema, written.text)

    def _numbered(
        self, plan: BatchPlan, raw: DataFrame, writers: Mapping[int, Writer]
    ) -> BatchPlan:
        """With the epochs of its positions. What was merged before is not looked at again."""
        order = order_of(plan.layout.scheme)
        if not order.is_scanned:
            return replace(plan, epochs=order.epochs(plan.numbering))
        numbering = plan.numbering
        if not plan.replay:
            texts = {number: each.text for number, each in writers.items() if each.schema}
            with translated("read positions", plan.where):
                read = blanked(raw, self.format, plan.layout)
                sources = self.format.sources(read, plan.layout, order, texts)
                numbering = order.scanned(sources, numbering)
        return replace(plan, numbering=numbering, epochs=order.epochs(numbering))


def _of_key(schema: TableSchema) -> TableSchema:
    """The key's columns, as those of a record that has nothing else."""
    schema = schema.of_source
    return replace(schema, columns=tuple(schema.column(name) for name in schema.key))
