"""What the shop needs of a database, whichever kind it is.

Its statements are written in the SQL that PostgreSQL and MariaDB have in common, with ``%s`` for
values; a dictionary or a list as a value is said in the database's own way.
"""

from __future__ import annotations

from typing import Protocol

from cdc_assets.devstack.shop.stock import Row


class Session(Protocol):
    """One connection. Whatever fails raises `Shop.error`; a lost one is `closed`, or soon is."""

    @property
    def closed(self) -> bool:
        """Whether it was closed, or is lost."""
        ...

    def change(self, statement: str, *values: object) -> int:
        """The number of rows that a statement has changed."""
        ...

    def first(self, statement: str, *values: object) -> Row | None:
        """The first row that a statement gives."""
        ...

    def newest_order(self) -> object:
        """A number that rises with the orders taken; None if their table is gone."""
        ...

    def commit(self) -> None:
        """Make the transaction last."""
        ...

    def rollback(self) -> None:
        """Take the transaction back."""
        ...

    def close(self) -> None:
        """End it."""
        ...


class Shop(Protocol):
    """A database that has the shop, or is to have it."""

    @property
    def error(self) -> type[Exception]:
        """What its driver raises."""
        ...

    def prepare(self, seed: int) -> tuple[str, ...]:
        """See `cdc_assets.devstack.shop.database.prepare_shop`."""
        ...

    def connect(self) -> Session:
        """A new connection.

        Raises:
            Shop.error: there is none to be had now.
        """
        ...

    def is_usual(self, error: Exception) -> bool:
        """Whether it is what several that work on one database do to each other."""
        ...

    def describe(self, error: Exception) -> str:
        """What the database refuses, by names and never by values."""
        ...
