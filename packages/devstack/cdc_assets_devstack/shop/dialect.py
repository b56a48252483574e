"""Defines the interface between the shop and its database, of whatever kind.

Statements are written in the SQL that PostgreSQL and MariaDB have in common, with ``%s`` for
values; a dictionary or a list is passed in the database's own form.
"""

from __future__ import annotations

from typing import Protocol

from cdc_assets_devstack.shop.stock import Row


class Session(Protocol):
    """One connection. Failures raise `Shop.error`; a lost connection is `closed`, or soon is."""

    @property
    def closed(self) -> bool:
        """Whether it was closed, or is lost."""
        ...

    def change(self, statement: str, *values: object) -> int:
        """Executes a statement, and returns the number of rows that it has changed."""
        ...

    def first(self, statement: str, *values: object) -> Row | None:
        """Executes a statement, and returns its first row; None if it has none."""
        ...

    def newest_order(self) -> object:
        """Returns a number that rises with the orders taken; None if their table is gone."""
        ...

    def commit(self) -> None:
        """Commits the transaction."""
        ...

    def rollback(self) -> None:
        """Rolls back the transaction."""
        ...

    def close(self) -> None:
        """Closes the connection."""
        ...


class Shop(Protocol):
    """A database with the shop, or for it."""

    @property
    def error(self) -> type[Exception]:
        """The base class of its driver's errors."""
        ...

    def prepare(self, seed: int) -> tuple[str, ...]:
        """See `cdc_assets_devstack.shop.database.prepare_shop`."""
        ...

    def connect(self) -> Session:
        """Opens a connection.

        Raises:
            Shop.error: that is not possible now.
        """
        ...

    def is_usual(self, error: Exception) -> bool:
        """Returns whether an error is usual among concurrent users of one database."""
        ...

    def describe(self, error: Exception) -> str:
        """Describes the database's refusal, with names but never with values."""
        ...
