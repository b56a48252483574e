"""Defines the operation `adopt`."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from pydantic import Field

from cdc_assets.changes.names import LakeName, TableName
from cdc_assets.errors import ConfigError, ConflictError, TerminalError
from cdc_assets.operations.operation import (
    Job,
    Observation,
    Operation,
    Progress,
    Report,
    Results,
)
from cdc_assets.operations.options import OneTable, Planned
from cdc_assets.operations.session import TableSession

if TYPE_CHECKING:
    from cdc_assets.operations.adopt.existing import AdoptionStanding, ExistingTable
    from cdc_assets.operations.adopt.fit import Fit

TRIES: Final = 20
"""The number of times that other runs may publish first in the end."""


class AdoptOptions(OneTable, Planned):
    """The options of an adoption."""

    existing: str = Field(description="The other tool's table: namespace.name")
    replace_duplicates: bool = Field(
        default=False,
        description="Replace all rows of a repeated key by the source's row.",
    )
    verify: bool = Field(default=True, description="Compare the table with its source at the end.")

    @property
    def found(self) -> LakeName:
        """The name of the other tool's table.

        Raises:
            ConfigError: if it is not the name of a table in a namespace of one level.
        """
        namespace, _, name = self.existing.rpartition(".")
        if not namespace or not name or "." in namespace:
            what = f"{self.existing!r} names no table in a namespace of one level"
            raise ConfigError(what, remedy="write --existing namespace.name")
        return LakeName(namespace, name)


@dataclass(frozen=True, slots=True)
class AdoptionOutcome:
    """The outcome of an adoption.

    Attributes:
        table, lake_table, existing: the table, its lake table, and the name of that before.
        is_done: whether the table is like any other now.
        changes: what was changed of its description.
        extra: its columns that the source does not have.
        rows: the number of keys whose rows were put, or removed.
        records: the number of the log's records that were merged.
        equal: whether the table is equal to its source; None if it was not compared.
        said: the last message.
    """

    table: TableName
    lake_table: LakeName
    existing: LakeName
    is_done: bool = False
    changes: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    rows: int = 0
    records: int = 0
    equal: bool | None = None
    said: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Returns the outcome for ``--json``."""
        names = {"table": self.table, "lake_table": self.lake_table, "existing": self.existing}
        return {**asdict(self), **{name: str(each) for name, each in names.items()}}


@dataclass(frozen=True, slots=True)
class AdoptionPlan:
    """The plan of an adoption.

    Attributes:
        existing: the other tool's table.
        standing: the progress, as it was looked at.
        fit: how the table fits its source.
        outcome: with the names, and what would be done.
    """

    existing: ExistingTable
    standing: AdoptionStanding
    fit: Fit
    outcome: AdoptionOutcome

    def lines(self) -> Sequence[str]:
        """Returns the plan for people."""
        table, extra = self.outcome.table, ", ".join(self.fit.extra)
        changes = [f"{table}: would {each}" for each in self.outcome.changes]
        kept = [f"{table}: columns that stay, and are empty in rows that change: {extra}"]
        return [*changes, *(kept if extra else []), f"{table}: {self.outcome.said}"]

    def to_dict(self) -> dict[str, Any]:
        """Returns the plan for ``--json``, in the form of an outcome."""
        return self.outcome.to_dict()


class Adopt(Operation[AdoptOptions, AdoptionPlan]):
    """Take over an Iceberg table that another tool made, as the lake table of TABLE.

    Stop the other tool first. The table keeps its files, history and partitions, and gets the
    columns of cdc_assets. Rows that differ from the source are replaced; then the log is merged
    from an earlier position. Can be interrupted and rerun.
    """

    name = "adopt"
    options = AdoptOptions
    is_observed = False
    job = Job(
        "adopt_table", "adopt", "adopt",
        "Takes over an Iceberg table that another tool made (`existing`: namespace.name): keeps "
        "its files, puts right the rows that differ from the source's, and continues from the log. "
        "Stop the other tool first. `dry_run` says what would be done, and what does not fit. May "
        "be cancelled and started again: it continues where it was.",
    )  # fmt: skip

    def check(self, options: AdoptOptions) -> None:
        """Refuses a name that is no table's."""
        _ = options.found

    def plan(self, session: TableSession, options: AdoptOptions) -> AdoptionPlan:
        """Looks how far an earlier run has come, and whether the table fits.

        Raises:
            TerminalError: if it does not; the error names everything that does not fit.
        """
        from cdc_assets.operations.adopt.existing import ExistingTable, require_fitting

        existing = ExistingTable(session, options.found)
        standing = existing.standing()
        fit = existing.fit(standing)
        names = (session.entry.table, session.entry.target, options.found)
        outcome = AdoptionOutcome(*names, extra=fit.extra)
        if standing.is_done:
            outcome = replace(outcome, is_done=True, said="it was adopted already")
            return AdoptionPlan(existing, standing, fit, outcome)
        require_fitting(fit, session.where)
        rows = existing.estimate(fit)
        if standing.progress is None:
            _require_clear(existing.ambiguous(standing, fit), options, session.where)
        changes = (*_first_changes(standing, existing), *(e.words for e in fit.changes))
        intention = (
            f"would compare {standing.name} with about {rows:,} rows of the source, put right what "
            f"differs, and merge the log into it as {session.entry.target}"
        )
        continued = intention.replace("would", "would continue to", 1)
        said = continued if standing.is_noted else intention
        return AdoptionPlan(existing, standing, fit, replace(outcome, changes=changes, said=said))

    def steps(
        self, session: TableSession, options: AdoptOptions, plan: AdoptionPlan
    ) -> Iterator[Progress | Report]:
        """Carries the adoption out, and compares the table with its source."""
        outcome = plan.outcome
        if not plan.standing.is_done:
            outcome = yield from _AdoptionSteps(session, plan).carried_out()
            session.services.failures.clear(session.entry.table)
        if options.verify:
            outcome = yield from _compared(session, outcome)
        text = f"adopted {outcome.existing}: {outcome.rows:,} rows put right"
        observed = () if plan.standing.is_done else (Observation(session.entry, text),)
        failure = "" if outcome.is_done else outcome.said
        yield Report(outcome.to_dict(), failure=failure, observations=observed)

    def document(self, options: AdoptOptions, results: Results) -> Mapping[str, Any]:
        """Returns the outcome."""
        (report,) = results.reports.values()
        return report.document


Ending = Generator[Progress, None, AdoptionOutcome]
"""Yields progress, and returns the outcome."""


def _first_changes(standing: AdoptionStanding, existing: ExistingTable) -> Iterator[str]:
    """Yields what is done before columns are changed."""
    target = existing.session.entry.target
    if standing.name != target:
        yield f"rename {standing.name} to {target}"
    if count := existing.equality_deletes(standing.name):
        yield f"rewrite the files that {count} files of equality deletes concern"


def _require_clear(ambiguous: tuple[int, int], options: AdoptOptions, where: str) -> None:
    """Requires that each row has a key, and each key one row.

    Raises:
        TerminalError: if some do not.
    """
    twice, keyless = ambiguous
    if keyless:
        what = f"{keyless:,} rows of the table have NULL in a column of the key"
        raise TerminalError(what, where=where, remedy="delete them by SQL; the source has none")
    if twice and not options.replace_duplicates:
        what = (
            f"{twice:,} keys have more than one row in the table: it may be a log of changes, and "
            "not a mirror"
        )
        remedy = "replicate the table into a new one; or, if they are few, --replace-duplicates"
        raise TerminalError(what, where=where, remedy=remedy)


def _compared(session: TableSession, outcome: AdoptionOutcome) -> Ending:
    """Compares the table with its source."""
    table = session.entry.table
    check = session.host.check_source(session.entry, lambda words: session.say(f"{table}: {words}"))
    if check is None:
        return outcome
    yield Progress(f"{table}: {check.text}")
    return replace(outcome, equal=check.is_equal, is_done=check.is_equal, said=check.text)


class _AdoptionSteps:
    """The steps of a plan, and the counts so far."""

    def __init__(self, session: TableSession, plan: AdoptionPlan) -> None:
        from cdc_assets.operations.adopt.table_adoption import TableAdoption

        self._session, self._plan = session, plan
        self._adoption = TableAdoption(session, plan.existing)
        self._changes, self._records = list[str](), 0

    def carried_out(self) -> Ending:
        adoption, target = self._adoption, self._session.entry.target
        with self._session.lease.hold():
            adoption.note(self._plan.standing)
            if adoption.rename(self._plan.standing):
                yield self._done(f"renamed {self._plan.standing.name} to {target}")
            for words in adoption.change():
                yield self._done(words)
            adoption.begin()
            for words in adoption.compare():
                yield self._progress(words)
        settled = 0
        for _ in range(TRIES):
            yield from self._merged()
            try:
                before, settled = settled, adoption.settle_doubts(settled)
                if settled != before:  # a comparison takes its time
                    yield from self._merged()
                with self._session.lease.hold():
                    yield from self._merged()
                    rows = adoption.end(settled)
            except ConflictError as error:
                yield self._progress(f"{error.what}: once more")
                continue
            if rows is not None:
                said = f"{target} is the table's lake table now"
                yield self._progress(said)
                return replace(
                    self._plan.outcome, is_done=True, changes=tuple(self._changes), rows=rows,
                    records=self._records, said=said,
                )  # fmt: skip
        what = "other runs kept publishing while the adoption was ended"
        raise ConflictError(what, where=self._session.where, remedy="run the same command again")

    def _merged(self) -> Iterator[Progress]:
        for batch in self._adoption.merge():
            self._records += batch.records
            yield self._progress(
                f"merged {batch.records} records {' '.join(map(str, batch.ranges))}"
            )

    def _done(self, words: str) -> Progress:
        self._changes.append(words)
        return self._progress(words)

    def _progress(self, words: str) -> Progress:
        return Progress(f"{self._session.entry.table}: {words}")


ADOPT: Final = Adopt()
