"""Completes a plan from the batch's records: the numbering of positions, and columns.

Reads records, changes nothing.

Tells columns that only older records have, as the source has dropped them, from renamed ones.

A column that was renamed before anything of it was merged looks like one that was dropped and
another one that was added: its values would be lost. Two names are of two columns if a record has
both; else a person has to say it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_assets.changes.mode import Mode
from cdc_assets.databases.catalog import ColumnFacts, with_number
from cdc_assets.errors import TerminalError, UnreachableError
from cdc_assets.formats.format import Format
from cdc_assets.formats.lacking import texts
from cdc_assets.formats.order import order_of
from cdc_assets.formats.oversized import blanked
from cdc_assets.formats.sample import Written
from cdc_assets.formats.writers import Writer
from cdc_assets.lake.columns import DROPPED
from cdc_assets.merge.intake.absent import AbsentColumns
from cdc_assets.merge.intake.decoding import BatchDecoder
from cdc_assets.merge.intake.describe import TypeSource
from cdc_assets.merge.intake.layouts import LakeTables
from cdc_assets.merge.intake.same_table import with_source_table
from cdc_assets.merge.intake.source_facts import SourceAnswers
from cdc_assets.merge.intake.writer_schemas import Schemas
from cdc_assets.merge.plan.column_plan import ColumnPlan, taught
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.merge.plan.result import UnknownColumn
from cdc_assets.merge.plan.table_steps import (
    TABLE_COMMENT,
    Comment,
    DescribeColumns,
    DropColumns,
    LeaveOut,
    TableStep,
)
from cdc_assets.merge.statements.failures import translated
from cdc_assets.schema.evolution import lacking
from cdc_assets.schema.homes import home_of, homes
from cdc_assets.schema.overrides import as_digest
from cdc_assets.schema.types import Column, TableSchema

_log: Final = logging.getLogger(__name__)
_MOST_SHAPES: Final = 10_000
"""Most combinations of columns to look at. With more of them, more columns stay in doubt."""


@dataclass(frozen=True, slots=True)
class PastColumns:
    """The decision about the new columns of one batch.

    Attributes:
        answers: what the source says.
        plan: of the batch.
        format: of its records.
        raw: the records.
        shapes: the columns of each schema of the records; None where they carry none.
    """

    answers: SourceAnswers
    plan: BatchPlan
    format: Format
    raw: DataFrame
    shapes: Sequence[Sequence[str]] | None

    def among(self, names: Sequence[str]) -> tuple[str, ...]:
        """Returns the new columns that the source has dropped and the lake does not need.

        If records carry their schema, only those that the lake had and dropped; but all if the
        source has dropped a column of the lake too, which might be one of them.

        Raises:
            TerminalError: if one may have been renamed since, so that its values are another
                column's.
        """
        entry = self.plan.entry
        is_asked = names and self.answers.table(entry) is not None
        facts = self.answers.facts(entry) if is_asked else None
        vanished = [name for name in names if facts is not None and name not in facts]
        if facts is None or not vanished:
            return ()
        is_numbered = any(each.number for each in facts.values())
        if is_numbered or self.shapes is None:
            self._require_gone(vanished, facts)
        once = self.plan.state.properties if self.plan.state else {}
        past = vanished
        there = {each.number for each in facts.values()}
        is_one_gone = is_numbered and bool(_numbers(self.plan) - there)
        if self.shapes is not None and not is_one_gone:
            past = [name for name in vanished if once.get(DROPPED + name) == "true"]
        for name in past:
            _log.warning("table=%s: %s was dropped at the source", self.plan.entry.table, name)
        return tuple(past)

    def _require_gone(self, vanished: Sequence[str], facts: Mapping[str, ColumnFacts]) -> None:
        """Fails if a vanished column may have been renamed to a present one.

        Raises:
            TerminalError: if neither records nor the configuration show the opposite.
        """
        given_up = self.answers.given_up(self.plan.entry, vanished)
        doubtful = [name for name in vanished if name not in given_up]
        strange = self._strange(facts)
        if not doubtful or not strange:
            return
        shapes = self._shown(doubtful) if self.shapes is None else self.shapes
        apart = [n for n in strange if any(_are_apart(n, each, shapes) for each in doubtful)]
        if apart:
            what = (
                f"the records have {', '.join(doubtful)}, which the database no longer has, and it "
                f"has {', '.join(apart)}: it is unknown whether these are the same columns"
            )
            remedy = (
                "name dropped columns under tables.<schema.table>.absent_columns. If a column was "
                "renamed, name it too, and rebuild the table once its records are merged "
                "(cdc-assets rebuild TABLE --from-source, or --from-snapshot)"
            )
            raise TerminalError(what, where=self.plan.where, remedy=remedy, page="columns-in-doubt")

    def _strange(self, facts: Mapping[str, ColumnFacts]) -> list[str]:
        """Returns the columns whose values older records may have under another name.

        Those that the lake has from records are known by their numbers. Where records carry no
        schema it may have one from the catalog alone. A replay takes nothing from a row.
        """
        table = self.plan.schema.of_source
        left_out = {*table.left_out, *self.answers.unpublished(self.plan.entry, [*facts])}
        if self.shapes is None and not self.plan.replay:
            present = self.answers.names(self.plan.entry) or tuple(facts)
            return [name for name in present if name not in left_out]
        known, numbers = {*table.by_any_name, *left_out}, _numbers(self.plan)
        return [n for n, f in facts.items() if n not in known and f.number not in numbers]

    def _shown(self, names: Sequence[str]) -> list[frozenset[str]]:
        """Returns the columns of records without a schema that have one of these columns."""
        expected = [each.sent_as for each in self.plan.schema.of_source.columns]
        decoded = BatchDecoder(self.raw, self.plan, self.format).decode({})
        has_one = F.col("reject").isNull() & F.arrays_overlap(F.col("unknown"), texts(names))
        shapes = decoded.where(has_one).select("unknown", "absent").distinct().limit(_MOST_SHAPES)
        with translated("look at the columns of older records", self.plan.where):
            found = shapes.collect()
        return [frozenset({*row["unknown"], *expected} - {*(row["absent"] or ())}) for row in found]


def _numbers(plan: BatchPlan) -> set[int]:
    return {each.identity.number for each in plan.schema.of_source.columns} - {0}


def _are_apart(one: str, other: str, shapes: Iterable[Sequence[str] | frozenset[str]]) -> bool:
    """Whether two names may be of one column: no record has both."""
    return not any(one in shape and other in shape for shape in shapes)


@dataclass(frozen=True, slots=True)
class Preparation:
    """The preparation of one table's batches.

    Attributes:
        spark: returns the session.
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
        """Returns the completed plan, and the decoder of these records.

        Args:
            plan: of the log and the lake.
            raw: the batch's records.
            unknown: columns that only the records have shown, where these carry no schema.
            lacks: columns that some of these records lack, by their names in records.

        Raises:
            TerminalError: if the table cannot hold the records' columns, or would lose values of
                those that they lack, or if its database logs parts of rows only.
        """
        writers = self.writers(plan, raw)
        plan = self._numbered(plan, raw, writers)
        if not plan.replay:
            recreated, silent = self.types.recreated(plan.entry), self.types.silent(plan.entry)
            plan = with_source_table(plan, self.types.answers, recreated, silent)
        plan = self._taught(plan)
        readable = [each.schema for each in writers.values() if each.schema and not each.is_of_key]
        before = plan.schema
        plan = self._widened(plan, raw, readable, unknown)
        if not plan.replay:
            self.types.require_whole(plan.entry)
            if plan.mode is not Mode.CHANGELOG:
                self.types.require_same_key(plan.entry, plan.schema)
        self._require_withheld(plan, before, [each.names for each in writers.values()])
        writers = {number: _at_home(each, plan.schema) for number, each in writers.items()}
        salts = self.tables.salts
        decoder = BatchDecoder(raw, plan, self.format, writers, salts=salts)
        names = dict.fromkeys(n for each in readable for n in lacking(plan.schema, each))
        called = {each.sent_as: each.name for each in plan.schema.columns}
        lacked = (called.get(name, name) for name in lacks)
        plan, decoder = self._with_absent(plan, decoder, tuple(dict.fromkeys([*names, *lacked])))
        plan = replace(plan, condition=self.tables.condition(plan.schema))
        return plan, replace(decoder, plan=plan)

    def _taught(self, plan: BatchPlan) -> BatchPlan:
        """Adds facts from statements about the lake's columns; each shard has its own numbers."""
        history = self.types.answers.history
        if history is None or plan.entry.shard is not None:
            return plan
        schema, steps = taught(plan.schema, history)
        return replace(plan, schema=schema, steps=(*plan.steps, *steps))

    def _widened(
        self,
        plan: BatchPlan,
        raw: DataFrame,
        readable: Sequence[TableSchema],
        unknown: Sequence[UnknownColumn],
    ) -> BatchPlan:
        """Adds columns of records that are missing from the table, and renames renamed columns."""
        table = plan.schema.of_source
        shown = [*(n for each in readable for n in each.names), *(each.name for each in unknown)]
        known = {*table.by_any_name, *table.left_out}
        new = tuple(dict.fromkeys(name for name in shown if name not in known))
        gone = self.types.answers.unpublished(plan.entry, new) if new else {}
        for name, why in gone.items():
            _log.warning("table=%s: column %s is left out: %s", plan.entry.table, name, why)
        shapes = [each.names for each in readable] if self.has_schemas(plan) else None
        old = PastColumns(self.types.answers, plan, self.format, raw, shapes)
        past = old.among([name for name in new if name not in gone])
        schema = replace(plan.schema, left_out=(*plan.schema.left_out, *gone, *past))
        facts = self._facts(plan, must=bool(new)) if readable else {}
        records = [self._with_facts(plan, each, facts) for each in self._oldest_first(readable)]
        by_catalog = not self.has_schemas(plan)
        if by_catalog:
            records = self._by_catalog(plan, [u for u in unknown if u.name not in {*gone, *past}])
        columns = self.tables.columns(schema, plan.state, records, by_catalog=by_catalog)
        left: tuple[TableStep, ...] = (LeaveOut(tuple(gone)),) if gone else ()
        numbered = self._with_numbers(plan, columns)
        comments = self._comments(plan, numbered.schema) if not plan.replay else ()
        steps = (*plan.steps, *left, *numbered.steps, *comments)
        return replace(plan, schema=numbered.schema, steps=steps, files=columns.files)

    def _comments(self, plan: BatchPlan, schema: TableSchema) -> tuple[Comment, ...]:
        """Returns the step for comments that differ from the source's present ones.

        The lake keeps a comment that its source no longer has. Of tables that are merged into one,
        each has its own comments, so that those from the table's creation stay.
        """
        state = plan.state
        if state is None or plan.entry.shard is not None:
            return ()
        table, columns = self.types.comments(plan.entry)
        there = {each.name: each.comment for each in state.columns}
        said = {each.name: columns.get(each.sent_as, "") for each in schema.columns}
        said = {
            name: each
            for name, each in said.items()
            if each and there.get(name) not in {each, None}
        }
        own = table if table and state.properties.get(TABLE_COMMENT, "") != table else None
        return (Comment(said, own),) if said or own else ()

    def _require_withheld(
        self, plan: BatchPlan, before: TableSchema, records: Sequence[Sequence[str]]
    ) -> None:
        """Fails if a new column may be a withheld one under a name not yet configured.

        Raises:
            TerminalError: if one is gone where another is new.
        """
        known = before.by_any_name
        new = {each.sent_as for each in plan.schema.columns if each.sent_as not in known}
        new -= self.tables.withheld
        shapes = [*(names for names in records if names)]
        if not shapes and new:
            shapes = [[*(self.types.answers.names(plan.entry) or self.tables.withheld), *new]]
        for names in shapes:
            gone = sorted(self.tables.withheld - {*names})
            shown = sorted(new & {*names})
            if gone and shown:
                what = (
                    f"the records have {', '.join(shown)} and no longer {', '.join(gone)}, which "
                    "the configuration withholds: it may be that by another name"
                )
                remedy = (
                    "exclude or mask the new one too (tables.<schema.table>.columns), or take out "
                    "what was dropped"
                )
                raise TerminalError(
                    what, where=f"table={plan.entry.table}", remedy=remedy, page="withheld-renamed"
                )

    def has_schemas(self, plan: BatchPlan) -> bool:
        """Whether each record carries its own schema."""
        return self.format.writer(plan.layout, plan.entry.table) is not None

    def _oldest_first(self, records: Sequence[TableSchema]) -> Sequence[TableSchema]:
        """Puts schemas with former names first, so that columns get their present names."""
        history = self.types.answers.history
        former = frozenset(history.former) if history else frozenset[str]()
        return sorted(records, key=lambda each: former.isdisjoint(each.names))

    def _with_facts(
        self, plan: BatchPlan, record: TableSchema, facts: Mapping[str, ColumnFacts]
    ) -> TableSchema:
        """Adds the database's facts about the columns.

        A former name of a column of the lake does not rename it back.
        """
        table, history = plan.schema.of_source, self.types.answers.history
        facts = {
            name: each for name, each in facts.items() if not (history and name in history.former)
        }
        columns = (
            self.types.with_existing(plan.entry, each, plan.layout.scheme)
            if home_of(table, each, record.names) is None
            else with_number(replace(each, existing=None), facts.get(each.name))
            for each in record.columns
        )
        return replace(record, columns=tuple(columns))

    def _facts(self, plan: BatchPlan, *, must: bool) -> Mapping[str, ColumnFacts]:
        """Returns facts about the columns; without new columns, records need no facts."""
        try:
            return self.types.answers.facts(plan.entry) or {}
        except UnreachableError:
            if must:
                raise
            return {}  # `with_source_table` has logged it

    def _by_catalog(
        self, plan: BatchPlan, unknown: Sequence[UnknownColumn]
    ) -> tuple[TableSchema, ...]:
        """Returns the columns of records without a schema: the database's, and the records'."""
        table = plan.schema.of_source
        seen = self.types.catalog_columns(plan.entry, table)
        there = seen or table.as_sent
        new = [each for each in unknown if each.name not in there.names]
        added = (self._column(plan, each) for each in new)
        found = tuple(
            self.types.with_existing(plan.entry, each, plan.layout.scheme) for each in added
        )
        if seen is None and not found:
            return ()
        return (replace(there, columns=(*there.columns, *found)),)

    def _with_numbers(self, plan: BatchPlan, columns: ColumnPlan) -> ColumnPlan:
        """Adds the catalog's numbers to columns described without a number."""
        lacking = [c for c in columns.schema.columns if not c.identity.number and not c.absent]
        facts = (self.types.answers.known_facts(plan.entry) or {}) if lacking and plan.state else {}
        found = {c.name: facts[c.sent_as].number for c in lacking if c.sent_as in facts}
        if not any(found.values()):
            return columns
        numbered = tuple(
            replace(c, identity=replace(c.identity, number=found.get(c.name, c.identity.number)))
            for c in columns.schema.columns
        )
        described = DescribeColumns(tuple(c for c in numbered if found.get(c.name)))
        schema = replace(columns.schema, columns=numbered)
        return replace(columns, schema=schema, steps=(*columns.steps, described))

    def _with_absent(
        self, plan: BatchPlan, decoder: BatchDecoder, names: tuple[str, ...]
    ) -> tuple[BatchPlan, BatchDecoder]:
        """Decides about columns missing from records, and completes plan and decoder."""
        if not names:
            return plan, decoder
        schema, doubt = AbsentColumns(self.types, self.tables).decide(plan, names)
        marked = tuple(c for c in schema.columns if c not in plan.schema.columns)
        ended = [each for each in plan.schema.columns if each.name not in schema.names]
        names_had = dict.fromkeys(n for c in ended for n in (c.name, *c.identity.was))
        described = (DescribeColumns(marked),) if marked else ()
        dropped = (DropColumns(tuple(names_had)),) if ended else ()
        left_out = (*schema.left_out, *(each.sent_as for each in ended))
        schema = replace(schema, left_out=tuple(dict.fromkeys(left_out)))
        plan = replace(plan, schema=schema, steps=(*plan.steps, *described, *dropped))
        return plan, replace(decoder, plan=plan, may_lack=frozenset(names), doubt=doubt)

    def _column(self, plan: BatchPlan, found: UnknownColumn) -> Column:
        """Returns a column that is known only from records.

        Raises:
            TerminalError: if its type is unknown.
        """
        entry = plan.entry
        column = self.types.column(entry, found.name, plan.schema.of_source)
        if column is None:
            what = f"the source has a column {found.name!r} that the table has not"
            where = f"table={entry.table} {found.coordinate}"
            remedy = "give its type under tables.<schema.table>.columns, or configure database:"
            raise TerminalError(what, where=where, remedy=remedy, page="column-type-unknown")
        return column

    def writers(self, plan: BatchPlan, raw: DataFrame) -> dict[int, Writer]:
        """Returns the schemas of the records, as the table's; none if the records carry none."""
        if not self.has_schemas(plan):
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
        return Writer(number, schema, written.text, names=written.described.names)

    def _numbered(
        self, plan: BatchPlan, raw: DataFrame, writers: Mapping[int, Writer]
    ) -> BatchPlan:
        """Adds the epochs of the batch's positions. Replayed records are not scanned again."""
        order = order_of(plan.layout.scheme)
        if not order.is_scanned:
            return replace(plan, epochs=order.epochs(plan.numbering))
        numbering, repeats = plan.numbering, False
        if not plan.replay:
            texts = {number: each.text for number, each in writers.items() if each.schema}
            with translated("read positions", plan.where):
                read = blanked(raw, self.format, plan.layout)
                sources = self.format.sources(read, plan.layout, order, texts)
                found = order.scanned(sources, numbering)
            numbering, repeats = found.carried, found.repeats_places
        epochs = order.epochs(numbering)
        return replace(plan, numbering=numbering, epochs=epochs, repeats_places=repeats)


def _at_home(writer: Writer, table: TableSchema) -> Writer:
    """Maps the columns of a schema to the lake's names, and masks the lake's masked columns."""
    if writer.schema is None:
        return writer
    found = homes(table.of_source, writer.schema)
    differing = {sent: name for sent, name in found.items() if sent != name}
    hidden = {sent: table.column(name) for sent, name in found.items() if name in table.masked}
    salts = {sent: each.detail.salt if each.detail else "" for sent, each in hidden.items()}
    columns = tuple(
        as_digest(each, salts[each.name]) if each.name in salts else each
        for each in writer.schema.columns
    )
    return replace(writer, homes=differing, schema=replace(writer.schema, columns=columns))


def _of_key(schema: TableSchema) -> TableSchema:
    """Returns the key's columns, as the schema of a record without further columns."""
    schema = schema.of_source.as_sent
    return replace(schema, columns=tuple(schema.column(name) for name in schema.key))
