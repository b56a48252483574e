"""Looks at a table that another tool made: how far its adoption has come, and whether it fits.

Nothing here changes anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from pyspark.sql import functions as F

from cdc_assets.changes.mode import Mode
from cdc_assets.changes.names import LakeName
from cdc_assets.changes.position import Scheme
from cdc_assets.databases.rows import SourceRows
from cdc_assets.errors import ConfigError, ConflictError, TerminalError
from cdc_assets.lake import TableState
from cdc_assets.lake.properties import ADOPTED, PREFIX
from cdc_assets.lake.shadow_progress import ShadowProgress
from cdc_assets.merge.intake.describe import FirstSchema
from cdc_assets.merge.plan.table_steps import (
    CreateTable,
    LayOut,
    TableStep,
    describe,
    statements,
)
from cdc_assets.merge.statements import sql
from cdc_assets.merge.statements.failures import translated
from cdc_assets.merge.verifying.verification import Verification
from cdc_assets.operations.adopt.fit import AdoptionChange, Fit, compared
from cdc_assets.operations.session import TableSession
from cdc_assets.schema.types import TableSchema

_NEW_TABLE: Final = "replicate it into a new table"


@dataclass(frozen=True, slots=True)
class AdoptionStanding:
    """The progress of an adoption.

    Attributes:
        name: the present name of the table.
        state: the table.
        is_noted: whether step 1 was done.
    """

    name: LakeName
    state: TableState
    is_noted: bool

    @property
    def progress(self) -> ShadowProgress | None:
        """The progress of reading; None before step 4, and after step 8."""
        return self.state.published.carried.shadow if self.state.published else None

    @property
    def is_done(self) -> bool:
        """Whether step 8 was done."""
        return self.is_noted and self.state.published is not None and self.progress is None


class ExistingTable:
    """The table that is adopted, and the rows of its source.

    Attributes:
        session: the means, and the table at the source.
        named: the name by which the other tool's table was found.

    Args:
        session: see above.
        named: see above.
    """

    def __init__(self, session: TableSession, named: LakeName) -> None:
        self.session, self.named = session, named
        self._entry, self._where = session.entry, session.where
        self._source = session.config.source(session.entry.table.source)

    def standing(self) -> AdoptionStanding:
        """Looks how far the adoption has come; changes nothing.

        Raises:
            TerminalError: if there is no such table, or another one is at its target.
        """
        lake, target = self.session.lake, self._entry.target
        at_target = lake.state(target)
        noted = at_target.properties.get(ADOPTED) if at_target else None
        if at_target and noted and (noted == str(self.named) or self.named == target):
            return AdoptionStanding(target, at_target, is_noted=True)
        found = at_target if self.named == target else lake.state(self.named)
        if found is None:
            what = f"there is no table {self.named} in the lake"
            raise TerminalError(what, where=self._where, remedy="name it by --existing")
        if any(name.startswith(PREFIX) and name != ADOPTED for name in found.properties):
            what = f"{self.named} was made by cdc_assets"
            raise TerminalError(what, where=self._where, remedy="replicate it as it is")
        if at_target is not None and self.named != target:
            what = f"the table's place in the lake is taken: there is a table {target}"
            remedy = (
                f"cdc-assets pause --table {self._entry.table}, drop {target} in the catalog, and "
                "run the same command again"
            )
            raise TerminalError(what, where=self._where, remedy=remedy)
        is_noted = found.properties.get(ADOPTED) == str(self.named)
        return AdoptionStanding(self.named, found, is_noted)

    def fit(self, standing: AdoptionStanding) -> Fit:
        """Compares the table with its source's; changes nothing.

        A configured layout that differs from the table's is a changed layout: new files have it.

        Raises:
            TerminalError: if the source's table cannot be described, or the table cannot have the
                configured layout.
            ConfigError: if its mode, or its part of a table of many, has no rows to compare.
        """
        self._require_mirror()
        foreign = self.session.lake.foreign(standing.name)
        if foreign is None:
            raise self.moved()
        table, catalog = self._entry.table.qualified, self.session.config.lake.catalog.name
        found = compared(standing.state, foreign, self._required[1], catalog, table)
        if found.refusals:
            return found
        tables = self.session.planner.tables(self._entry)
        steps = tables.layout(found.schema, standing.state).steps
        layout = (
            AdoptionChange(describe(each), statement)
            for each in _one_by_one(steps)
            for statement in statements(each, catalog, standing.name)
        )
        return replace(found, changes=(*found.changes, *layout))

    def equality_deletes(self, name: LakeName) -> int:
        """Returns the number of files with equality deletes."""
        foreign = self.session.lake.foreign(name)
        return foreign.equality_deletes if foreign else 0

    def ambiguous(self, standing: AdoptionStanding, fit: Fit) -> tuple[int, int]:
        """Returns the number of keys with several rows, and of rows without a whole key.

        Raises:
            CdcError: if the table cannot be read.
        """
        keys = [F.col(sql.quote(name)) for name in fit.schema.key]
        table = self.session.attempts.session().table(
            sql.table(self.session.config.lake.catalog.name, standing.name)
        )
        is_none = keys[0].isNull()
        for each in keys[1:]:
            is_none = is_none | each.isNull()
        rows = table.groupBy(*keys).agg(F.count("*").alias("rows")).select(
            F.when(is_none, F.col("rows")).otherwise(0).alias("keyless"),
            F.when(~is_none & (F.col("rows") > 1), 1).otherwise(0).alias("twice"),
        )  # fmt: skip
        with translated("look for keys that occur twice", self._where):
            twice, keyless = rows.agg(F.sum("twice"), F.sum("keyless")).collect()[0]
        return int(twice or 0), int(keyless or 0)

    def estimate(self, fit: Fit) -> int:
        """Returns about how many rows the source has; requires that they can be compared.

        Raises:
            CdcError: if they cannot, or the source does not answer.
        """
        with self.opened(fit.schema) as source:
            return source.reading().estimate()

    # ── parts ────────────────────────────────────────────────────────────────────────────

    @property
    def is_soft(self) -> bool:
        """Whether rows stay that the source has deleted."""
        return self._source.overrides(self._entry.table).deletes == "soft"

    @cached_property
    def verification(self) -> Verification:
        """Compares rows, and waits for source and connector."""
        of = self.session
        return Verification(of.attempts, of.host.run_id, say=of.say, merges=True)

    def moved(self) -> ConflictError:
        """Returns the error for a table that another process has changed."""
        what = "another process changed the table during its adoption"
        return ConflictError(what, where=self._where, remedy="run the same command again")

    @cached_property
    def _required(self) -> tuple[FirstSchema, CreateTable]:
        """The source's columns and the layout of its records, and the table for them."""
        table = self.session.planner.tables(self._entry).plan(None)
        return table.first, next(each for each in table.steps if isinstance(each, CreateTable))

    def _require_mirror(self) -> None:
        mode, remedy = self._source.mode_of(self._entry.table), _NEW_TABLE
        if mode is not Mode.MIRROR:
            what = f"a table of mode: {mode} is made of changes, which rows do not show"
            raise ConfigError(what, where=self._where, remedy=remedy)
        if self._entry.shard is not None:
            what = "several tables are merged into the lake table (merge_into)"
            raise ConfigError(what, where=self._where, remedy=remedy)

    @contextmanager
    def opened(self, schema: TableSchema) -> Iterator[SourceRows]:
        """Opens the rows of the source, all of whose columns can be compared.

        Raises:
            ConfigError: if rows cannot be compared, or nothing orders changes.
            CdcError: if the source does not answer.
        """
        partitions = len(self.session.planner.marks(self._entry).end.offsets)
        if self._required[0].layout.scheme is Scheme.OFFSET and partitions > 1:
            what = "only offsets order its changes, and these say nothing across partitions"
            raise ConfigError(what, where=self._where, remedy=_NEW_TABLE)
        with closing(self.verification.source(self._entry, schema)) as source:
            if not source.comparison.key:
                what = "its key does not identify rows: there is none, or a column is not compared"
                raise ConfigError(what, where=self._where, remedy=_NEW_TABLE)
            unread = [each for each in source.comparison.left_out if each.is_at_source]
            if unread:
                said = "; ".join(f"{each.name}: {each.why}" for each in unread)
                what = f"columns of the source that cannot be compared: {said}"
                remedy = "exclude them (tables.<schema.table>.columns)"
                raise ConfigError(what, where=self._where, remedy=remedy)
            yield source


def _one_by_one(steps: Iterable[TableStep]) -> Iterator[TableStep]:
    """Yields the steps of a layout, each of one statement."""
    for each in steps:
        if isinstance(each, LayOut):
            yield from (LayOut(dropped=(name,)) for name in each.dropped)
            yield from (LayOut(added=(field,)) for field in each.added)
            if each.sort_by is not None:
                yield LayOut(sort_by=each.sort_by)
            if each.properties:
                yield LayOut(properties=each.properties)


def require_fitting(fit: Fit, where: str) -> None:
    """Requires that nothing keeps a table from being taken over.

    Raises:
        TerminalError: if something does; it names everything.
    """
    if fit.refusals:
        what = f"the table does not fit its source: {'; '.join(fit.refusals)}"
        raise TerminalError(what, where=where, remedy="then run the same command again")
