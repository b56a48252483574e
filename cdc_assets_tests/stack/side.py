"""The database behind a source, of whichever kind its DSN says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from cdc_assets_devstack.stack import LocalStack

from cdc_assets_tests.stack.mariadb_side import MariaDBSide
from cdc_assets_tests.stack.oracle import SourceTable
from cdc_assets_tests.stack.postgres_side import PostgresSide


class Side(Protocol):
    """A database: how tests write to it, wait for its connector, and read it as the oracle."""

    @property
    def dsn(self) -> str:
        """How to connect."""
        ...

    @property
    def schema(self) -> str:
        """What stands before a table in the names of topics."""
        ...

    def configured(self, variable: str) -> Mapping[str, object]:
        """What a source's configuration says of it; the DSN is in an environment variable."""
        ...

    def connector(self, stack: LocalStack, prefix: str) -> dict[str, str]:
        """The settings of its connector."""
        ...

    def execute(self, *statements: str) -> None:
        """One transaction, as far as the database has such for the statements."""
        ...

    def wait_until_delivered(self, stack: LocalStack, prefix: str) -> None:
        """Until Kafka has everything that was committed before this call."""
        ...

    def table(self, name: str) -> SourceTable:
        """Read a table, types and key included, in one transaction."""
        ...


def side_of(dsn: str) -> Side:
    """MariaDB for ``mysql://…``, else PostgreSQL."""
    return MariaDBSide(dsn) if dsn.startswith("mysql://") else PostgresSide(dsn)
