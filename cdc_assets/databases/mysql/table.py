"""A table as MySQL's or MariaDB's catalog has it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from cdc_assets.databases.facts import Facts
from cdc_assets.databases.mysql.binlog_settings import BinlogSettings
from cdc_assets.databases.mysql.silent import rewritten
from cdc_assets.databases.mysql.text_types import describe_text_table
from cdc_assets.databases.mysql.types import MysqlColumn, describe_table, with_unsigned
from cdc_assets.errors import TerminalError
from cdc_assets.schema.described import Described
from cdc_assets.schema.modes import ConnectorModes
from cdc_assets.schema.silent import CatalogLook, SilentChange


@dataclass(frozen=True, slots=True)
class CatalogTable:
    """A table as the catalog has it; generated and invisible columns included.

    Partitions are the server's own affair here: changes come under the table's name.

    Attributes:
        is_versioned: a system-versioned table of MariaDB.
        binlog: what the server writes of its changes.
        facts: of its columns.
        look: what the next look at it is compared with.
        unsent: changes of its rows that the server's binlog does not have, while it is like this.
        identity: none: the catalog has no number of a table that every ALTER leaves alone.
    """

    columns: tuple[MysqlColumn, ...]
    primary_key: tuple[str, ...]
    comment: str = ""
    is_versioned: bool = False
    binlog: BinlogSettings = field(default_factory=BinlogSettings)
    root: tuple[str, str] | None = None
    partitions: tuple[tuple[str, str], ...] = ()
    facts: Mapping[str, Facts] = field(default_factory=dict[str, Facts])
    identity: str = ""
    look: CatalogLook = field(default_factory=CatalogLook)
    unsent: tuple[SilentChange, ...] = ()

    @property
    def logs_whole_rows(self) -> bool:
        """True: others are refused."""
        return True

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in order."""
        return tuple(column.name for column in self.columns)

    def silent_since(
        self, before: CatalogLook | None, publication: str | None
    ) -> tuple[SilentChange, ...]:
        """Returns changes of its rows without events, see `SourceTable.silent_since`."""
        del publication
        return (*self.unsent, *(rewritten(before, self.look) if before is not None else ()))

    def unpublished(self, publication: str | None) -> dict[str, str]:
        """Columns whose changes no event holds: none, the binlog has all."""
        del publication
        return {}

    def filters_rows(self, publication: str | None) -> bool:
        """Returns whether the server leaves rows out of the binlog: it cannot."""
        del publication
        return False

    def sent_by_partition(self, publication: str | None) -> bool:
        """Returns whether changes come under the partitions' names: never."""
        del publication
        return False

    def identifies(self, key: Collection[str]) -> bool:
        """Returns whether they are the primary key."""
        return {*key} == {*self.primary_key}

    def require_told(self, key: tuple[str, ...], where: str) -> None:
        """Refuses a table whose events do not hold whole rows, not what they say, or no order.

        Args:
            key: the lake table's; full row images hold any.
            where: coordinates for the error.

        Raises:
            TerminalError: if it is one.
        """
        del key
        if self.is_versioned:
            what = (
                "it is system-versioned: the binlog has its deletes as updates, and a row for "
                "each of its old versions"
            )
            raise TerminalError(what, where=where, remedy="ALTER TABLE … DROP SYSTEM VERSIONING")
        self.require_whole(where)

    def require_whole(self, where: str) -> None:
        """Refuses it while the server's settings are such; a session may have others.

        Raises:
            TerminalError: with the statement that changes the setting.
        """
        fault = self.binlog.fault()
        if fault is not None:
            what, statement = fault
            remedy = f"{statement} for all sessions, then take a new snapshot of the table"
            raise TerminalError(what, where=where, remedy=remedy)

    def described(self, modes: ConnectorModes) -> Described:
        """Describes all columns as a connector with these modes writes them."""
        return describe_table(self.columns, self.primary_key, modes, comment=self.comment)

    def corrected(
        self, told: Described, names: Collection[str], modes: ConnectorModes
    ) -> Described:
        """Adds the integers that have no sign, see `with_unsigned`."""
        del modes
        return with_unsigned(told, (each for each in self.columns if each.name in names))

    def described_as_text(self, zone: str | None) -> Described:
        """Describes all columns as a format of texts writes them; see `describe_text_table`."""
        return describe_text_table(self.columns, self.primary_key, zone=zone, comment=self.comment)
