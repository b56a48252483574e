"""Unifies the databases' catalogs: the questions of replication about a source table.

Each kind of database implements `SourceTable`. For features that a database lacks (publications,
partitions under names of their own) its tables answer no, and never raise an error.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from cdc_assets.databases.mapping import DeclaredColumn
from cdc_assets.schema.described import Described
from cdc_assets.schema.existing import UNKNOWN_VALUE, implied, of_text
from cdc_assets.schema.history import StatementHistory
from cdc_assets.schema.modes import ConnectorModes
from cdc_assets.schema.silent import CatalogLook, SilentChange
from cdc_assets.schema.types import Column, Existing


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """The facts about one column.

    Attributes:
        number: an id that a rename keeps, and no other column of the table ever gets; 0 in
            databases without one.
        existing: the column's value in rows older than it, as the database writes it; None if they
            have none, or it is unknown.
        is_unknown: whether older rows may have a value that is unknown.
        is_implied: whether older rows have the value that the type implies.
        tells_rows: whether the facts cover older rows; false where there is only the number.
    """

    number: int = 0
    existing: str | None = None
    is_unknown: bool = False
    is_implied: bool = False
    tells_rows: bool = True


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
    def facts(self) -> Mapping[str, ColumnFacts]:
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

    def unsent_by(self, publication: str | None) -> tuple[str, ...]:
        """Returns why the database does not send changes of its rows to a connector.

        Args:
            publication: the connector's; None for any.
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

    def require_key_logged(self, key: tuple[str, ...], where: str) -> None:
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
        self, described: Described, names: Collection[str], modes: ConnectorModes
    ) -> Described:
        """Corrects a description from records' schemas, for these columns, by the catalog."""
        ...


# ── facts about columns ───────────────────────────────────────────────────────────────────


def with_number(column: Column, facts: ColumnFacts | None) -> Column:
    """Adds the column's number in the database's catalog."""
    number = facts.number if facts is not None else 0
    return replace(column, identity=replace(column.identity, number=number))


def numbered(
    facts: Mapping[str, ColumnFacts], history: StatementHistory | None
) -> dict[str, ColumnFacts]:
    """Adds the numbers of columns, by all names that they ever had, and what statements tell.

    A statement that added a column tells the value of older rows better than a catalog that has
    the present default.
    """
    found = dict(facts)
    for name, number in (history.known if history else {}).items():
        given = history.given.get(number) if history else None
        fact = facts.get(name, ColumnFacts(tells_rows=False))
        if given is not None:
            fact = ColumnFacts(existing=given.text, is_implied=given.is_implied)
        found[name] = replace(fact, number=number)
    return found


def with_existing(
    column: Column,
    facts: ColumnFacts | None,
    texts: Mapping[str, str | None],
    *,
    is_merged: bool,
    implies: bool,
) -> Column:
    """Adds to a new column its number and the value that older rows have in it.

    Args:
        column: by its name in records. A default in a record's schema makes its ``existing`` one
            that stays empty: connectors write placeholders there for functions (the epoch for
            ``CURRENT_TIMESTAMP``, 0 for ``nextval``), and the present default for an earlier one.
        facts: of the catalog; None without one.
        texts: configured values of older rows, by name; None for no value.
        is_merged: whether its table is merged with others into one, in whose rows a value would be
            put too.
        implies: whether the database gives a column without a default a value of its own.
    """
    column = with_number(column, facts)
    if column.name in texts:
        text = texts[column.name]
        return replace(column, existing=None if text is None else of_text(text, column))
    existing = column.existing
    if facts is not None and facts.tells_rows:
        existing = _existing(facts, column)
    elif existing is None and column.required and implies:
        existing = UNKNOWN_VALUE  # it may have a default, which records do not always contain
    is_put = existing is not None and not existing.is_empty
    return replace(column, existing=UNKNOWN_VALUE if is_put and is_merged else existing)


def _existing(facts: ColumnFacts, column: Column) -> Existing | None:
    if facts.is_unknown:
        return UNKNOWN_VALUE
    if facts.existing is not None:
        return of_text(facts.existing, column)
    return implied(column) if facts.is_implied else None
