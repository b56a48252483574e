"""Follows the columns and the name of one table through the statements that change it.

A database that sends its statements (MySQL, MariaDB, Oracle) has no lasting numbers of
columns in its catalog, as PostgreSQL has (``attnum``). They are assigned here: a column gets a
number when it first appears, keeps it when it is renamed, and no other column of the table ever
gets it. The event says which columns exist after a statement; the statement itself says which of
them were renamed.

Some statements make another table of it, or exchange its columns. They are recorded as a `Break`:
merging on after one without acting on it gives other rows than the source's. Others change rows
without an event for each, see `cdc_assets.schema.silent`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, assert_never

from cdc_assets.schema.column_numbers import ColumnNumbers
from cdc_assets.schema.ddl import (
    ColumnChange,
    ColumnChangeKind,
    Ddl,
    Given,
    Relation,
    TableChange,
    TableChangeKind,
)
from cdc_assets.schema.silent import SilentChange, SilentKind
from cdc_assets.schema.types import Column, TableSchema

_NAMES: Final = ("was", "became")
_ELSEWHERE: Final = ("silent", "retyped")
_SEEN: Final = 32
"""A connector sends statements again from the last minute or so."""
_COPIES: Final = re.compile(r"_(.+)_(?:gho|new)")
"""The names that gh-ost and pt-online-schema-change give to the copy that replaces a table."""
SILENT: Final = {
    TableChangeKind.THINNED: SilentKind.PARTITIONS,
    TableChangeKind.DEDUPLICATED: SilentKind.REWRITTEN,
}
"""Effects by which rows go or come without events."""


class OnBreak(StrEnum):
    """The treatment of a table whose rows differ from what its changes make of them."""

    STOP = "stop"
    TRUNCATE = "truncate"  # remove rows of the table that had the name before, if identifiable
    KEEP = "keep"  # it is the same table, with the same rows


@dataclass(frozen=True, slots=True)
class Break:
    """A point from which the table's rows differ from what its changes make of them.

    Attributes:
        at: identifies it among the breaks of the table.
        why: the reason, for people.
        place: where the table was recreated, so that all older rows belong to another table: number
            of the binlog's file, and position. None if unknown, or if not all of them do.
        page: id of its entry on the page of errors; empty for the one of a recreated table.
    """

    at: str
    why: str
    place: tuple[int, int] | None = None
    page: str = ""


@dataclass(frozen=True, slots=True)
class Retyped:
    """A column whose type a statement changes, or that it adds with values that differ by row.

    Attributes:
        at: identifies it among those of the table.
        name: of the column.
        definition: the new type, as in the statement; empty if it is unknown.
        where: coordinate of the statement.
        is_new: whether it is added, and the statement does not tell what older rows have in it.
    """

    at: str
    name: str
    definition: str
    where: str
    is_new: bool = False

    @property
    def change(self) -> SilentChange:
        """The change of older rows."""
        to = f" to {self.definition}" if self.definition else ""
        done = "added with a value that may differ by row" if self.is_new else f"changed{to}"
        why = f"column {self.name} was {done} ({self.where}): older rows may have other values"
        return SilentChange(SilentKind.REWRITTEN, why, (self.name,), id=self.at)


@dataclass(frozen=True, slots=True)
class StatementHistory:
    """The history of one table, up to some record of the topic of statements.

    Attributes:
        topic: its identity; empty before anything was read.
        next: by partition, the first offset not examined yet.
        numbers: of the table's present columns, by name.
        former: of former names of columns, and of dropped columns.
        last: the highest number assigned.
        given: of columns that a statement added, by number, the value of the rows there were.
        is_there: false once the table was dropped or renamed.
        was: the table that was given this name; None if none was.
        became: the table's new name; None while it is there, and if it was dropped.
        broken: the newest break; None without any.
        cascades: names of foreign keys that change the table's rows with others', as statements
            tell; None if the statements before ``next`` were read by a version that did not look.
        silent: changes of its rows without events by statements since ``since``. They are not
            stored here, but with the table.
        retyped: columns that statements gave other types or values, likewise not stored here.
        ends: by partition, offset and identity of the last statement before ``next``, on any table.
        seen: identities of the newest statements on the table, oldest first: a connector that was
            killed sends some again. None if a version examined them that did not note them.
    """

    topic: str = ""
    next: Mapping[int, int] = field(default_factory=dict[int, int])
    numbers: Mapping[str, int] = field(default_factory=dict[str, int])
    former: Mapping[str, int] = field(default_factory=dict[str, int])
    last: int = 0
    given: Mapping[int, Given] = field(default_factory=dict[int, Given])
    is_there: bool = True
    was: Relation | None = None
    became: Relation | None = None
    broken: Break | None = None
    cascades: tuple[str, ...] | None = ()
    silent: tuple[SilentChange, ...] = ()
    retyped: tuple[Retyped, ...] = ()
    ends: Mapping[int, tuple[int, str]] = field(default_factory=dict[int, tuple[int, str]])
    seen: tuple[str, ...] | None = ()

    @property
    def known(self) -> dict[str, int]:
        """The numbers of all names, in their latest use."""
        return {**self.former, **self.numbers}

    @property
    def without_offsets(self) -> StatementHistory:
        """The history without the examined offsets."""
        return replace(self, next={}, ends={}, silent=(), retyped=())

    def after(self, ddl: Ddl, table: Relation) -> StatementHistory:
        """Returns the history after a statement; the same history if it has seen this one before.

        Args:
            ddl: the next event of the topic.
            table: the table of this history.
        """
        names = ddl.columns_of(table)
        if ddl.is_of_snapshot:
            found = self.with_keys_of(ddl, table)
            return found if names is None else found.with_columns((), names)
        changes = tuple(ddl.statement.of(table))
        of_copy = tuple(c for c in ddl.statement.changes if _is_copy(c.table, table))
        if not (changes or of_copy) or self.has_seen(ddl):
            return self
        found = self.with_keys_of(ddl, table)
        for change in of_copy:  # its columns are the table's once it gets the table's name
            found = replace(found, retyped=(*found.retyped, *_retyped(change, ddl, found)))
        for change in changes:
            found = _after(found, change, ddl, table)
        return found.with_seen(ddl)

    def has_seen(self, ddl: Ddl) -> bool:
        """Whether a statement is one of the newest that were examined."""
        return ddl.identity in (self.seen or ())

    def with_seen(self, ddl: Ddl) -> StatementHistory:
        """Returns the history with a statement noted as examined."""
        if not ddl.identity:
            return self
        return replace(self, seen=(*(self.seen or ()), ddl.identity)[-_SEEN:])

    def found_in(self, topic: str, statements: Sequence[Ddl]) -> StatementHistory:
        """Returns the history for another topic of statements, or for a topic that was cut back.

        The history has examined all statements up to the newest one that it has seen.

        Args:
            topic: the topic's identity.
            statements: the topic's statements, from the topic's beginning on, in order.
        """
        known = next(
            (each.coordinate for each in reversed(statements) if self.has_seen(each)), None
        )
        next_ = {known.partition: known.offset + 1} if known is not None else {}
        found = replace(self, topic=topic, next=next_, ends={})
        if known is not None or topic != self.topic or self.seen == ():
            return found
        # Reading resumes at the topic's present end, once the table is known to be right.
        upto = {each.coordinate.partition: each.coordinate.offset + 1 for each in statements}
        why = "its topic of statements was cut back, and none of those known before is left"
        at = f"{topic}:cut:{sorted(self.next.items())}"
        broken = Break(at, why, page="statements-cut-back")
        return replace(found, next=upto, broken=broken)

    def with_keys_of(self, ddl: Ddl, table: Relation) -> StatementHistory:
        """Returns the history with the foreign keys that a statement adds and drops."""
        keys = self.cascades or ()
        for change in ddl.statement.of(table):
            if change.kind is TableChangeKind.CREATED and not change.is_conditional:
                keys = ()
            left = [each for each in keys if each not in change.dropped_keys]
            keys = tuple(dict.fromkeys((*left, *change.cascades)))
        return self if keys == (self.cascades or ()) else replace(self, cascades=keys)

    @property
    def by_its_new_name(self) -> StatementHistory:
        """The history under the table's new name."""
        return replace(self, is_there=True, was=None, became=None)

    def with_numbers(self, table: TableSchema) -> StatementHistory:
        """Assigns numbers to columns of the lake that no statement has mentioned yet.

        Without them two of its columns could get one number, where a name passes from one to the
        other.

        Args:
            table: the lake's columns, in order: the same columns get the same numbers again.
        """
        numbers, last = dict(self.numbers), self.last
        known = {name.casefold() for name in self.known}
        there = [(c.sent_as, c.identity.number) for c in table.columns if not c.absent]
        mine = [each for each in there if each[0].casefold() not in known]
        for name, number in mine:
            if number:
                numbers[name], last = number, max(last, number)
        left = [name for name, number in mine if not number]
        others = [each for each in table.left_out if each.casefold() not in known]
        for name in (*left, *others):
            last += 1
            numbers[name] = last
        return replace(self, numbers=numbers, last=last)

    def before(self, later: StatementHistory, table: TableSchema) -> StatementHistory:
        """Returns this history with the numbers of the lake's columns that later statements name.

        After these, a name may be another column's.

        Args:
            later: the history after them.
            table: the lake's columns.
        """
        named = {name.casefold() for name in later.known}
        columns = tuple(c for c in table.columns if c.sent_as.casefold() in named)
        return self.with_numbers(replace(table, columns=columns, left_out=()))

    def among_rows(self, ddl: Ddl, table: Relation, *, is_empty: bool) -> StatementHistory:
        """Returns the history after a statement that is among the rows.

        Args:
            ddl: the statement.
            table: the table.
            is_empty: the lake has no rows of it: nothing shows that it existed before.
        """
        if self.has_seen(ddl):
            return self
        found, changes = self.after(ddl, table), tuple(ddl.statement.of(table))
        is_first = self.is_there and is_empty
        if is_first and all(each.kind is TableChangeKind.CREATED for each in changes):
            return replace(found, broken=self.broken)
        if name := next((n for each in changes if (n := _taken_name(self, each))), None):
            why = f"a statement gives a column the name of another one that the lake has: {name}"
            return found.with_break(ddl, why, page="column-confused")
        return found

    def taught(self, table: TableSchema) -> TableSchema:
        """Adds the numbers of a lake table's columns, and all names that they had in records.

        Args:
            table: its columns by the names that they have in records, whatever these are by now.
        """
        known, there = self.known, {each.sent_as for each in table.columns}
        by_number: dict[int, list[str]] = {}
        for name, number in self.former.items():
            by_number.setdefault(number, []).append(name)
        columns: list[Column] = []
        for each in table.columns:
            was = each.identity
            number = was.number or known.get(each.sent_as, 0)
            names = (n for n in by_number.get(number, ()) if n not in {*there, *was.formerly})
            identity = replace(was, number=number, formerly=(*was.formerly, *names))
            columns.append(each if identity == was else replace(each, identity=identity))
        return replace(table, columns=tuple(columns))

    def without_events(
        self, holds: Callable[[Retyped], bool], *, with_keys: bool
    ) -> tuple[SilentChange, ...]:
        """Returns changes of the table's rows without events, as derived from statements.

        Args:
            holds: returns whether a column's new type holds all values that it may have had.
            with_keys: whether foreign keys count: only the binlog's statements show them.
        """
        found = list(self.silent)
        found += [each.change for each in self.retyped if each.is_new or not holds(each)]
        for name in (self.cascades or ()) if with_keys else ():
            why = (
                f"foreign key {name} changes rows of it with another table's, which MariaDB and "
                "MySQL before 9.6 do not write into the binlog"
            )
            found.append(SilentChange(SilentKind.CASCADES, why, is_standing=True))
        return tuple(found)

    def to_json(self) -> str:
        """Returns canonical text."""
        said = {name: each for name, each in asdict(self).items() if name not in _ELSEWHERE}
        return json.dumps(said, separators=(",", ":"), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> StatementHistory:
        """Reads what `to_json` wrote."""
        said: dict[str, Any] = json.loads(text)
        broken = said.pop("broken")
        offsets = {int(partition): offset for partition, offset in said.pop("next").items()}
        if broken is not None:
            place = broken["place"]
            broken = Break(**broken | {"place": place and (place[0], place[1])})
        names = (said.pop(name, None) for name in _NAMES)
        was, became = (Relation(**each) if each else None for each in names)
        given = {int(number): Given(**each) for number, each in said.pop("given", {}).items()}
        cascades = said.pop("cascades", None)
        foreign_keys = None if cascades is None else tuple(cascades)
        ends = {int(p): (at, which) for p, (at, which) in said.pop("ends", {}).items()}
        seen = said.pop("seen", None)
        said |= {"ends": ends, "seen": None if seen is None else tuple(seen)}
        said |= {"next": offsets, "was": was, "became": became, "broken": broken, "given": given}
        return cls(**said, cascades=foreign_keys)

    def with_columns(
        self,
        changes: Iterable[ColumnChange],
        names: tuple[str, ...] | None,
        *,
        are_new: bool = False,
    ) -> StatementHistory:
        """Returns the history with other columns.

        Args:
            changes: the statement's changes of columns.
            names: all columns afterwards; None if the event does not list them.
            are_new: whether columns that did not exist before are new even if others are gone.
                Otherwise they may be the gone ones under another name, and they get no number.
        """
        columns = ColumnNumbers(dict(self.numbers), dict(self.former), self.last, dict(self.given))
        for change in changes:
            columns.apply(change)
        if names is not None:
            columns.settle(names, are_new=are_new)
        former = {name: n for name, n in columns.former.items() if name not in columns.numbers}
        numbers, given = columns.numbers, columns.given
        return replace(self, numbers=numbers, former=former, last=columns.last, given=given)

    def with_break(
        self, ddl: Ddl, why: str, place: tuple[int, int] | None = None, *, page: str = ""
    ) -> StatementHistory:
        """Records a break by a statement that no row's change reflects."""
        broken = Break(self.place_of(ddl), f"{why} ({ddl.coordinate})", place, page)
        return replace(self, broken=broken)

    def place_of(self, ddl: Ddl) -> str:
        """Returns what distinguishes a statement from all others."""
        return f"{self.topic}:{ddl.coordinate.partition}:{ddl.coordinate.offset}"


def _after(
    history: StatementHistory, change: TableChange, ddl: Ddl, table: Relation
) -> StatementHistory:
    names = ddl.columns_of(table)
    match change.kind:
        case TableChangeKind.CREATED if change.is_conditional and _is_known(history, ddl, names):
            return history
        case TableChangeKind.CREATED:
            made = replace(history, is_there=True, was=None, became=None)
            made = made.with_columns((), names, are_new=True)
            return made.with_break(ddl, "the table was dropped and recreated", ddl.place)
        case TableChangeKind.RENAMED if not change.table.includes(table):
            found = replace(history, is_there=True, became=None)
            found = found.with_columns(change.columns, names)
            if _is_copy(change.table, table):
                return found
            found = replace(found, was=change.table)
            return found.with_break(ddl, f"another table was given its name: {change.table} before")
        case TableChangeKind.DROPPED | TableChangeKind.RENAMED:
            if not history.is_there:
                return history
            now = change.renamed_to
            found = history if now is None else _altered(history, change, ddl, now)
            return replace(found, is_there=False, became=now)
        case TableChangeKind.ALTERED:
            return _altered(history, change, ddl, table)
        case TableChangeKind.THINNED | TableChangeKind.DEDUPLICATED:
            why = f"{change.describe()} ({ddl.coordinate})"
            silent = SilentChange(SILENT[change.kind], why, id=history.place_of(ddl))
            return replace(history, silent=(*history.silent, silent))
        case TableChangeKind.TRUNCATED:  # an event of the table's own topic reports it
            return history
        case TableChangeKind.UNREAD:
            return _after_unread(history, ddl, names)
        case _:
            assert_never(change.kind)


def _altered(
    history: StatementHistory, change: TableChange, ddl: Ddl, table: Relation
) -> StatementHistory:
    """Returns the history with the changed columns of a table, which the event has by this name."""
    found = history.with_columns(change.columns, ddl.columns_of(table))
    found = replace(found, retyped=(*history.retyped, *_retyped(change, ddl, history)))
    if (name := _swapped(change.columns)) is None:
        return found
    why = f"columns have exchanged their names ({name} and others)"
    return found.with_break(ddl, why, page="column-confused")


def _retyped(change: TableChange, ddl: Ddl, history: StatementHistory) -> Iterator[Retyped]:
    for each in change.columns:
        is_new = each.kind is ColumnChangeKind.ADDED and each.given is None
        if is_new or each.kind is ColumnChangeKind.RETYPED:
            at, where = f"{history.place_of(ddl)}:{each.name}", str(ddl.coordinate)
            yield Retyped(at, each.name, each.definition, where, is_new)


def _after_unread(
    history: StatementHistory, ddl: Ddl, names: tuple[str, ...] | None
) -> StatementHistory:
    """Returns the history after a statement that only the database and the connector could read."""
    if names is None and ddl.tells_tables:  # it names the table, and that is all
        return history
    found = history.with_columns((), names)
    if names is not None and {*names} <= {*found.numbers}:
        return found
    why = "a statement cannot be read, which may have renamed columns"
    return found.with_break(ddl, why, page="statement-unreadable")


def _swapped(changes: Iterable[ColumnChange]) -> str | None:
    """Returns one of two columns that exchange names: older records then look like newer ones.

    Renames of one statement happen at once.
    """
    to = {c.name.casefold(): c.renamed_to.casefold() for c in changes if c.renamed_to}
    for name, then in to.items():
        at, seen = then, {name}
        while at in to and at not in seen:
            seen.add(at)
            at = to[at]
        if at == name and len(seen) > 1:
            return name
    return None


def _taken_name(history: StatementHistory, change: TableChange) -> str | None:
    """Returns a column's new name that another column has at the time, as far as is known."""
    dropped = {c.name.casefold() for c in change.columns if c.kind is ColumnChangeKind.DROPPED}
    names = {name.casefold() for name in history.numbers} - dropped
    for each in change.columns:
        was, now = each.name.casefold(), (each.renamed_to or "").casefold()
        if was in names and now != was and now in names:
            return each.renamed_to
    return None


def _is_known(history: StatementHistory, ddl: Ddl, names: tuple[str, ...] | None) -> bool:
    """Whether the table was there already: the event lists the columns of a table that is made."""
    is_unchanged = ddl.tells_tables and names is None
    return history.is_there and (bool(history.numbers) or is_unchanged)


def _is_copy(other: Relation, table: Relation) -> bool:
    """Whether the other table's name is that of a copy that a tool made to alter the table."""
    found = _COPIES.fullmatch(other.name)
    return found is not None and Relation(other.schema, found[1]).includes(table)
