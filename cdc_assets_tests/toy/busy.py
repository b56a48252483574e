"""Logs in which much happens, from a seed.

Hypothesis draws short logs, of which most statements find no row: good to find the smallest
log that a rule fails on, too thin to show that none does. Here each action is one that does
something, and sessions, keys and columns meet often.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from cdc_assets_tests.toy import cuts
from cdc_assets_tests.toy.actions import (
    Action,
    ChangeKey,
    Commit,
    Delete,
    Incremental,
    Insert,
    Log,
    RaisePartitions,
    Restart,
    Rollback,
    Snapshot,
    Toy,
    Truncate,
    Update,
)
from cdc_assets_tests.toy.connector import PLACEHOLDER, Connector, Settings
from cdc_assets_tests.toy.cuts import Merge, Step
from cdc_assets_tests.toy.source import COMPOSITE, KEYLESS, LARGE, SINGLE, Schema, wide

SESSIONS = 3
TEXTS = (f"{LARGE}1", f"{LARGE}2", f"{LARGE}3", "s", None)


def busy_log(
    seed: int,
    *,
    actions: int = 45,
    batches: int = 4,
    keyless: bool = False,
    moves: bool = False,
    columns: int | None = None,
    like: Log | None = None,
    whole: bool = False,
) -> Log:
    """A log of about two thirds as many records as actions; the same for the same seed.

    Args:
        seed: for everything.
        actions: how many.
        batches: how many at most.
        keyless: of a table without a key; it is not replayed.
        moves: changed keys leave large values alone or come as one event, and inserted texts
            may be equal to the placeholder.
        columns: of a wide table; most of them are left out by most updates.
        like: a log of the same table in the same topic.
        whole: each update has all values, as with ``REPLICA IDENTITY FULL``.
    """
    rng = random.Random(seed)
    schema = KEYLESS if keyless else rng.choice([SINGLE, COMPOSITE])
    schema = schema if columns is None else wide(columns)
    schema = replace(schema, toasted=frozenset()) if whole else schema
    settings = settings_of(rng, schema)
    if moves:
        settings = replace(settings, partial_moves=True)
        if rng.random() < 0.2:
            settings = replace(settings, partitions=1, split_keys=False)
    if like is not None:
        schema, settings = like.schema, like.settings
    toy = Toy(schema, settings)
    start = rng.randrange(10)
    done: list[Action] = []
    for number in range(actions):
        each = Snapshot() if number == start else next_action(rng, toy, streaming=number > start)
        if moves and isinstance(each, Insert):
            each = _with_placeholder(rng, each)
        toy.do(each)
        done.append(each)
    for session in sorted(toy.source.open):
        toy.do(Commit(session, rng.randrange(4)))
    return Log(
        schema=schema,
        settings=settings,
        actions=tuple(done),
        records=tuple(toy.log.records),
        ends=dict(toy.log.ends),
        rows=tuple(toy.source.rows.values()),
        steps=_steps(rng, toy.log, batches, replays=not keyless),
        rules=toy.log.rules,
    )


def _with_placeholder(rng: random.Random, insert: Insert) -> Insert:
    """A text that is the user's own, though it looks like the connector's."""
    texts = [name for name in insert.values if name != "n"]
    if rng.random() < 0.8:
        return insert
    return replace(insert, values={**insert.values, rng.choice(texts): PLACEHOLDER})


def next_action(rng: random.Random, toy: Toy, *, streaming: bool) -> Action:
    """One that does something; before the first snapshot only statements and commits."""
    keyed = bool(toy.source.schema.keys)
    happens: dict[Callable[[], Action], float] = {
        lambda: Restart(rng.randint(1, 12)): 5,
        lambda: Incremental(frozenset(rng.sample(range(4), 2))): 3 if keyed else 0,
        Snapshot: 1,
        RaisePartitions: 2,
    }
    if streaming and rng.random() < 0.12:
        kinds = list(happens)
        return rng.choices(kinds, [happens[each] for each in kinds])[0]()
    session = rng.randrange(SESSIONS)
    if toy.source.open and rng.random() < 0.35:
        return Commit(rng.choice(sorted(toy.source.open)), rng.randrange(4))
    if session in toy.source.open and rng.random() < 0.04:
        return Rollback(session)
    if not toy.source.open and rng.random() < 0.05:
        return Truncate(session)
    return _statement(rng, toy, session)


def _statement(rng: random.Random, toy: Toy, session: int) -> Action:
    """On a row that is there if there is one, else an insert."""
    source, keys = toy.source, toy.source.schema.keys
    there = [n for n, key in enumerate(keys) if key in source.rows] if keys else range(8)
    missing = [n for n, key in enumerate(keys) if key not in source.rows]
    if not source.rows or (rng.random() < 0.3 and (missing or not keys)):
        return Insert(session, rng.choice(missing or range(4)), _image(rng, source.schema))
    pick, roll = rng.choice(list(there)), rng.random()
    if roll < 0.2:
        return Delete(session, pick)
    if roll < 0.35 and missing:
        return ChangeKey(session, pick, rng.choice(missing), {"n": rng.randrange(3)})
    if roll < 0.75:
        return Update(session, pick, {"n": rng.randrange(3)})
    return Update(session, pick, _image(rng, source.schema))


def _image(rng: random.Random, schema: Schema) -> Mapping[str, object]:
    values: dict[str, Any] = {name: rng.choice(TEXTS) for name in schema.shape.columns}
    return {
        name: rng.choice([0, 1, 2, None]) if name == "n" else value
        for name, value in values.items()
        if name not in schema.shape.key
    }


def settings_of(rng: random.Random, schema: Schema) -> Settings:
    """Of a connector, at random."""
    keyed = bool(schema.keys)
    return Settings(
        partitions=rng.randint(1, 3),
        salt=rng.randrange(4),
        tombstones=rng.random() < 0.5 if keyed else True,
        delete_image=rng.choice(["full", "key", "none"]) if keyed else "full",
        commits_at_snapshot=rng.random() < 0.5 if keyed else True,
        full_images=not keyed,
    )


def _steps(rng: random.Random, log: Connector, batches: int, *, replays: bool) -> tuple[Step, ...]:
    vector: Mapping[int, int] = {}
    steps: list[Step] = []
    for _ in range(rng.randint(1, batches - 1)):
        vector = cuts.advanced(log, vector, [rng.randrange(101) for _ in range(4)])
        steps.append(Merge(vector))
        if replays and rng.random() < 0.6:
            shares = [(rng.randrange(101), rng.randrange(101)) for _ in range(4)]
            steps.append(cuts.earlier(vector, shares))
    steps.append(Merge(cuts.advanced(log, vector, [100] * 4)))
    if replays:
        steps.append(cuts.earlier(log.ends, [(0, 100)] * 4))
    return tuple(steps)
