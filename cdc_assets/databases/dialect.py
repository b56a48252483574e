"""Defines the SQL that each database writes in its own way: a `Dialect`.

`cdc_assets.databases.statements` has the statements, once for all databases. A further database
is one folder with a `Dialect`, a subclass of `SourceRows` that asks its server, and a catalog; its
name stands in `cdc_assets.databases.kinds`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

from cdc_assets.schema.comparing import Compared, Form, Key
from cdc_assets.schema.types import Column

Given = dict[str, Any]
"""The values of a statement's parameters, by name."""


class SourceColumn(Protocol):
    """A column of a source's table, with everything that its SQL depends on."""

    @property
    def name(self) -> str:
        """The column's name in the database."""
        ...

    @property
    def not_null(self) -> bool:
        """Whether it is declared NOT NULL."""
        ...


C = TypeVar("C", bound=SourceColumn)


@dataclass(frozen=True, slots=True)
class KeyFault:
    """Rows that a key does not identify: it has NULL, or connectors send another value.

    Attributes:
        condition: SQL that holds for such a row.
        what: the fault, for people.
        remedy: the action to take.
    """

    condition: str
    what: str
    remedy: str


def null_in_key(*columns: str) -> KeyFault:
    """Returns the rows with NULL in one of these columns of their key."""
    return KeyFault(
        " OR ".join(f"{each} IS NULL" for each in columns),
        "a row has NULL in its key, and no place in its order",
        "fill it, or name another key (tables.<schema.table>.primary_key)",
    )


SALTED: Final = "it is masked with a salt, which the database does not get"
"""Why a column is not compared."""


def parameter(value: object, given: Given) -> str:
    """Adds a value to a statement's parameters, and returns the parameter's placeholder."""
    name = f"p{len(given)}"
    given[name] = value
    return f"%({name})s"


class Dialect(ABC, Generic[C]):
    """The SQL of one kind of database, for statements that have parameters.

    A value's *canonical text* is defined by `cdc_assets.schema.comparing`. ``value`` is SQL for a
    column's value, ``text`` SQL for a canonical text of it.

    Attributes:
        most_keys: how many keys one statement looks for, if an index finds them; None for any
            number.
        numbers_rows: whether all supported versions have window functions.
        omits_values: whether an update's event may leave out large values.
        barrier: the clause that keeps a subquery from being merged into the outer query, which
            would compute its columns at each use.
        longest: the setting that bounds a row's text.
    """

    most_keys: int | None = None
    numbers_rows: bool = True
    omits_values: bool = False
    barrier: str
    longest: str = ""

    @abstractmethod
    def quote(self, name: str) -> str:
        """Quotes an identifier."""

    # ── columns ───────────────────────────────────────────────────────────────────────────

    @abstractmethod
    def form_of(self, source: C, lake: Column) -> Form | str:
        """Returns the form in which a column is compared, or the reason why it is not."""

    @abstractmethod
    def may_be_key(self, source: C, compared: Compared) -> bool:
        """Returns whether rows can be found by the column, and both sides order it alike."""

    @abstractmethod
    def is_indexed(self, source: C) -> bool:
        """Returns whether an index on the column has the order of `ordered`."""

    @abstractmethod
    def finds_keys(self, source: C) -> bool:
        """Returns whether an index on the column finds rows by `equal`."""

    # ── values ────────────────────────────────────────────────────────────────────────────

    @abstractmethod
    def canonical(self, source: C, compared: Compared, value: str) -> str:
        """Returns SQL that writes a value as canonical text; NULL for NULL."""

    @abstractmethod
    def lake_text(self, source: C, compared: Compared, value: str) -> str:
        """Returns SQL for a value's text from which the lake's value can be made."""

    @abstractmethod
    def digest(self, texts: Sequence[str]) -> str:
        """Returns SQL for the digest of canonical texts; NULL if they are too long together."""

    @abstractmethod
    def number(self, digest: str, begin: int) -> str:
        """Returns SQL for 15 hexadecimal digits of a digest as a number, from a place on."""

    # ── conditions on rows ────────────────────────────────────────────────────────────────

    @abstractmethod
    def lake_value(self, source: C, compared: Compared, value: str) -> str | None:
        """Returns SQL for a value that is compared with `constant` as the lake's value is.

        None if there is none.
        """

    @abstractmethod
    def constant(self, compared: Compared, text: str) -> str:
        """Returns SQL for a constant that `lake_value` is compared with, from the lake's text."""

    @abstractmethod
    def like(self, source: C, compared: Compared, value: str, pattern: str) -> str:
        """Returns whether the lake's text matches a pattern of LIKE, character by character."""

    # ── keys ──────────────────────────────────────────────────────────────────────────────

    @abstractmethod
    def ordered(self, source: C, value: str) -> str:
        """Returns a key's column in the form by which rows are ordered: texts by their bytes."""

    @abstractmethod
    def of_text(self, source: C, compared: Compared, text: str) -> str:
        """Returns SQL that converts canonical text to the form of `ordered`."""

    @abstractmethod
    def equal(self, source: C, compared: Compared, value: str, text: str) -> str:
        """Returns SQL by which an index finds the rows of a key's text; it may find others, too."""

    @abstractmethod
    def before(self, columns: Sequence[str], bound: Sequence[str]) -> str:
        """Returns whether a key is below a bound; both in the form of `ordered`."""

    @abstractmethod
    def from_on(self, columns: Sequence[str], bound: Sequence[str]) -> Sequence[str]:
        """Returns conditions that hold together for the keys from a bound on."""

    def below(self, columns: Sequence[str], bound: Sequence[str]) -> Sequence[str]:
        """Returns conditions that hold together for the keys below a bound."""
        return [self.before(columns, bound)]

    @abstractmethod
    def matching(
        self,
        table: str,
        same: Callable[[Sequence[str]], str],
        keys: Sequence[Key],
        given: Given,
    ) -> str:
        """Returns FROM and WHERE of the rows of some keys.

        Args:
            table: quoted.
            same: returns whether a row has a key, by SQL for each of the key's texts.
            keys: the keys.
            given: receives the parameters.
        """

    def faulty_keys(self, key: Sequence[tuple[C, Compared, str]]) -> Iterator[KeyFault]:
        """Yields the rows that key columns do not identify, if there can be any.

        Args:
            key: each column, with SQL for its value.
        """
        may_be_null = [value for source, _, value in key if not source.not_null]
        if may_be_null:
            yield null_in_key(*may_be_null)
