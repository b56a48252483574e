"""A toy PostgreSQL table: transactions that interleave, row locks, a write-ahead log.

Sessions work on rows by statements. A statement that a real database would make wait or refuse
is not executed. LSNs are given out as the statements come, so those of open transactions
interleave; commits come in an order of their own. `Source.rows` is the truth.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from cdc_assets_tests.model.change import Key, Op, Row, Shape

LARGE = "LARGE"
"""How values begin that are too large to be logged where an update leaves them alone."""


@dataclass(frozen=True, slots=True)
class Schema:
    """A table, its possible keys, and the columns whose large values are stored apart."""

    shape: Shape
    keys: tuple[Key, ...]
    toasted: frozenset[str]


_VALUES = ("n", "note", "memo")
_TOASTED = frozenset({"note", "memo"})
SINGLE = Schema(Shape(("id",), ("id", *_VALUES)), ((0,), (1,), (2,), (3,)), _TOASTED)
COMPOSITE = Schema(
    Shape(("a", "b"), ("a", "b", *_VALUES)), ((0, "x"), (0, "y"), (1, "x"), (1, "y")), _TOASTED
)
KEYLESS = Schema(Shape((), ("n", "note")), (), frozenset())


def wide(columns: int) -> Schema:
    """A table of so many columns beside its key, all but one of which may be left out."""
    texts = tuple(f"c{number:04d}" for number in range(columns - 1))
    return Schema(Shape(("id",), ("id", "n", *texts)), SINGLE.keys, frozenset(texts))


@dataclass(frozen=True, slots=True)
class Logged:
    """One change in the write-ahead log; ``before`` is the full old row."""

    op: Op
    lsn: int
    before: Row | None = None
    after: Row | None = None
    unset: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Commit:
    """A committed transaction."""

    xid: int
    lsn: int
    ts_ms: int
    changes: tuple[Logged, ...]


@dataclass(slots=True)
class Transaction:
    """An open transaction: what it logged, and what it wrote (None: deleted) by row id."""

    xid: int
    changes: list[Logged] = field(default_factory=list)
    written: dict[Key, Row | None] = field(default_factory=dict)
    truncated: bool = False


@dataclass(slots=True)
class Source:
    """The database. Row ids are keys; in a table without a key they are hidden numbers."""

    schema: Schema
    rows: dict[Key, Row] = field(default_factory=dict)
    open: dict[int, Transaction] = field(default_factory=dict)
    lsn: int = 100
    made: int = 0

    def tick(self) -> int:
        """The next LSN."""
        self.lsn += 10
        return self.lsn

    def insert(self, session: int, pick: int, values: Mapping[str, object]) -> None:
        """Insert a row with the picked key, if there is none."""
        id_ = self._new_id(pick)
        row = self._row(id_, values)
        if self._may_write(session, id_) and id_ not in self._visible(session):
            self._log(session, "c", after=row)
            self._write(session, {id_: row})

    def update(self, session: int, pick: int, values: Mapping[str, object]) -> None:
        """Set some columns of the picked row."""
        for id_, old in self._picked(session, pick):
            row = self._row(id_, {**old, **values})
            self._log(session, "u", before=old, after=row, unset=self._left(old, values))
            self._write(session, {id_: row})

    def change_key(self, session: int, pick: int, to: int, values: Mapping[str, object]) -> None:
        """Give the picked row another key. Large values that it leaves alone are not logged."""
        new = self.schema.keys[to % len(self.schema.keys)]
        for id_, old in self._picked(session, pick):
            if self._may_write(session, new) and new not in self._visible(session):
                row = self._row(new, {**old, **values})
                self._log(session, "u", before=old, after=row, unset=self._left(old, values))
                self._write(session, {id_: None, new: row})

    def delete(self, session: int, pick: int) -> None:
        """Delete the picked row."""
        for id_, old in self._picked(session, pick):
            self._log(session, "d", before=old)
            self._write(session, {id_: None})

    def truncate(self, session: int) -> None:
        """Empty the table, if nobody else has a transaction open."""
        if self.open.keys() <= {session}:
            self._log(session, "t")
            transaction = self._transaction(session)
            transaction.truncated = True
            transaction.written.clear()

    def commit(self, session: int, ts_ms: int) -> Commit | None:
        """Make the session's writes visible; None if it has no transaction."""
        if session not in self.open:
            return None
        self.rows = self._visible(session)
        done = self.open.pop(session)
        return Commit(done.xid, self.tick(), ts_ms, tuple(done.changes))

    def rollback(self, session: int) -> None:
        """Forget the session's writes."""
        self.open.pop(session, None)

    def _left(self, old: Row, values: Mapping[str, object]) -> frozenset[str]:
        left = self.schema.toasted - values.keys()
        return frozenset(name for name in left if str(old[name]).startswith(LARGE))

    def _picked(self, session: int, pick: int) -> Iterator[tuple[Key, Row]]:
        visible = self._visible(session)
        ids = self.schema.keys or sorted(visible)
        id_ = ids[pick % len(ids)] if ids else ()
        if id_ in visible and self._may_write(session, id_):
            yield id_, visible[id_]

    def _new_id(self, pick: int) -> Key:
        if self.schema.keys:
            return self.schema.keys[pick % len(self.schema.keys)]
        self.made += 1
        return (self.made,)

    def _row(self, id_: Key, values: Mapping[str, object]) -> Row:
        shape = self.schema.shape
        key = dict(zip(shape.key, id_, strict=True)) if shape.key else {}
        known = {**values, **key}
        return {name: known.get(name) for name in shape.columns}

    def _visible(self, session: int) -> dict[Key, Row]:
        mine = self.open.get(session)
        if mine is None:
            return dict(self.rows)
        rows = {} if mine.truncated else dict(self.rows)
        merged = rows | mine.written
        return {id_: row for id_, row in merged.items() if row is not None}

    def _may_write(self, session: int, id_: Key) -> bool:
        others = (other for number, other in self.open.items() if number != session)
        return not any(other.truncated or id_ in other.written for other in others)

    def _transaction(self, session: int) -> Transaction:
        if session not in self.open:
            self.open[session] = Transaction(self.tick())
        return self.open[session]

    def _log(
        self,
        session: int,
        op: Op,
        *,
        before: Row | None = None,
        after: Row | None = None,
        unset: frozenset[str] = frozenset(),
    ) -> None:
        transaction = self._transaction(session)
        transaction.changes.append(Logged(op, self.tick(), before, after, unset))

    def _write(self, session: int, rows: Mapping[Key, Row | None]) -> None:
        self._transaction(session).written.update(rows)
