"""Finds the source, the format and the lake table that the configuration gives a table."""

from __future__ import annotations

from cdc_assets.changes.mode import Mode
from cdc_assets.config import ReplicationConfig, SourceConfig
from cdc_assets.formats.format import Format
from cdc_assets.formats.registered import format_of
from cdc_assets.lake import Lake
from cdc_assets.log.kafka import KafkaLog
from cdc_assets.merge.intake.describe import TypeSource
from cdc_assets.merge.intake.layouts import LakeTables
from cdc_assets.registry import TableEntry


class Configured:
    """The tables of one configuration, as they are configured. It reads nothing by itself.

    Args:
        config: the configuration.
        lake: read by the planners of lake tables.
        log: read by the planners of lake tables.
    """

    def __init__(self, config: ReplicationConfig, lake: Lake, log: KafkaLog) -> None:
        self._config = config
        self._lake = lake
        self._log = log
        self._formats: dict[str, Format] = {}

    def source(self, entry: TableEntry) -> SourceConfig:
        """Returns the source of a table."""
        return self._config.source(entry.table.source)

    def mode(self, entry: TableEntry) -> Mode:
        """Returns the mode of a table."""
        return self.source(entry).mode_of(entry.table)

    def reads_first(self, entry: TableEntry) -> bool:
        """Returns whether a new table's first rows are read from its database."""
        return self.source(entry).reads_first(entry.table)

    def rebuild_command(self, entry: TableEntry) -> str:
        """Returns how a table can be built without what its log has lost, in words."""
        return self.source(entry).rebuild_command(entry.table)

    def format(self, entry: TableEntry) -> Format:
        """Returns the format of a table's records; one object for each source."""
        source = entry.table.source
        if source not in self._formats:
            self._formats[source] = format_of(self.source(entry))
        return self._formats[source]

    def tables(self, entry: TableEntry) -> LakeTables:
        """Returns the planner of the lake table."""
        types = TypeSource(self.source(entry), self._log, self.format(entry))
        return LakeTables(self._config, self._lake, types, entry)
