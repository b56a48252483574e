"""A table and its configuration, as the rules of `cdc_assets.operate.assess.tables` judge them."""

from __future__ import annotations

from dataclasses import dataclass, field

from cdc_assets.changes.mode import Mode
from cdc_assets.config.table import TableOverrides
from cdc_assets.databases.catalog import SourceTable
from cdc_assets.databases.mysql.table import MysqlTable
from cdc_assets.databases.postgres.server import OddValues
from cdc_assets.databases.postgres.table import PostgresTable
from cdc_assets.operate.assess.connector import Connector
from cdc_assets.operate.assess.finding import Subject
from cdc_assets.schema.described import Described
from cdc_assets.schema.silent import SilentPolicy


@dataclass(frozen=True, slots=True)
class Table:
    """A table in its database, and its configuration.

    Attributes:
        found: the table in the catalog; None if the database does not have it.
        described: its columns, by the connector's actual modes.
        publication: the connector's publication; None for all publications of the table.
        needs_publication: whether the connector reads publications (``pgoutput``).
        overrides: the table's configured overrides.
        connector: the connector that sends it; None if unknown.
        odd: the odd values found in it; None if it was not searched.
        rejects_stop: whether a record that cannot be merged stops the table.
        unreadable_by: the connector's user if it has no right to read the table; else empty.
        mode: the mode of its lake table.
        silent: the policy for rows that change without events.
    """

    found: SourceTable | None
    described: Described | None = None
    publication: str | None = None
    needs_publication: bool = False
    overrides: TableOverrides = field(default_factory=TableOverrides)
    connector: Connector | None = None
    odd: OddValues | None = None
    rejects_stop: bool = True
    unreadable_by: str = ""
    mode: Mode = Mode.MIRROR
    silent: SilentPolicy = field(default_factory=SilentPolicy)


@dataclass(frozen=True, slots=True)
class KnownTable:
    """A table that its database has.

    Attributes:
        at: the place.
        table: the table's facts.
        found: the table in the catalog.
    """

    at: Subject
    table: Table
    found: SourceTable

    @property
    def postgres(self) -> PostgresTable | None:
        """The table, if it is PostgreSQL's."""
        return self.found if isinstance(self.found, PostgresTable) else None

    @property
    def mysql(self) -> MysqlTable | None:
        """The table, if it is MySQL's or MariaDB's."""
        return self.found if isinstance(self.found, MysqlTable) else None

    @property
    def logged(self) -> PostgresTable | None:
        """The table, if PostgreSQL logs its changes under its own name."""
        found = self.postgres
        if found is None or found.is_unlogged or found.sent_by_partition(self.table.publication):
            return None
        return found

    @property
    def key(self) -> tuple[str, ...]:
        """The configured key, or the primary one."""
        return self.table.overrides.primary_key or self.found.primary_key

    @property
    def sends_key(self) -> bool:
        """Whether the connector names a key."""
        connector = self.table.connector
        return connector is not None and bool(connector.get("message.key.columns"))

    @property
    def binlog_fault(self) -> tuple[str, str] | None:
        """Why the server's binlog lacks whole rows, and the statement that changes that."""
        return self.mysql.binlog.fault() if self.mysql is not None else None

    @property
    def skipped(self) -> frozenset[str]:
        """The columns that are not replicated."""
        unpublished = self.found.unpublished(self.table.publication)
        return frozenset({*unpublished, *self.table.overrides.excluded})
