"""Lists the kinds of databases: a further one has to provide a `DatabaseAdapter`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from cdc_assets.changes.names import TableName
from cdc_assets.changes.position import Scheme
from cdc_assets.config.database import DatabaseConfig, DatabaseKind
from cdc_assets.databases.catalog import SourceTable
from cdc_assets.databases.mysql import catalog as mysql
from cdc_assets.databases.mysql.rows import DRIVER as MARIADB_DRIVER
from cdc_assets.databases.mysql.rows import MysqlRows
from cdc_assets.databases.postgres import catalog as postgres
from cdc_assets.databases.postgres.rows import DRIVER as POSTGRES_DRIVER
from cdc_assets.databases.postgres.rows import PostgresRows
from cdc_assets.databases.rows import Access, Driver, SourceRows


@dataclass(frozen=True, slots=True)
class DatabaseAdapter:
    """One kind of database.

    Attributes:
        scheme: the scheme of its changes' positions, as long as no record shows it.
        driver: the JDBC driver by which Spark reads its tables.
        rows: opens the rows of a table.
        read_tables: reads tables from the catalog of a DSN's database.
        existing_tables: returns the existing ones of some tables.
        all_tables: lists the tables.
        names_of: returns the present names of tables by their identities.
    """

    scheme: Scheme
    driver: Driver
    rows: Callable[[Access], SourceRows]
    read_tables: Callable[[str, Iterable[TableName]], Mapping[TableName, SourceTable]]
    existing_tables: Callable[[str, Iterable[TableName]], frozenset[TableName]]
    all_tables: Callable[[str], tuple[tuple[str, str], ...]]
    names_of: Callable[[str, Iterable[str]], Mapping[str, tuple[str, str]]]


_POSTGRES: Final = DatabaseAdapter(
    Scheme.POSTGRES,
    POSTGRES_DRIVER,
    PostgresRows.of,
    postgres.read_tables,
    postgres.existing_tables,
    postgres.all_tables,
    postgres.names_of,
)
_MYSQL: Final = DatabaseAdapter(
    Scheme.BINLOG,
    MARIADB_DRIVER,
    MysqlRows.of,
    mysql.read_tables,
    mysql.existing_tables,
    mysql.all_tables,
    mysql.names_of,
)
KINDS: Final[Mapping[DatabaseKind, DatabaseAdapter]] = {
    "postgres": _POSTGRES,
    "mysql": _MYSQL,
    "mariadb": replace(_MYSQL, scheme=Scheme.MARIADB),
}


@dataclass(frozen=True, slots=True)
class SourceCatalog:
    """The catalog of one database."""

    kind: DatabaseAdapter
    database: DatabaseConfig

    @property
    def scheme(self) -> Scheme:
        """The scheme of its changes' positions, as long as no record shows it."""
        return self.kind.scheme

    def read(self, tables: Iterable[TableName]) -> Mapping[TableName, SourceTable]:
        """Reads tables in one query; those that do not exist are left out.

        Raises:
            UnreachableError: if the database does not answer; names it without the password.
            TerminalError: if it refuses the login or the query.
            ConfigError: if the DSN cannot be parsed.
        """
        return self.kind.read_tables(self.database.login(), tables)

    def existing(self, tables: Iterable[TableName]) -> frozenset[TableName]:
        """Returns those of some tables that exist, without reading their columns.

        Raises:
            CdcError: as `read`.
        """
        return self.kind.existing_tables(self.database.login(), tables)

    def called(self, identities: Iterable[str]) -> Mapping[str, tuple[str, str]]:
        """Returns schema and name of the existing tables with these identities.

        Raises:
            CdcError: as `read`.
        """
        return self.kind.names_of(self.database.login(), identities)

    def listed(self) -> tuple[tuple[str, str], ...]:
        """Returns schema and name of every table in order, except partitions and the server's own.

        Raises:
            CdcError: as `read`.
        """
        return self.kind.all_tables(self.database.login())


def catalog_of(database: DatabaseConfig) -> SourceCatalog:
    """Returns the catalog of a configured database. Nothing is opened before it is read."""
    return SourceCatalog(KINDS[database.kind], database)


def rows_of(kind: DatabaseKind, access: Access) -> SourceRows:
    """Returns the rows of a table.

    Raises:
        CdcError: if the database does not answer, or the table cannot be compared at all.
    """
    return KINDS[kind].rows(access)
