"""Runs `cdc-assets quarantine replay`: merges quarantined records again, table by table.

There is no Dagster run. A table that fails does not delay the others. Runs that merge into the same
tables are asked to wait meanwhile; a publish that loses against another writer's is retried at the
new head, as everywhere.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from cdc_assets.changes.names import TableName
from cdc_assets.changes.offsets import Coordinate
from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import ConfigError, message_of
from cdc_assets.operate import rebuilds
from cdc_assets.operate.quarantine import Place, Replayed, Wanted, entries_in_quarantine
from cdc_assets.operate.render import render_quarantine_empty, render_replayed
from cdc_assets.operate.services import Services
from cdc_assets.operations.lease import Lease
from cdc_assets.orchestration.resources import ReplicationSpark, spark_resource
from cdc_assets.registry import TableEntry

if TYPE_CHECKING:
    from cdc_assets.merge import Replicator
    from cdc_assets.merge.plan.result import QuarantineReplay

Failed = dict[TableName, str]


@dataclass(frozen=True, slots=True)
class Again:
    """The choice among the wanted records, and the treatment of overtaken ones.

    Attributes:
        offsets: the records' places, as ``PARTITION:OFFSET``; empty for all records.
        accept_overtaken: see `Replicator.replay_quarantined`.
    """

    offsets: Sequence[str] = ()
    accept_overtaken: bool = False


def run_quarantine_replay(config: ReplicationConfig, wanted: Wanted, again: Again) -> Failed:
    """Merges quarantined records from their bytes in the quarantine table; prints the outcome.

    Args:
        config: the configuration.
        wanted: the scope; must be one table if offsets are given.
        again: the choice of records.

    Returns:
        The tables that failed, or had a record rejected again, with the reason.

    Raises:
        CdcError: if the selection is wrong, or the registry or the lake does not answer.
    """
    if again.offsets and wanted.table is None:
        msg = "--offset belongs to one table"
        raise ConfigError(msg, remedy="name it with --table")
    places = [Place.parse(each) for each in again.offsets]
    services = Services(config)
    entries = entries_in_quarantine(services, wanted)
    if not entries:
        render_quarantine_empty()
        return {}
    spark = spark_resource(config)
    try:
        replay = _Replay(services, spark, places, again.accept_overtaken)
        outcomes = {entry.table: replay.of(entry) for entry in entries}
    finally:
        spark.forget()
    return {table: problem for table, problem in outcomes.items() if problem}


@dataclass
class _Replay:
    services: Services
    spark: ReplicationSpark
    places: Sequence[Place]
    accept_overtaken: bool

    def of(self, entry: TableEntry) -> str:
        """Replays one table's records, and returns the remaining problem; empty if none."""
        topic, run_id = entry.topic, f"quarantine-{uuid.uuid4()}"
        chosen = [Coordinate(topic, each.partition, each.offset) for each in self.places] or None
        try:
            self._require_no_rebuild(entry)
            replicator = self._replicator()
            with Lease(self.services, entry.table, run_id).kept():
                done = replicator.replay_quarantined(
                    entry,
                    chosen,
                    run_id=run_id,
                    accept_overtaken=self.accept_overtaken,
                    before_removal=partial(self._require_no_rebuild, entry),
                )
            render_replayed(Replayed.of(entry.table, chosen, done))
            if done is None or not done.rejected:
                return ""
            self._restate(entry, done)
            return f"rejected again: {len(done.rejected)}"
        except Exception as error:
            self.spark.forget()  # the session may be what failed; the next table gets a new one
            return message_of(error)

    def _require_no_rebuild(self, entry: TableEntry) -> None:
        """Checks that the table is not being built anew.

        The new table may lack what would be merged into the old one and leave the quarantine.

        Raises:
            TerminalError: if it is.
        """
        rebuilds.require_none(self.services, entry.table, "replay")

    def _restate(self, entry: TableEntry, done: QuarantineReplay) -> None:
        from cdc_assets.merge.statements.failures import translated
        from cdc_assets.merge.tables.quarantine import Quarantine

        catalog = self.services.config.lake.catalog.name
        with translated("restate reasons", f"table={entry.table}"):
            quarantine = Quarantine(self.spark.session(), catalog, entry.table.source)
            quarantine.restate(entry.table, done.topic_id, done.rejected)

    def _replicator(self) -> Replicator:
        from cdc_assets.merge import Replicator

        return Replicator(self.services.config, self.spark.session, clock=self.services.clock)
