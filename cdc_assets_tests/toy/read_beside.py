"""A source whose rows are read one by one while it changes, and the log that goes with them."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace

from cdc_assets_tests.model.change import Key, Row, Shape
from cdc_assets_tests.toy import cuts
from cdc_assets_tests.toy.actions import Commit, Snapshot, Toy
from cdc_assets_tests.toy.busy import next_action, settings_of
from cdc_assets_tests.toy.connector import Record
from cdc_assets_tests.toy.cuts import Vector
from cdc_assets_tests.toy.source import COMPOSITE, SINGLE


@dataclass(frozen=True, slots=True)
class Reading:
    """What came of it.

    Attributes:
        shape: of the table.
        records: of the topic.
        begin: how far the old table had merged them when it was looked at.
        read: the rows, each as of a moment of its own; those that were not there are left out.
        until: the topic's ends once all of them had been read.
        batches: where batches from the beginning on end; the last one takes all.
        rows: of the source, in the end.
    """

    shape: Shape
    records: tuple[Record, ...]
    begin: Vector
    read: Mapping[Key, Row]
    until: Vector
    batches: tuple[Vector, ...]
    rows: Mapping[Key, Row]


def reading(seed: int, *, moves: bool = False) -> Reading:
    """The same for the same seed.

    Args:
        seed: for everything.
        moves: changed keys leave large values alone.
    """
    rng = random.Random(seed)
    schema = rng.choice([SINGLE, COMPOSITE])
    toy = Toy(schema, replace(settings_of(rng, schema), partial_moves=moves))

    def act(count: int) -> None:
        for _ in range(count):
            toy.do(next_action(rng, toy, streaming=True))

    toy.do(Snapshot())
    act(rng.randrange(25))
    begin = cuts.advanced(toy.log, {}, [rng.randrange(101) for _ in range(4)])
    were_open = {session: each.xid for session, each in toy.source.open.items()}
    act(rng.randrange(6))
    for session, xid in were_open.items():  # is waited for
        if session in toy.source.open and toy.source.open[session].xid == xid:
            toy.do(Commit(session, rng.randrange(4)))
    read: dict[Key, Row] = {}
    for key in schema.keys:
        act(rng.randrange(6))
        if key in toy.source.rows:
            read[key] = toy.source.rows[key]
    act(rng.randrange(4))
    until = dict(toy.log.ends)
    act(rng.randrange(15))
    for session in sorted(toy.source.open):
        toy.do(Commit(session, rng.randrange(4)))
    batches: list[Vector] = []
    vector = begin
    for _ in range(rng.randint(1, 6)):
        vector = cuts.advanced(toy.log, vector, [rng.randrange(101) for _ in range(4)])
        batches.append(vector)
    return Reading(
        schema.shape,
        tuple(toy.log.records),
        begin,
        read,
        until,
        (*batches, dict(toy.log.ends)),
        dict(toy.source.rows),
    )
