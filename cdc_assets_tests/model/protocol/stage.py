"""Runs processes side by side, one effect at a time, with the faults that happen to them."""

from __future__ import annotations

from dataclasses import dataclass, field

from cdc_assets_tests.model.protocol.checks import BrokenPromiseError, Checks
from cdc_assets_tests.model.protocol.effects import (
    Effect,
    EffectError,
    Fault,
    How,
    InterruptedAttemptError,
    Life,
    RefusedError,
    Then,
)
from cdc_assets_tests.model.protocol.plan import Kind, Order
from cdc_assets_tests.model.protocol.process import End, run
from cdc_assets_tests.model.protocol.rules import Protocol
from cdc_assets_tests.model.protocol.world import World

MOST_EFFECTS = 5000


@dataclass(slots=True)
class _Process:
    """A run in progress, with its next effect."""

    life: Life[End]
    next: Effect[object] | None = None
    end: End | None = None

    def go_on(self, error: Exception | None = None) -> None:
        """Advances to its next effect, or its end."""
        try:
            self.next = next(self.life) if error is None else self.life.throw(error)
        except StopIteration as stop:
            self.next, self.end = None, stop.value


@dataclass(slots=True)
class Stage:
    """The place where runs have their effects.

    Attributes:
        world: outside the processes.
        protocol: the rules.
        checks: applied to the world after each effect.
        points: numbers of records at which the log pauses.
        due: faults that have not happened yet.
        done: names of the effects so far.
    """

    world: World
    protocol: Protocol
    checks: Checks
    points: tuple[int, ...]
    due: tuple[Fault, ...]
    done: list[str] = field(default_factory=list[str])
    _processes: list[_Process] = field(default_factory=list[_Process])

    def run(self, order: Order) -> End:
        """Executes a run and everything started beside it; returns how the first run ends."""
        first = self._start(order)
        while self._processes:
            self._step(self.world.chance.choice(self._processes))
        return first.end or End.FAILED

    def grow(self) -> bool:
        """Produces more records; False if all are there."""
        later = [at for at in self.points if at > self.world.produced]
        if later:
            self.world.produced = later[0]
        return bool(later)

    def some_range(self) -> Order:
        """Returns a part of what was merged, or all of it."""
        chance = self.world.chance
        low, high = sorted((chance.random(), chance.random()))
        return chance.choice([Order(Kind.REPLAY), Order(Kind.REPLAY, low, high)])

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
        """Takes one effect, with the fault that is due at it."""
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
        self.checks.look(self.world)
        self._then(fault.then, process)
        if fault.how is How.DEATH:
            self._kill(process)
        elif fault.how is How.LOST:
            self._fail(process, EffectError(due.name))
        else:
            self._fail(process, InterruptedAttemptError(due.name))

    def _happen(self, process: _Process, due: Effect[object]) -> None:
        """Lets the effect happen, unless the process was killed meanwhile."""
        if process not in self._processes:
            return
        error: RefusedError | None = None
        try:
            due.happen()
        except RefusedError as refused:
            error = refused
        self.checks.look(self.world)
        self._go_on(process, error)

    def _fail(self, process: _Process, error: Exception) -> None:
        if process in self._processes:
            self._go_on(process, error)

    def _fault(self, name: str) -> Fault | None:
        """Returns the fault that is due at the next effect."""
        found = next((each for each in self.due if each.at in {len(self.done), name}), None)
        if found is not None:
            self.due = tuple(each for each in self.due if each is not found)
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
        self.checks.look(self.world, by_operator=then is Then.ROLL_BACK)

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
        """Starts a second run; chance decides which has the next effect, unless one overtakes."""
        if then is Then.OVERTAKEN:
            self._finish(self._start(Order()))
        elif then is Then.OTHER_WRITER:
            self._start(Order())
        elif then is Then.QUARANTINE:
            self.world.is_mended = True
            self._start(Order(Kind.QUARANTINE))
        elif self.world.is_keyed:
            self._start(self.some_range())

    def _finish(self, process: _Process) -> None:
        while process in self._processes:
            self._step(process)

    def _roll_back(self) -> None:
        """Sets ``main`` to a published snapshot, as an operator would."""
        if self.world.table is None:
            return
        snapshots = self.world.table.snapshots
        ancestry = list(snapshots.ancestry(snapshots.main))[1:]
        published = [each.id for each in ancestry if each.published is not None]
        if published:
            snapshots.main = self.world.chance.choice(published)

    def _grow_to_next_partition(self) -> None:
        raised = [at for at in self.world.topic.raised if at >= self.world.produced]
        while self.grow() and raised and self.world.produced <= raised[0]:
            continue
