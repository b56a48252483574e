"""What can happen to the toy, as data; and generated logs with their outcome."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, assert_never

from hypothesis import strategies as st

from cdc_assets_tests.model.change import Row, Shape
from cdc_assets_tests.toy import cuts
from cdc_assets_tests.toy.connector import Connector, ReadingRules, Record, Settings
from cdc_assets_tests.toy.cuts import Merge, Replay, Step
from cdc_assets_tests.toy.source import COMPOSITE, KEYLESS, LARGE, SINGLE, Schema, Source


@dataclass(frozen=True, slots=True)
class Insert:
    session: int
    pick: int
    values: Row


@dataclass(frozen=True, slots=True)
class Update:
    session: int
    pick: int
    values: Row


@dataclass(frozen=True, slots=True)
class ChangeKey:
    session: int
    pick: int
    to: int
    values: Row


@dataclass(frozen=True, slots=True)
class Delete:
    session: int
    pick: int


@dataclass(frozen=True, slots=True)
class Truncate:
    session: int


@dataclass(frozen=True, slots=True)
class Commit:
    session: int
    ts_ms: int


@dataclass(frozen=True, slots=True)
class Rollback:
    session: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A complete one: of a connector that starts, or starts anew."""


@dataclass(frozen=True, slots=True)
class Incremental:
    """Some rows; with ``read_only`` between watermarks that are not written."""

    picks: frozenset[int]
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class Restart:
    back: int


@dataclass(frozen=True, slots=True)
class RaisePartitions:
    pass


@dataclass(frozen=True, slots=True)
class Skip:
    partition: int


Statement: TypeAlias = Insert | Update | ChangeKey | Delete | Truncate | Commit | Rollback
Happening: TypeAlias = Snapshot | Incremental | Restart | RaisePartitions | Skip
Action: TypeAlias = Statement | Happening


class Toy:
    """A source, its connector and what happens to them."""

    def __init__(self, schema: Schema, settings: Settings) -> None:
        self.source = Source(schema)
        self.log = Connector(settings, schema.shape)

    def do(self, action: Action) -> None:
        """Do it, as far as it can be done now."""
        match action:
            case Snapshot():
                self._wait_for_truncates()
                self.log.snapshot(self.source)
            case Incremental(picks, read_only):
                self._wait_for_truncates()
                keys = [self.source.schema.keys[pick] for pick in sorted(picks)]
                if read_only:
                    self.log.read_only_incremental(self.source, keys)
                else:
                    self.log.incremental(self.source, keys)
            case Restart(back):
                self.log.restart(back)
            case RaisePartitions():
                self.log.raise_partitions()
            case Skip(partition):
                self.log.skip(partition)
            case _:
                self._execute(action)

    def _wait_for_truncates(self) -> None:
        """A truncate locks the table until its commit, and who reads it waits."""
        for session in [n for n, each in self.source.open.items() if each.truncated]:
            self.do(Commit(session, 1))

    def _execute(self, statement: Statement) -> None:
        source = self.source
        match statement:
            case Insert(session, pick, values):
                source.insert(session, pick, values)
            case Update(session, pick, values):
                source.update(session, pick, values)
            case ChangeKey(session, pick, to, values):
                source.change_key(session, pick, to, values)
            case Delete(session, pick):
                source.delete(session, pick)
            case Truncate(session):
                source.truncate(session)
            case Commit(session, ts_ms):
                if done := source.commit(session, ts_ms):
                    self.log.stream(done)
            case Rollback(session):
                source.rollback(session)
            case _:
                assert_never(statement)


# ── strategies ────────────────────────────────────────────────────────────────────────────

SESSION = st.integers(0, 2)
PICK = st.integers(0, 3)
TEXT = st.sampled_from([f"{LARGE}1", f"{LARGE}2", "s", None])
COLUMNS = {"n": st.sampled_from([0, 1, 2, None]), "note": TEXT, "memo": TEXT}


def image(schema: Schema) -> st.SearchStrategy[Row]:
    """All columns but the key's."""
    return st.fixed_dictionaries(_columns(schema))


def some_columns(schema: Schema) -> st.SearchStrategy[Row]:
    """Some of them; most often one that is never large."""
    small = st.fixed_dictionaries({"n": COLUMNS["n"]})
    return small | st.fixed_dictionaries({}, optional=_columns(schema))


def _columns(schema: Schema) -> dict[str, st.SearchStrategy[object]]:
    return {name: COLUMNS[name] for name in schema.shape.columns if name in COLUMNS}


def statements(schema: Schema) -> dict[type[Statement], st.SearchStrategy[Statement]]:
    """What a session can do, by kind."""
    some = some_columns(schema)
    return {
        Insert: st.builds(Insert, SESSION, PICK, image(schema)),
        Update: st.builds(Update, SESSION, PICK, some),
        **({ChangeKey: st.builds(ChangeKey, SESSION, PICK, PICK, some)} if schema.keys else {}),
        Delete: st.builds(Delete, SESSION, PICK),
        Truncate: st.builds(Truncate, SESSION),
        Commit: st.builds(Commit, SESSION, st.integers(0, 3)),
        Rollback: st.builds(Rollback, SESSION),
    }


def statement(schema: Schema) -> st.SearchStrategy[Statement]:
    """Any of them; those that most need each other come more often."""
    kinds = statements(schema)
    often = [kinds[each] for each in (Insert, Update, Update, Commit, Commit, Commit)]
    return st.one_of(*often, *kinds.values())


def happenings(schema: Schema) -> dict[type[Happening], st.SearchStrategy[Happening]]:
    """What can befall the connector, by kind."""
    picks = st.frozensets(PICK, min_size=1)
    return {
        Restart: st.builds(Restart, st.integers(1, 12)),
        RaisePartitions: st.builds(RaisePartitions),
        Skip: st.builds(Skip, PICK),
        Snapshot: st.builds(Snapshot),
        **({Incremental: st.builds(Incremental, picks, st.booleans())} if schema.keys else {}),
    }


def settings_of(schema: Schema) -> st.SearchStrategy[Settings]:
    """Connector settings.

    Without a key, records of one row lie in any partition. A change without a last commit then
    cannot be told from one before the snapshot, so that connector always knows a last commit.
    """
    if not schema.keys:
        return st.builds(
            Settings,
            partitions=st.integers(1, 3),
            salt=st.integers(0, 3),
            commits_at_snapshot=st.just(True),
            full_images=st.just(True),
        )
    split = st.fixed_dictionaries({"partitions": st.integers(1, 3), "split_keys": st.just(True)})
    joined = st.just({"partitions": 1, "split_keys": False})
    return st.builds(
        lambda keys, **rest: Settings(**keys, **rest),
        keys=split | split | joined,
        salt=st.integers(0, 3),
        tombstones=st.booleans(),
        delete_image=st.sampled_from(["full", "key", "none"]),
        commits_at_snapshot=st.booleans(),
        partial_moves=st.booleans(),
    )


KEYED_SCHEMAS = st.sampled_from([SINGLE, COMPOSITE])
SHARES = st.lists(st.integers(0, 100), min_size=4, max_size=4)
RANGES = st.lists(st.tuples(st.integers(0, 100), st.integers(0, 100)), min_size=4, max_size=4)


@dataclass(frozen=True)
class Log:
    """A log, ways to read it, and what it must come to.

    Attributes:
        records: in the order in which they were produced.
        settings: among them how many partitions the topic had at first.
        ends: next offset of each partition in the end.
        rows: of the source in the end.
        steps: batches and replays; the last batch reads to the end.
        rules: what other ways to read it must heed.
    """

    schema: Schema
    settings: Settings
    actions: tuple[Action, ...]
    records: tuple[Record, ...]
    ends: Mapping[int, int]
    rows: tuple[Row, ...]
    steps: tuple[Step, ...]
    rules: ReadingRules = field(default_factory=ReadingRules)

    @property
    def shape(self) -> Shape:
        return self.schema.shape

    def read(self, step: Step, vector: Mapping[int, int]) -> list[Record]:
        """What a step reads, if everything below the vector was read before."""
        match step:
            case Merge(to):
                return cuts.between(self.records, vector, to)
            case Replay():
                return cuts.again(self.records, step)
            case _:
                assert_never(step)

    def describe(self) -> str:
        """All of it, a line each, for a failure's message."""
        lines = [str(self.settings), *map(str, self.actions)]
        lines += [f"p{each.partition}@{each.offset} {each.event}" for each in self.records]
        lines += [*map(str, self.steps), *(f"row {row}" for row in self.rows)]
        return "\n".join(lines)


def logs(max_actions: int = 40) -> st.SearchStrategy[Log]:
    """Logs of tables with a key."""
    return KEYED_SCHEMAS.flatmap(lambda schema: _logs(schema, max_actions))


def keyless_logs(max_actions: int = 40) -> st.SearchStrategy[Log]:
    """Logs of tables without a key; their steps are batches only."""
    return _logs(KEYLESS, max_actions)


@st.composite
def _logs(draw: st.DrawFn, schema: Schema, max_actions: int) -> Log:
    settings = draw(settings_of(schema))
    toy = Toy(schema, settings)
    before, after = draw(_actions(schema, max_actions))
    for action in (*before, Snapshot(), *after):
        toy.do(action)
    return Log(
        schema=schema,
        settings=settings,
        actions=(*before, Snapshot(), *after),
        records=tuple(toy.log.records),
        ends=dict(toy.log.ends),
        rows=tuple(toy.source.rows.values()),
        steps=_steps(toy.log, draw(_cuts(schema))),
        rules=toy.log.rules,
    )


def _actions(schema: Schema, most: int) -> st.SearchStrategy[tuple[list[Statement], list[Action]]]:
    some = statement(schema)
    any_action = st.one_of(some, some, some, st.one_of(*happenings(schema).values()))
    return st.tuples(
        st.lists(some, min_size=4, max_size=10), st.lists(any_action, min_size=8, max_size=most)
    )


def _cuts(schema: Schema) -> st.SearchStrategy[list[tuple[list[int], list[cuts.Share]]]]:
    replayed = RANGES if schema.keys else st.just([])
    return st.lists(st.tuples(SHARES, replayed), min_size=1, max_size=4)


def _steps(log: Connector, drawn: list[tuple[list[int], list[cuts.Share]]]) -> tuple[Step, ...]:
    vector: Mapping[int, int] = {}
    steps: list[Step] = []
    for shares, ranges in [*drawn, ([100] * 4, [])]:
        vector = cuts.advanced(log, vector, shares)
        steps.append(Merge(vector))
        if ranges:
            steps.append(cuts.earlier(vector, ranges))
    return tuple(steps)
