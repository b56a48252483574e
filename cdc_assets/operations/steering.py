"""Defines the operations `pause` and `resume`, and the shape that `drop` and `reset` share.

Pausing and resuming store and remove directives, which mergers obey. Neither operation touches the
lake, Kafka or a run. A paused table keeps its place: its offsets are those of its newest publish,
and it continues from there.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeVar

from pydantic import Field

from cdc_assets.desired import Directive, DirectiveNote, Removal
from cdc_assets.errors import CdcError
from cdc_assets.operate.failures import Failure
from cdc_assets.operations.operation import (
    Job,
    Observation,
    Operation,
    Progress,
    Report,
    Results,
)
from cdc_assets.operations.options import AnyTables, Cli, Options, Planned
from cdc_assets.operations.session import TableSession
from cdc_assets.registry import TableEntry

MODE: Final = "steering"
"""`cdc/mode` of these operations' runs: a person started them, so housekeeping keeps them."""


class Reasoned(Options):
    """Options with a reason."""

    why: str = Field(default="", description="Reason, shown with the table's state.")


class PauseOptions(AnyTables, Reasoned, Planned):
    """The options of `pause`."""


class ResumeOptions(AnyTables, Planned):
    """The options of `resume`."""

    why: Annotated[str, Cli(always="")] = Field(default="", description="Not used.")


@dataclass(frozen=True, slots=True)
class DirectivePlan:
    """The effect of a directive on one table.

    Attributes:
        entry: the table.
        words: the result, for people.
        would: the same for a dry run.
        changes: whether there is anything to do.
    """

    entry: TableEntry
    words: str
    would: str
    changes: bool

    def lines(self) -> Sequence[str]:
        """Returns the plan for people."""
        return [f"{self.entry.table}: {self.would}"]

    def to_dict(self) -> dict[str, Any]:
        """Returns the plan for ``--json``."""
        return {"table": str(self.entry.table), "changed": self.changes, "did": self.would}

    def report(self) -> Report:
        """Returns the report on a plan that was carried out."""
        document, line = {**self.to_dict(), "did": self.words}, f"{self.entry.table}: {self.words}"
        observed = (Observation(self.entry, self.words),) if self.changes else ()
        return Report(document, (line,), observations=observed)


D = TypeVar("D", bound=Options)
E = TypeVar("E", bound=DirectivePlan)


class DirectiveOperation(Operation[D, E]):
    """An operation that stores or removes a table's directives."""

    is_observed = False

    def steps(self, session: TableSession, options: D, plan: E) -> Iterator[Progress | Report]:
        """Carries the plan out, unless there is nothing to do."""
        if plan.changes:
            yield from self.changed(session, options, plan)
        yield plan.report()

    @abstractmethod
    def changed(self, session: TableSession, options: D, plan: E) -> Iterator[Progress]:
        """Carries the plan out.

        Raises:
            CdcError: if a step fails; the steps before it stay done.
        """

    def document(self, options: D, results: Results) -> Mapping[str, Any]:
        """Returns the results of all tables, with the command's name."""
        return {
            "command": self.name,
            "dry_run": options.is_dry_run,
            "tables": [dict(each.document) for each in results.reports.values()],
            "failed": dict(results.failed),
        }


class Pause(DirectiveOperation[PauseOptions, DirectivePlan]):
    """Pause tables until they are resumed.

    Offsets and rows stay as they are. A run leaves a paused table before its next batch.
    """

    name = "pause"
    options = PauseOptions
    job = Job("pause_tables", "pause", MODE, "Pause tables: merge nothing into them.")

    def plan(self, session: TableSession, options: PauseOptions) -> DirectivePlan:
        """Reads whether the table is held already."""
        entry, stored = session.entry, session.services.desired.of(session.entry.table)
        if stored.paused is not None:
            return unchanged(entry, f"is paused already, {stored.paused.words()}")
        if stored.held is not None:
            return unchanged(entry, "is dropped, or being reset, already")
        words = "paused: no run is started for it; one that has it lets it go before its next batch"
        return DirectivePlan(entry, words, f"would be {words}", changes=True)

    def changed(
        self, session: TableSession, options: PauseOptions, plan: DirectivePlan
    ) -> Iterator[Progress]:
        """Stores the directive."""
        by = session.host.author(f"cdc-assets {self.name}")
        wanted = DirectiveNote(session.clock(), by, options.why)
        session.services.desired.put(plan.entry.table, Directive.PAUSED, wanted)
        yield from ()


@dataclass(frozen=True, slots=True)
class ResumePlan(DirectivePlan):
    """The effect of `resume` on one table.

    Attributes:
        directives: to be removed.
        has_failed: whether a failure is to be cleared.
    """

    directives: tuple[Directive, ...] = ()
    has_failed: bool = False


class Resume(DirectiveOperation[ResumeOptions, ResumePlan]):
    """Continue tables that are paused or dropped, or that have stopped after failures.

    Failures are cleared, so that failing tables are retried immediately.
    """

    name = "resume"
    options = ResumeOptions
    job = Job("resume_tables", "resume", MODE, "Continue paused or stopped tables.")

    def plan(self, session: TableSession, options: ResumeOptions) -> ResumePlan:
        """Finds what holds the table up.

        Raises:
            CdcError: if some of the table may have been removed.
        """
        entry, stored = session.entry, session.services.desired.of(session.entry.table)
        for command, wanted in (("drop --lake", stored.dropped), ("reset", stored.reset)):
            if wanted is not None and wanted.removal is Removal.BEGUN:
                what = f"{command} has begun, and some of the table may be gone already"
                raise CdcError(what, remedy=f"cdc-assets {command} --table {entry.table} ends it")
        failure = session.services.failures.load_one(entry.table)
        failure = None if failure is None or failure.is_waiting else failure
        found = {
            directive: stored.get(directive)
            for directive in (Directive.DROPPED, Directive.PAUSED, Directive.RESET)
        }
        held = {directive: wanted for directive, wanted in found.items() if wanted is not None}
        parts = [
            f"resumed: it was {directive.value} {held[directive].words()}" for directive in held
        ]
        parts += [_tried_again(failure)] if failure else []
        words = "; ".join(parts) or "is neither paused nor dropped, nor fails"
        would = f"would be {words}" if parts else words
        return ResumePlan(entry, words, would, bool(parts), tuple(held), failure is not None)

    def changed(
        self, session: TableSession, options: ResumeOptions, plan: ResumePlan
    ) -> Iterator[Progress]:
        """Clears the failure, and removes the directives."""
        if plan.has_failed:
            session.services.failures.clear(plan.entry.table)
        for each in plan.directives:
            session.services.desired.remove(plan.entry.table, each)
        yield from ()


def unchanged(entry: TableEntry, words: str) -> DirectivePlan:
    """Returns the plan for a table that needs nothing."""
    return DirectivePlan(entry, words, words, changes=False)


def _tried_again(failure: Failure) -> str:
    was = "had stopped" if failure.stopped else "fails"
    return f"is tried again at once: it {was}, {failure.attempts} attempts"


PAUSE: Final = Pause()
RESUME: Final = Resume()
