"""Finds a source's restart that stops a table, and records an operator's permission to resume.

Either the numbering of positions began again, or the source's table is another one.

For a numbering the permission is a property of the table that names the restart and the epoch that
it raises to (`cdc_assets.changes.restarts.Permit`). The batch that is merged across the restart
records both with its publish; from then on the property has no effect, so that a second restart
stops the table again. Until then it may be given repeatedly. Another table, once accepted, counts
as the one that the lake's rows came from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame

from cdc_assets.changes.position import Scheme
from cdc_assets.changes.restarts import COMMIT_NUMBERS, Permit, Restarts
from cdc_assets.effects import effect
from cdc_assets.formats.by_table import changes_of
from cdc_assets.formats.histories import Histories, after_statements, statements_on
from cdc_assets.formats.order import Epochs
from cdc_assets.lake.at_source import AtSource
from cdc_assets.lake.properties import accepted_restart
from cdc_assets.merge.guards.restarts.overtaken import looked_at
from cdc_assets.merge.guards.restarts.watch import RestartError, RestartWatch
from cdc_assets.merge.intake.ddl_records import read_statements, statements_among
from cdc_assets.merge.intake.decoding import BatchDecoder
from cdc_assets.merge.intake.describe import TypeSource
from cdc_assets.merge.intake.planning import Extent, Pending
from cdc_assets.merge.intake.preparation import Preparation
from cdc_assets.merge.intake.read import WITH_HEADERS, read_ranges
from cdc_assets.merge.intake.same_table import break_of
from cdc_assets.merge.intake.source_facts import SourceAnswers
from cdc_assets.merge.intake.unlogged_changes import by_statements
from cdc_assets.merge.intake.writer_schemas import Schemas, WrittenSchemas
from cdc_assets.merge.plan.column_plan import taught
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.merge.plan.table_steps import execute_steps
from cdc_assets.merge.statements import sql
from cdc_assets.merge.statements.failures import translated
from cdc_assets.merge.tables.lookups import KeyLookups
from cdc_assets.merge.tables.side_table import SideTable
from cdc_assets.merge.tables.tombstones import Tombstones
from cdc_assets.merge.verifying.repair import generation_of
from cdc_assets.operations.session import TableSession
from cdc_assets.schema.history import Break, StatementHistory
from cdc_assets.schema.silent import SilentChange, SilentPolicy, remembered, without


@dataclass(frozen=True, slots=True)
class Acceptable:
    """A restart that an operator may accept.

    Attributes:
        permit: recorded when the restart is accepted.
        scheme: of the table's positions.
    """

    permit: Permit
    scheme: Scheme

    @property
    def text(self) -> str:
        """A description for people."""
        restart = self.permit.restart
        place = f"partition {restart.partition} offset {restart.offset}"
        return f"{place}: {restart.describe(self.scheme)}"


@dataclass(frozen=True, slots=True)
class Stop:
    """A table's reasons to stop that an operator may accept.

    Attributes:
        another: why the source's table is not that of the lake's rows; None if it is.
        restart: the restart that the next batch stops at; None if it stops at none.
        silent: changes without events.
    """

    another: Break | None
    restart: Acceptable | None
    silent: tuple[SilentChange, ...]

    def words(self) -> list[str]:
        """Returns the reasons for people."""
        found = [self.another.why] if self.another else []
        found += [self.restart.text] if self.restart else []
        return [*found, *(each.why for each in self.silent)]


class RestartDesk:
    """A finder of restarts in records that are not merged yet, which also accepts them."""

    def __init__(self, session: TableSession) -> None:
        self._session, self._entry = session, session.entry
        self._config, self._lake, self._log = session.config, session.lake, session.log
        self._planner = session.planner

    def stop(self) -> Stop:
        """Returns all reasons why the table stops.

        Raises:
            CdcError: if the table cannot be read on for another reason.
        """
        return Stop(self.another_table(), self.restart(), self.silent())

    def accept_all(self, found: Stop) -> Stop:
        """Accepts reasons; returns them with the silent changes that another table brought along.

        Raises:
            CdcError: if one cannot be recorded; those before it are.
        """
        if found.another is not None:
            self.accept_table()
        if found.restart is not None:
            self.accept(found.restart)
        silent = self.silent()
        if silent:
            self.accept_silent(silent)
        return replace(found, silent=silent)

    def restart(self) -> Acceptable | None:
        """Returns the restart that the next batch stops at; None if it stops at none.

        Raises:
            CdcError: if the table cannot be read on for another reason.
        """
        found = self._plan()
        if found is None or found.layout.scheme not in COMMIT_NUMBERS:
            return None
        epochs = Restarts.from_json(found.numbering).epochs
        plan = replace(found, epochs=epochs, permit="")
        watch = RestartWatch.of(plan)
        if watch is None:
            return None
        with translated("look at positions", plan.where):
            return self._looked(plan, watch)

    def _raw(self, plan: BatchPlan) -> DataFrame:
        options = self._config.kafka.spark_options()
        if self._planner.format(plan.entry).reads_headers(plan.layout):
            options = {**options, **WITH_HEADERS}
        raw = read_ranges(self._session.spark(), plan.entry.topic, plan.ranges, options)
        return changes_of(raw, self._planner.format(plan.entry), plan.layout, plan.entry)

    def _looked(self, plan: BatchPlan, watch: RestartWatch) -> Acceptable | None:
        raw = self._raw(plan)
        decoder = BatchDecoder(
            raw, plan, self._planner.format(plan.entry), self._preparation(plan).writers(plan, raw)
        )
        known = self._known(plan)

        def with_epochs(epochs: Epochs) -> AbstractContextManager[DataFrame]:
            renumbered = replace(decoder, plan=replace(plan, epochs=epochs))
            return looked_at(renumbered, plan.snapshot_starts, known)

        try:
            watch.look(with_epochs)
        except RestartError as found:
            epoch = len(watch.restarts.accepted) + 1
            permit = Permit(epoch, found.restart, generation_of(plan))
            return Acceptable(permit, plan.layout.scheme)
        return None

    def _preparation(self, plan: BatchPlan) -> Preparation:
        entry = plan.entry
        fmt, tables = self._planner.format(entry), self._planner.tables(entry)
        types = TypeSource(self._config.source(entry.table.source), self._log, fmt)

        def written(plan: BatchPlan, raw: DataFrame) -> Schemas:
            return WrittenSchemas().of_all(plan, fmt, raw)

        catalog = self._config.lake.catalog.name
        return Preparation(self._session.spark, catalog, types, tables, fmt, written)

    def _known(self, plan: BatchPlan) -> KeyLookups:
        spark, catalog = self._session.spark(), self._config.lake.catalog.name
        side = SideTable(spark, catalog, self._lake, plan.entry.stem, plan.published)
        return KeyLookups(spark, catalog, plan, (), Tombstones(side, plan.schema))

    def another_table(self) -> Break | None:
        """Returns why the source's table is not that of the lake's rows; None if it is.

        Raises:
            CdcError: if the table cannot be read.
        """
        plan = self._plan()
        return break_of(plan, self._answers(plan)[1]) if plan is not None else None

    def accept_table(self) -> None:
        """Records that the lake's rows are those of the source's present table."""
        plan = self._plan()
        if plan is None:
            return
        shard, (before, answers) = self._entry.shard_value, self._answers(plan)
        said = AtSource.of(plan.state, shard)
        history = answers.history
        derived = by_statements(history, said, plan.schema) if history else ()
        silent = remembered(said.silent, [*derived, *said.standing], answers.at)
        identity = answers.identity(self._entry)
        now = replace(said, identity=identity, history=history, silent=silent)
        steps = taught(plan.schema, before)[1] if before and self._entry.shard is None else ()
        catalog = self._config.lake.catalog.name
        execute_steps(self._session.spark(), catalog, self._entry, steps)
        self._record("accept table", now.to_properties(shard))

    def silent(self) -> tuple[SilentChange, ...]:
        """Returns the changes without events that stop the table, and else those it remembers."""
        said, policy = self._at_source(), self._policy
        heeded = policy.heeded(each for each in said.silent if not each.is_standing)
        return tuple(each for each in heeded if policy.stops(each)) or heeded

    def accept_silent(self, found: Sequence[SilentChange]) -> None:
        """Records that an operator knows of silent changes.

        If the changes stop the table, the table resumes, and its rows stay in doubt. If they do
        not, the operator vouches for the table's rows.
        """
        said, policy = self._at_source(), self._policy
        ids = {each.id for each in found}
        if any(policy.stops(each) for each in found):
            now = tuple(replace(c, is_accepted=c.is_accepted or c.id in ids) for c in said.silent)
        else:
            now = without(said.silent, ids)
        accepted = replace(said, silent=now).to_properties(self._entry.shard_value)
        self._record("accept silent changes", accepted)

    @property
    def _policy(self) -> SilentPolicy:
        return self._config.source(self._entry.table.source).silent(self._entry.table)

    def _at_source(self) -> AtSource:
        return AtSource.of(
            self._lake.state(self._entry.target, self._entry.shard_value), self._entry.shard_value
        )

    def _plan(self) -> BatchPlan | None:
        """Returns the plan of the batch that the table stops at; None if there is none to merge."""
        if self._lake.state(self._entry.target, self._entry.shard_value) is None:
            return None
        pending = self._planner.tail(self._entry, Extent(), "accept-restart")
        return pending.plan if isinstance(pending, Pending) else None

    def _answers(self, plan: BatchPlan) -> tuple[StatementHistory | None, SourceAnswers]:
        """Returns the history before new statements, None without any, and the source's answers."""
        fmt = self._planner.format(plan.entry)
        stored = AtSource.of(plan.state, plan.entry.shard_value).history
        before: StatementHistory | None = None
        if fmt.tells_statements:
            where = statements_among(BatchDecoder(self._raw(plan), plan, fmt), plan.snapshot_starts)
            statements = read_statements(self._log, fmt, plan.layout.scheme, where)
            topic = plan.identity.topic_id
            history = stored if stored and stored.topic == topic else StatementHistory(topic=topic)
            if statements := statements_on(plan.entry, statements):
                before = history.with_numbers(plan.schema)
                history = after_statements(before, plan.entry, statements, is_empty=plan.is_empty)
        else:
            before, history = Histories(self._log).continued(
                plan.entry, fmt, plan.layout.scheme, stored, plan.schema
            )
        return before, SourceAnswers(self._config.source(plan.entry.table.source), history)

    def accept(self, found: Acceptable) -> None:
        """Records the permission; the next batches are merged across this restart."""
        said = {accepted_restart(self._entry.shard_value): found.permit.to_json()}
        self._record("accept restart", said)

    def _record(self, what: str, said: Mapping[str, str]) -> None:
        catalog = self._config.lake.catalog.name
        with translated(what, self._session.where), effect(f"spark: {what}"):
            self._session.spark().sql(sql.set_properties(catalog, self._entry.target, said))
