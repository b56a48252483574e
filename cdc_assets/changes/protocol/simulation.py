"""One life: runs of one table under a plan of faults, until nothing fails any more and it is whole.

Everything that is left to chance comes from one seed, so that a life can be lived again.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from cdc_assets.changes.protocol.checks import (
    BrokenPromiseError,
    Checks,
    Definition,
    require_settled,
)
from cdc_assets.changes.protocol.effects import (
    Effect,
    EffectError,
    Fault,
    How,
    InterruptedAttemptError,
    Life,
    RefusedError,
    Then,
)
from cdc_assets.changes.protocol.keyed import Keyed
from cdc_assets.changes.protocol.keyless import Keyless
from cdc_assets.changes.protocol.merged import Rows
from cdc_assets.changes.protocol.plan import Kind, Order
from cdc_assets.changes.protocol.process import End, run
from cdc_assets.changes.protocol.rules import RIGHT, Protocol
from cdc_assets.changes.protocol.world import World

MOST_EFFECTS = 5000
MOST_RUNS = 8
"""Without faults; per fault four more, per part of the log one more."""


@dataclass(frozen=True, slots=True)
class Case:
    """A topic and what it must come to.

    Attributes:
        definition: of the tables that its prefixes make.
        source: rows in the end.
        points: numbers of records at which the log stands still for a while; the last is all.
    """

    definition: Definition
    source: Rows
    points: tuple[int, ...]


@dataclass(slots=True)
class _Process:
    """A run at work: the effect that it is about to have."""

    life: Life[End]
    next: Effect[object] | None = None
    end: End | None = None

    def go_on(self, error: Exception | None = None) -> None:
        """To its next effect, or its end."""
        try:
            self.next = next(self.life) if error is None else self.life.throw(error)
        except StopIteration as stop:
            self.next, self.end = None, stop.value


@dataclass(slots=True)
class Simulation:
    """A life.

    Attributes:
        case: what is merged.
        seed: of all that is left to chance.
        faults: what fails, and what comes next.
        protocol: the rules.
        done: names of the effects so far.
    """

    case: Case
    seed: int
    faults: Sequence[Fault] = ()
    protocol: Protocol = RIGHT
    done: list[str] = field(default_factory=list[str])
    world: World = field(init=False)
    _checks: Checks = field(init=False)
    _processes: list[_Process] = field(default_factory=list[_Process])
    _due: tuple[Fault, ...] = ()
    _runs: int = 0

    def __post_init__(self) -> None:
        definition = self.case.definition
        rules: Keyed | Keyless
        if definition.soft is None:
            rules = Keyless(self.protocol.repeats_by_event)
        else:
            rules = Keyed(definition.shape, definition.soft, self.protocol.whole_moves)
        chance = random.Random(self.seed)  # noqa: S311 - no secret, but a life to be lived again
        self.world = World(definition.topic, rules, definition.shape, chance)
        self.world.produced = self.case.points[0]
        self._checks = Checks(definition, self.protocol)
        self._due = tuple(self.faults)

    def live(self) -> None:
        """All of it.

        Raises:
            BrokenPromiseError: if something does not hold.
        """
        if not self._merge_all():
            self._require_reason_to_stop()
            return
        self._replay()
        while True:
            before = self._due, self.world.pending()
            self.world.is_mended = True
            if not (self._get_on(Order(Kind.QUARANTINE)) and self._merge_all()):
                self._require_reason_to_stop()
                return
            if before == (self._due, self.world.pending()):
                break  # nothing fails any more, and what is left was overtaken
        require_settled(self.world, self.case.definition, self.case.source)

    def _merge_all(self) -> bool:
        """Merge until the log is produced and merged; False if the table stops."""
        while self._get_on(Order()):
            if not self._grow():
                return True
        return False

    def _get_on(self, order: Order) -> bool:
        """Run until a run is done and nothing has failed in it; False if the table stops."""
        while True:
            due = self._due
            end = self._run_all(order)
            if end is End.STOPPED:
                return False
            if end is End.DONE and due == self._due:
                return True

    def _grow(self) -> bool:
        """More records; False if all are there."""
        later = [at for at in self.case.points if at > self.world.produced]
        if later:
            self.world.produced = later[0]
        return bool(later)

    def _replay(self) -> None:
        """What is merged twice publishes nothing; only without a key it is not tried."""
        table, due = self.world.table, self._due
        if not self.world.is_keyed or table is None:
            return
        before, is_mended = table.snapshots.main, self.world.is_mended
        if not self._get_on(self._some_range()):
            return
        if (due, is_mended) == (self._due, False) and before != table.snapshots.main:
            msg = "a replay changed something"
            raise BrokenPromiseError(msg)

    def _some_range(self) -> Order:
        low, high = sorted((self.world.chance.random(), self.world.chance.random()))
        return self.world.chance.choice([Order(Kind.REPLAY), Order(Kind.REPLAY, low, high)])

    def _require_reason_to_stop(self) -> None:
        topic = self.world.topic
        if not any(topic.splits(topic.marks(at).ends) for at in range(len(topic.records))):
            msg = "stopped, though nothing was cut"
            raise BrokenPromiseError(msg)

    # ── processes ────────────────────────────────────────────────────────────────────────

    def _run_all(self, order: Order) -> End:
        """A run, and whatever is started beside it; how the first one ends."""
        self._runs += 1
        most = MOST_RUNS + 4 * len(self.faults) + len(self.case.points)
        if self._runs > most:
            msg = f"does not get on in {most} runs: {self.done[-40:]}"
            raise BrokenPromiseError(msg)
        first = self._start(order)
        while self._processes:
            self._step(self.world.chance.choice(self._processes))
        return first.end or End.FAILED

    def _start(self, order: Order) -> _Process:
        process = _Process(run(self.world, self.protocol, order))
        self._processes.append(process)
        self._go_on(process)
        return process

    def _go_on(self, process: _Process, error: Exception | None = None) -> None:
        process.go_on(error)
        if process.next is None and process in self._processes:
            self._processes.remove(process)

    def _kill(self, process: _Process) -> None:
        if process in self._processes:
            self._processes.remove(process)

    def _step(self, process: _Process) -> None:
        """One effect, with the fault that is due at it."""
        due = process.next
        if due is None:
            return
        if len(self.done) > MOST_EFFECTS:
            msg = f"does not end: {self.done[-40:]}"
            raise BrokenPromiseError(msg)
        fault = self._fault(due.name)
        self.done.append(due.name)
        if fault is None:
            self._happen(process, due)
            return
        match fault.how:
            case How.PAUSE:
                self._then(fault.then, process)
                self._happen(process, due)
            case How.BEFORE:
                self._then(fault.then, process)
                self._fail(process, EffectError(due.name))
            case How.AFTER | How.LOST | How.DEATH:
                self._fail_after(process, due, fault)

    def _fail_after(self, process: _Process, due: Effect[object], fault: Fault) -> None:
        try:
            due.happen()
        except RefusedError as refused:
            self._go_on(process, refused)
            return
        self._checks.look(self.world)
        self._then(fault.then, process)
        if fault.how is How.DEATH:
            self._kill(process)
        elif fault.how is How.LOST:
            self._fail(process, EffectError(due.name))
        else:
            self._fail(process, InterruptedAttemptError(due.name))

    def _happen(self, process: _Process, due: Effect[object]) -> None:
        """Let it happen, unless the process was killed meanwhile."""
        if process not in self._processes:
            return
        error: RefusedError | None = None
        try:
            due.happen()
        except RefusedError as refused:
            error = refused
        self._checks.look(self.world)
        self._go_on(process, error)

    def _fail(self, process: _Process, error: Exception) -> None:
        if process in self._processes:
            self._go_on(process, error)

    def _fault(self, name: str) -> Fault | None:
        """The fault that is due at the effect that comes now."""
        found = next((each for each in self._due if each.at in {len(self.done), name}), None)
        if found is not None:
            self._due = tuple(each for each in self._due if each is not found)
        return found

    # ── what comes next ──────────────────────────────────────────────────────────────────

    def _then(self, then: Then, process: _Process) -> None:
        match then:
            case Then.RETRY:
                pass
            case Then.NEW_PROCESS:
                self._kill(process)
            case Then.COMPACT_TABLE | Then.COMPACT_SIDE | Then.ROLL_BACK | Then.LOG_GROWS:
                self._change_world(then)
            case Then.OTHER_WRITER | Then.OVERTAKEN | Then.REPLAY | Then.QUARANTINE:
                self._start_beside(then)
        self._checks.look(self.world, by_operator=then is Then.ROLL_BACK)

    def _change_world(self, then: Then) -> None:
        world = self.world
        if then is Then.COMPACT_TABLE and world.table is not None:
            world.table.snapshots.compact()
        elif then is Then.COMPACT_SIDE and world.side is not None:
            world.side.compact()
        elif then is Then.ROLL_BACK:
            self._roll_back()
        elif then is Then.LOG_GROWS:
            self._grow_to_next_partition()

    def _start_beside(self, then: Then) -> None:
        """A second run; which of the two has the next effect is chance, unless one overtakes."""
        if then is Then.OVERTAKEN:
            self._finish(self._start(Order()))
        elif then is Then.OTHER_WRITER:
            self._start(Order())
        elif then is Then.QUARANTINE:
            self.world.is_mended = True
            self._start(Order(Kind.QUARANTINE))
        elif self.world.is_keyed:
            self._start(self._some_range())

    def _finish(self, process: _Process) -> None:
        while process in self._processes:
            self._step(process)

    def _roll_back(self) -> None:
        """An operator sets ``main`` to a snapshot that was published."""
        if self.world.table is None:
            return
        snapshots = self.world.table.snapshots
        ancestry = list(snapshots.ancestry(snapshots.main))[1:]
        published = [each.id for each in ancestry if each.published is not None]
        if published:
            snapshots.main = self.world.chance.choice(published)

    def _grow_to_next_partition(self) -> None:
        raised = [at for at in self.world.topic.raised if at >= self.world.produced]
        while self._grow() and raised and self.world.produced <= raised[0]:
            continue


def plan_of(
    chance: random.Random, effects: int, most: int, thens: Iterable[Then] = tuple(Then)
) -> tuple[Fault, ...]:
    """Some faults, each at one of the first so many effects."""
    kinds, hows = list(thens), list(How)
    at = sorted(chance.sample(range(effects), chance.randint(0, most)))
    return tuple(Fault(each, chance.choice(hows), chance.choice(kinds)) for each in at)
