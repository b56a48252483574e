"""Simulates one life: runs of one table under planned faults, until nothing fails any more.

All chance comes from one seed, so that a life can be repeated.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from cdc_assets_tests.model.protocol.checks import (
    BrokenPromiseError,
    Checks,
    Definition,
    require_settled,
)
from cdc_assets_tests.model.protocol.effects import Fault, How, Then
from cdc_assets_tests.model.protocol.keyed import Keyed
from cdc_assets_tests.model.protocol.keyless import Keyless
from cdc_assets_tests.model.protocol.merged import Rows
from cdc_assets_tests.model.protocol.plan import Kind, Order
from cdc_assets_tests.model.protocol.process import End
from cdc_assets_tests.model.protocol.rules import RIGHT, Protocol
from cdc_assets_tests.model.protocol.stage import Stage
from cdc_assets_tests.model.protocol.world import World

MOST_RUNS = 8
"""The most runs without faults; each fault allows four more, each part of the log one more."""


@dataclass(frozen=True, slots=True)
class Case:
    """A topic and its expected result.

    Attributes:
        definition: of the tables that its prefixes make.
        source: the rows in the end.
        points: numbers of records at which the log pauses; the last is all of them.
    """

    definition: Definition
    source: Rows
    points: tuple[int, ...]


@dataclass(slots=True)
class Simulation:
    """One life.

    Attributes:
        case: the topic to merge.
        seed: of all chance.
        faults: the faults, each with its next event.
        protocol: the rules.
        world: the state of everything outside the processes.
    """

    case: Case
    seed: int
    faults: Sequence[Fault] = ()
    protocol: Protocol = RIGHT
    world: World = field(init=False)
    _stage: Stage = field(init=False)
    _runs: int = 0

    def __post_init__(self) -> None:
        definition = self.case.definition
        rules: Keyed | Keyless
        if definition.soft is None:
            rules = Keyless(self.protocol.repeats_by_event)
        else:
            rules = Keyed(definition.shape, definition.soft, self.protocol.whole_moves)
        chance = random.Random(self.seed)
        self.world = World(definition.topic, rules, definition.shape, chance)
        self.world.produced = self.case.points[0]
        checks, points = Checks(definition, self.protocol), self.case.points
        self._stage = Stage(self.world, self.protocol, checks, points, tuple(self.faults))

    @property
    def done(self) -> list[str]:
        """Names of the effects so far."""
        return self._stage.done

    def live(self) -> None:
        """Lives the whole life.

        Raises:
            BrokenPromiseError: if a promise does not hold.
        """
        if not self._merge_all():
            self._require_reason_to_stop()
            return
        self._replay()
        while True:
            before = self._stage.due, self.world.pending()
            self.world.is_mended = True
            if not (self._get_on(Order(Kind.QUARANTINE)) and self._merge_all()):
                self._require_reason_to_stop()
                return
            if before == (self._stage.due, self.world.pending()):
                break  # nothing fails any more, and the rest was overtaken
        require_settled(self.world, self.case.definition, self.case.source)

    def _merge_all(self) -> bool:
        """Merges until the log is produced and merged; False if the table stops."""
        while self._get_on(Order()):
            if not self._stage.grow():
                return True
        return False

    def _get_on(self, order: Order) -> bool:
        """Runs until a run is done without a fault; False if the table stops."""
        while True:
            due = self._stage.due
            end = self._run(order)
            if end is End.STOPPED:
                return False
            if end is End.DONE and due == self._stage.due:
                return True

    def _replay(self) -> None:
        """Replays a range, which must publish nothing; not tried without a key."""
        table, due = self.world.table, self._stage.due
        if not self.world.is_keyed or table is None:
            return
        before, is_mended = table.snapshots.main, self.world.is_mended
        if not self._get_on(self._stage.some_range()):
            return
        if (due, is_mended) == (self._stage.due, False) and before != table.snapshots.main:
            msg = "a replay changed something"
            raise BrokenPromiseError(msg)

    def _require_reason_to_stop(self) -> None:
        topic = self.world.topic
        if not any(topic.splits(topic.marks(at).ends) for at in range(len(topic.records))):
            msg = "stopped, though nothing was cut"
            raise BrokenPromiseError(msg)

    def _run(self, order: Order) -> End:
        self._runs += 1
        most = MOST_RUNS + 4 * len(self.faults) + len(self.case.points)
        if self._runs > most:
            msg = f"does not get on in {most} runs: {self.done[-40:]}"
            raise BrokenPromiseError(msg)
        return self._stage.run(order)


def plan_of(
    chance: random.Random, effects: int, most: int, thens: Iterable[Then] = tuple(Then)
) -> tuple[Fault, ...]:
    """Draws some faults, each at one of the first ``effects`` effects."""
    kinds, hows = list(thens), list(How)
    at = sorted(chance.sample(range(effects), chance.randint(0, most)))
    return tuple(Fault(each, chance.choice(hows), chance.choice(kinds)) for each in at)
