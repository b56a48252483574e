"""Answers questions about tables at their source, from the database and from statements."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from cdc_assets.changes.names import TableName
from cdc_assets.config import SourceConfig
from cdc_assets.databases.catalog import ColumnFacts, SourceTable, numbered
from cdc_assets.databases.kinds import catalog_of
from cdc_assets.errors import UnreachableError
from cdc_assets.registry import TableEntry
from cdc_assets.schema.history import StatementHistory


@dataclass(frozen=True, slots=True)
class Absence:
    """The reasons why records lack columns.

    Attributes:
        given_up: columns given up by the configuration.
        dropped: columns dropped at the source.
        unpublished: columns that exist but no event holds, with the reason.
        is_known: whether all other columns are known to exist and to be published.
    """

    given_up: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    unpublished: dict[str, str] = field(default_factory=dict)
    is_known: bool = False


class SourceAnswers:
    """The answers about tables of one source; its database is asked once for each table.

    Args:
        source: the configuration.
        history: of the one table that batches are prepared for; None where no statements are sent.
        at: the time of asking; None for now.
    """

    def __init__(
        self,
        source: SourceConfig,
        history: StatementHistory | None = None,
        at: datetime | None = None,
    ) -> None:
        self.history = history
        self.at = at or datetime.now(UTC)
        self._source = source
        self._read: dict[TableName, SourceTable | None] = {}
        self._silent: UnreachableError | None = None

    def table(self, entry: TableEntry) -> SourceTable | None:
        """Returns the table as in its database; None if it has none, or without ``database:``.

        Raises:
            CdcError: if the database does not answer. It is not waited for twice.
        """
        database = self._source.database
        if database is None:
            return None
        if self._silent is not None:
            raise self._silent
        name = entry.at_source
        if name not in self._read:
            try:
                found = catalog_of(database).read([name])
            except UnreachableError as error:
                self._silent = error
                raise
            self._read[name] = found.get(name)
        return self._read[name]

    def known_table(self, entry: TableEntry) -> SourceTable | None:
        """Returns the table if its database has been asked for it already, and has it."""
        return self._read.get(entry.at_source)

    def identity(self, entry: TableEntry) -> str | None:
        """Returns an identity that another table of its name would not have; None if unknown."""
        if self.history is not None:
            return self.history.broken.at if self.history.broken else ""
        table = self.table(entry)
        return (table.identity or None) if table is not None else None

    def facts(self, entry: TableEntry) -> Mapping[str, ColumnFacts] | None:
        """Returns facts about columns by their names; None if there are none.

        Where statements give the numbers of columns, former names are included. Tables that are
        merged into one each have their own numbers, so all numbers are 0 there.
        """
        table = self.table(entry)
        if table is None and not (self.history and self.history.known):
            return None
        found = numbered(table.facts if table is not None else {}, self.history)
        if entry.shard is not None:
            return {name: replace(each, number=0) for name, each in found.items()}
        return found

    def known_facts(self, entry: TableEntry) -> Mapping[str, ColumnFacts] | None:
        """Returns `facts` if the database need not be asked for them; None otherwise."""
        is_asked = entry.at_source in self._read or self._source.database is None
        return self.facts(entry) if is_asked else None

    def names(self, entry: TableEntry) -> tuple[str, ...] | None:
        """Returns the table's present columns; None if unknown."""
        if self.history is not None and self.history.numbers:
            return tuple(self.history.numbers)
        table = self.table(entry)
        return table.names if table is not None else None

    def names_now(self, names: Collection[str]) -> dict[str, str]:
        """Returns the present names of a record's columns that statements have renamed since."""
        if self.history is None:
            return {}
        by_number = {number: name for name, number in self.history.numbers.items()}
        former = {name: by_number.get(self.history.former.get(name, 0)) for name in names}
        return {name: now for name, now in former.items() if now and now not in names}

    def given_up(self, entry: TableEntry, names: Sequence[str]) -> tuple[str, ...]:
        """Returns those of these columns that the configuration says the source has dropped."""
        named = self._source.overrides(entry.table).absent_columns
        return tuple(name for name in names if name in named)

    def absence(self, entry: TableEntry, columns: Mapping[str, int]) -> Absence:
        """Returns why records lack columns.

        Args:
            entry: the table.
            columns: the numbers of the columns, 0 if unknown, by their names in records.
        """
        given_up = self.given_up(entry, [*columns])
        asked = [name for name in columns if name not in given_up]
        table = self.table(entry) if asked else None
        there = {*self.history.numbers.values()} if self.history else set[int]()
        if self.history is None and table is not None and entry.shard is None:
            there = {each.number for each in table.facts.values()} - {0}
        former = self.history.former if self.history else {}
        stays = {n for n in asked if (columns[n] or former.get(n)) in there}
        if table is None:
            return Absence(given_up, tuple(n for n in asked if n in former and n not in stays))
        gone = tuple(n for n in asked if n not in table.names and n not in stays)
        why = table.unpublished(self.publication)
        unpublished = {name: why[name] for name in asked if name in why}
        return Absence(given_up, gone, unpublished, is_known=True)

    def unpublished(self, entry: TableEntry, names: Sequence[str]) -> dict[str, str]:
        """Returns which of these columns no change holds, and why; {} without a database to ask."""
        table = self.table(entry) if names else None
        found = table.unpublished(self.publication) if table is not None else {}
        return {name: why for name, why in found.items() if name in names}

    @property
    def publication(self) -> str | None:
        """The connector's publication, if it is configured."""
        return self._source.publication
