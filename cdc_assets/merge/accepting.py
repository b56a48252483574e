"""Finds where a source began again, which stops a table, and records a permission to go on.

Either the numbering of positions began again, or the source's table is another one.

For a numbering the permission is a property of the table that names the restart and the epoch that
it raises to (`cdc_assets.changes.restarts.Permit`). The batch that is merged across the restart
records both with its publish; from then on the property has no effect, so that a second restart
stops the table again. Until then it may be given repeatedly. Another table, once accepted, counts
as the one that the lake's rows came from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import datetime

from pyspark.sql import DataFrame, SparkSession

from cdc_assets.changes.position import Scheme
from cdc_assets.changes.restarts import COMMIT_NUMBERS, Permit, Restarts
from cdc_assets.config import ReplicationConfig
from cdc_assets.effects import effect
from cdc_assets.formats.by_table import changes_of
from cdc_assets.formats.histories import Histories, after_statements, statements_on
from cdc_assets.formats.order import Epochs
from cdc_assets.lake import Lake
from cdc_assets.lake.at_source import AtSource
from cdc_assets.lake.properties import accepted_restart
from cdc_assets.log.kafka import KafkaLog
from cdc_assets.merge.guards.restarts.overtaken import looked_at
from cdc_assets.merge.guards.restarts.watch import RestartError, RestartWatch
from cdc_assets.merge.intake.ddl_records import read_statements, statements_among
from cdc_assets.merge.intake.decoding import BatchDecoder
from cdc_assets.merge.intake.describe import TypeSource
from cdc_assets.merge.intake.planning import Extent, Pending, Planner
from cdc_assets.merge.intake.preparation import Preparation
from cdc_assets.merge.intake.read import WITH_HEADERS, read_ranges
from cdc_assets.merge.intake.same_table import break_of
from cdc_assets.merge.intake.source_facts import Asked
from cdc_assets.merge.intake.writer_schemas import Schemas, WrittenSchemas
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.merge.statements import sql
from cdc_assets.merge.statements.failures import translated
from cdc_assets.merge.tables.lookups import Known
from cdc_assets.merge.tables.side_table import SideTable
from cdc_assets.merge.tables.tombstones import Tombstones
from cdc_assets.registry import TableEntry
from cdc_assets.schema.history import Break, History
from cdc_assets.schema.silent import SilentChange, SilentPolicy, remembered, without


@dataclass(frozen=True, slots=True)
class Acceptable:
    """A restart that a person may accept.

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


class RestartDesk:
    """A finder of restarts in records that are not merged yet, which also accepts them."""

    def __init__(
        self,
        config: ReplicationConfig,
        spark: Callable[[], SparkSession],
        *,
        clock: Callable[[], datetime],
    ) -> None:
        self._config = config
        self._spark = spark
        self._lake = Lake(config)
        self._log = KafkaLog(config.kafka.librdkafka, largest=config.max_record_bytes)
        self._planner = Planner(config, self._lake, self._log, clock)

    def restart(self, entry: TableEntry) -> Acceptable | None:
        """Returns the restart that the next batch stops at; None if it stops at none.

        Raises:
            CdcError: if the table cannot be read on for another reason.
        """
        found = self._plan(entry)
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
        raw = read_ranges(self._spark(), plan.entry.topic, plan.ranges, options)
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
            return Acceptable(Permit(epoch, found.restart), plan.layout.scheme)
        return None

    def _preparation(self, plan: BatchPlan) -> Preparation:
        entry = plan.entry
        fmt, tables = self._planner.format(entry), self._planner.tables(entry)
        types = TypeSource(self._config.source(entry.table.source), self._log, fmt)

        def written(plan: BatchPlan, raw: DataFrame) -> Schemas:
            return WrittenSchemas().of_all(plan, fmt, raw)

        catalog = self._config.lake.catalog.name
        return Preparation(self._spark, catalog, types, tables, fmt, written)

    def _known(self, plan: BatchPlan) -> Known:
        spark, catalog = self._spark(), self._config.lake.catalog.name
        side = SideTable(spark, catalog, self._lake, plan.entry.stem, plan.published)
        return Known(spark, catalog, plan, (), Tombstones(side, plan.schema))

    def another_table(self, entry: TableEntry) -> Break | None:
        """Returns why the source's table is not that of the lake's rows; None if it is.

        Raises:
            CdcError: if the table cannot be read.
        """
        plan = self._plan(entry)
        return break_of(plan, self._asked(plan)) if plan is not None else None

    def accept_table(self, entry: TableEntry) -> None:
        """Records that the lake's rows are those of the source's present table."""
        plan = self._plan(entry)
        if plan is None:
            return
        shard, asked = entry.shard_value, self._asked(plan)
        said = AtSource.of(plan.state, shard)
        told = asked.history.silent if asked.history else ()
        silent = remembered(said.silent, [*told, *said.standing], asked.at)
        identity, history = asked.identity(entry), asked.history
        now = replace(said, identity=identity, history=history, silent=silent)
        self._record(entry, "accept table", now.to_properties(shard))

    def silent(self, entry: TableEntry) -> tuple[SilentChange, ...]:
        """Returns the changes without events that stop the table, and else those it remembers."""
        said, policy = (
            self._said(entry),
            self._config.source(entry.table.source).silent(entry.table),
        )
        heeded = policy.heeded(each for each in said.silent if not each.is_standing)
        return tuple(each for each in heeded if policy.stops(each)) or heeded

    def accept_silent(self, entry: TableEntry, found: Sequence[SilentChange]) -> None:
        """Records that a person knows of such changes.

        Where they stop the table, it goes on, and its rows stay in doubt. Where they do not, the
        person vouches for its rows.
        """
        said, policy = (
            self._said(entry),
            self._config.source(entry.table.source).silent(entry.table),
        )
        ids = {each.id for each in found}
        if any(policy.stops(each) for each in found):
            now = tuple(replace(c, is_accepted=c.is_accepted or c.id in ids) for c in said.silent)
        else:
            now = without(said.silent, ids)
        told = replace(said, silent=now).to_properties(entry.shard_value)
        self._record(entry, "accept silent changes", told)

    def _policy(self, entry: TableEntry) -> SilentPolicy:
        return self._config.source(entry.table.source).silent(entry.table)

    def _said(self, entry: TableEntry) -> AtSource:
        return AtSource.of(self._lake.state(entry.target, entry.shard_value), entry.shard_value)

    def _plan(self, entry: TableEntry) -> BatchPlan | None:
        """Returns the plan of the batch that the table stops at; None if there is none to merge."""
        if self._lake.state(entry.target, entry.shard_value) is None:
            return None
        pending = self._planner.tail(entry, Extent(), "accept-restart")
        return pending.plan if isinstance(pending, Pending) else None

    def _asked(self, plan: BatchPlan) -> Asked:
        fmt = self._planner.format(plan.entry)
        stored = AtSource.of(plan.state, plan.entry.shard_value).history
        if fmt.tells_statements:
            where = statements_among(BatchDecoder(self._raw(plan), plan, fmt), plan.snapshot_starts)
            told = read_statements(self._log, fmt, plan.layout.scheme, where)
            topic = plan.identity.topic_id
            known = stored if stored and stored.topic == topic else History(topic=topic)
            told = statements_on(plan.entry, told)
            known = known.with_numbers(plan.schema) if told else known
            history = after_statements(known, plan.entry, told, is_empty=plan.is_empty)
        else:
            history = Histories(self._log).of(plan.entry, fmt, plan.layout.scheme, stored)
        return Asked(self._config.source(plan.entry.table.source), history)

    def accept(self, entry: TableEntry, found: Acceptable) -> None:
        """Records the permission; the next batches are merged across this restart."""
        said = {accepted_restart(entry.shard_value): found.permit.to_json()}
        self._record(entry, "accept restart", said)

    def _record(self, entry: TableEntry, what: str, said: Mapping[str, str]) -> None:
        catalog = self._config.lake.catalog.name
        where = f"table={entry.table} lake={entry.target}"
        with translated(what, where), effect(f"spark: {what}"):
            self._spark().sql(sql.set_properties(catalog, entry.target, said))
