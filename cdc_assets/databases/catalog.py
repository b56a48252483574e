"""Unifies the databases' catalogs: the questions of replication about a source table.

A kind of database (``database.kind``) implements `SourceCatalog` and `SourceTable`; `catalog_of`
finds it. For features that a database lacks (publications, partitions under names of their own) its
tables answer no, and never raise an error.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, assert_never

from cdc_assets.changes.names import TableName
from cdc_assets.changes.position import Scheme
from cdc_assets.config.database import DatabaseConfig
from cdc_assets.config.secret import Secret
from cdc_assets.databases.facts import Facts
from cdc_assets.databases.mapping import DeclaredColumn
from cdc_assets.databases.mysql import catalog as mysql
from cdc_assets.databases.postgres import catalog as postgres
from cdc_assets.schema.described import Described
from cdc_assets.schema.modes import ConnectorModes
from cdc_assets.schema.silent import CatalogLook, SilentChange


class SourceTable(Protocol):
    """A table as its database has it."""

    @property
    def columns(self) -> Sequence[DeclaredColumn]:
        """All columns, whether their changes are published or not."""
        ...

    @property
    def primary_key(self) -> tuple[str, ...]:
        """Names of the key's columns, in order; empty without one."""
        ...

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all columns, whether their changes are published or not."""
        ...

    @property
    def root(self) -> tuple[str, str] | None:
        """``(schema, name)`` of the partitioned table that it is a partition of."""
        ...

    @property
    def partitions(self) -> tuple[tuple[str, str], ...]:
        """``(schema, name)`` of its partitions, if the database sends changes under their names."""
        ...

    @property
    def identity(self) -> str:
        """An id that another table of its name does not have; empty in databases without one."""
        ...

    @property
    def logs_whole_rows(self) -> bool:
        """Whether the row before an update is logged as a whole."""
        ...

    @property
    def facts(self) -> Mapping[str, Facts]:
        """The facts about all columns, by name."""
        ...

    @property
    def look(self) -> CatalogLook:
        """What the next look at the table is compared with, see `silent_since`."""
        ...

    def silent_since(
        self, before: CatalogLook | None, publication: str | None
    ) -> tuple[SilentChange, ...]:
        """Returns changes of its rows without events that the catalog shows, standing ones too.

        Args:
            before: the look before; None for the first one, which finds standing ones only.
            publication: the connector's; None if it is not configured.
        """
        ...

    def identifies(self, key: Collection[str]) -> bool:
        """Returns whether these columns are known to identify a row, in any change of it."""
        ...

    def unpublished(self, publication: str | None) -> dict[str, str]:
        """Returns columns whose changes no event holds, each with the reason."""
        ...

    def filters_rows(self, publication: str | None) -> bool:
        """Returns whether the database publishes only some rows."""
        ...

    def sent_by_partition(self, publication: str | None) -> bool:
        """Returns whether its changes come under its partitions' names."""
        ...

    def require_told(self, key: tuple[str, ...], where: str) -> None:
        """Refuses a table whose events do not identify their row, or do not contain all of it.

        Raises:
            TerminalError: if it is one.
        """
        ...

    def require_whole(self, where: str) -> None:
        """Refuses it while its database logs changes that lack a part of a row, or their order.

        Raises:
            TerminalError: if it does.
        """
        ...

    def described(self, modes: ConnectorModes) -> Described:
        """Describes all columns, as a connector with these modes writes them."""
        ...

    def corrected(
        self, told: Described, names: Collection[str], modes: ConnectorModes
    ) -> Described:
        """Corrects a description from records' schemas, for these columns, by the catalog."""
        ...


class SourceCatalog(Protocol):
    """The catalog of one database."""

    @property
    def scheme(self) -> Scheme:
        """The scheme of its changes' positions, as long as no record shows it."""
        ...

    def read(self, tables: Iterable[TableName]) -> Mapping[TableName, SourceTable]:
        """Reads tables in one query; those that do not exist are left out.

        Raises:
            UnreachableError: if the database does not answer; names it without the password.
            TerminalError: if it refuses the login or the query.
            ConfigError: if the DSN cannot be parsed.
        """
        ...

    def existing(self, tables: Iterable[TableName]) -> frozenset[TableName]:
        """Returns those of some tables that exist, without reading their columns.

        Raises:
            CdcError: as `read`.
        """
        ...

    def called(self, identities: Iterable[str]) -> Mapping[str, tuple[str, str]]:
        """Returns schema and name of the existing tables with these identities.

        Raises:
            CdcError: as `read`.
        """
        ...

    def listed(self) -> tuple[tuple[str, str], ...]:
        """Returns schema and name of every table in order, except partitions and the server's own.

        Raises:
            CdcError: as `read`.
        """
        ...


@dataclass(frozen=True, slots=True)
class PostgresCatalog:
    """PostgreSQL's catalog."""

    dsn: Secret
    scheme: Scheme = Scheme.POSTGRES

    def read(self, tables: Iterable[TableName]) -> Mapping[TableName, SourceTable]:
        """See `SourceCatalog`."""
        return postgres.read_tables(self.dsn.reveal(), tables)

    def existing(self, tables: Iterable[TableName]) -> frozenset[TableName]:
        """See `SourceCatalog`."""
        return postgres.existing_tables(self.dsn.reveal(), tables)

    def called(self, identities: Iterable[str]) -> Mapping[str, tuple[str, str]]:
        """See `SourceCatalog`."""
        return postgres.names_of(self.dsn.reveal(), identities)

    def listed(self) -> tuple[tuple[str, str], ...]:
        """See `SourceCatalog`."""
        return postgres.all_tables(self.dsn.reveal())


@dataclass(frozen=True, slots=True)
class MysqlCatalog:
    """MySQL's and MariaDB's catalog."""

    dsn: Secret
    scheme: Scheme = Scheme.BINLOG

    def read(self, tables: Iterable[TableName]) -> Mapping[TableName, SourceTable]:
        """See `SourceCatalog`."""
        return mysql.read_tables(self.dsn.reveal(), tables)

    def existing(self, tables: Iterable[TableName]) -> frozenset[TableName]:
        """See `SourceCatalog`."""
        return mysql.existing_tables(self.dsn.reveal(), tables)

    def called(self, identities: Iterable[str]) -> Mapping[str, tuple[str, str]]:
        """Returns nothing: its tables have no identities."""
        del identities
        return {}

    def listed(self) -> tuple[tuple[str, str], ...]:
        """See `SourceCatalog`: of the database that the DSN names, or of all."""
        return mysql.all_tables(self.dsn.reveal())


def catalog_of(database: DatabaseConfig) -> SourceCatalog:
    """Returns the catalog of a configured database. Nothing is opened before it is read."""
    match database.kind:
        case "postgres":
            return PostgresCatalog(database.dsn)
        case "mysql":
            return MysqlCatalog(database.dsn)
        case "mariadb":
            return MysqlCatalog(database.dsn, Scheme.MARIADB)
        case _:
            assert_never(database.kind)
