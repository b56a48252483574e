"""Defines the operation `rebuild`."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import Enum, auto
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import Field

from cdc_assets.changes.names import TableName
from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.errors import ConfigError, ConflictError, LostRangeError, TerminalError
from cdc_assets.operate import rebuilds
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
    from cdc_assets.operations.rebuild.shadow_rows import ShadowFromSignal, ShadowFromSource
    from cdc_assets.operations.rebuild.table_rebuild import TableRebuild
    from cdc_assets.operations.rebuild.tables import RebuildStanding

TRIES: Final = 20
"""The number of times that the lake table may get ahead while the shadow table is swapped in."""
NEAR_SECONDS: Final = 20.0
"""The rest of the log is short if it takes less time to merge: others may wait for so long."""


class RebuildOptions(OneTable, Planned):
    """The options of a rebuild."""

    from_source: bool = Field(
        default=False,
        description="Read the rows from the database with Spark, and merge the log over them. "
        "For logs that have lost changes.",
    )
    from_snapshot: bool = Field(
        default=False,
        description="Begin at the end of the log, and wait for a new connector snapshot.",
    )
    via: Literal["hand", "signal"] = Field(
        default="hand",
        description="Start of that snapshot: by an operator (hand) or by this command (signal).",
    )
    snapshot_done: bool = Field(default=False, description="The connector's snapshot is complete.")
    abandon: bool = Field(default=False, description="Drop the shadow table.")
    forget: bool = Field(
        default=False,
        description="Delete the tags before_rebuild_*, so that their snapshots can expire.",
    )
    verify: bool = Field(
        default=True,
        description="Compare the table with its database at the end.",
    )


class RebuildAction(Enum):
    """The action of a rebuild's command on a table."""

    FORGET = auto()
    """Drop the tags of earlier rebuilds."""
    ABANDON = auto()
    """Drop the shadow table."""
    TIDY = auto()
    """Drop the shadow table that was swapped in."""
    BUILD = auto()
    """Build the shadow table, or continue with it, and swap it in."""


@dataclass(frozen=True, slots=True)
class RebuildOutcome:
    """The outcome of a rebuild.

    Attributes:
        table: the table.
        is_done: whether the goal is reached; not if a snapshot is awaited, or the table differs
            from its source.
        swapped: whether the shadow table was swapped in.
        kept: the tag of the old rows; empty if there is none.
        rows, waves: read from the source, those of earlier tries included; rows also of a snapshot
            by a signal.
        records: the number of the log's records that were merged.
        equal: whether the table is equal to its source; None if it was not compared.
        said: the last message.
    """

    table: TableName
    is_done: bool = False
    swapped: bool = False
    kept: str = ""
    rows: int = 0
    waves: int = 0
    records: int = 0
    equal: bool | None = None
    said: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Returns the outcome for ``--json``."""
        return {**asdict(self), "table": str(self.table)}


@dataclass(frozen=True)
class RebuildPlan:
    """The plan of a rebuild. Its words are made when they are first asked for.

    Attributes:
        session: the means, and the table.
        options: as they were given.
        action: the action.
        rebuild: carries the steps out.
        standing: the progress, as it was looked at; None to drop tags.
    """

    session: TableSession
    options: RebuildOptions
    action: RebuildAction
    rebuild: TableRebuild
    standing: RebuildStanding | None = None

    def lines(self) -> Sequence[str]:
        """Returns the plan for people."""
        return [f"{self.options.table}: {self.words}"]

    def to_dict(self) -> dict[str, Any]:
        """Returns the plan for ``--json``, in the form of an outcome."""
        table = self.session.entry.table
        return RebuildOutcome(table, is_done=True, said=self.words).to_dict()

    @cached_property
    def words(self) -> str:
        """The plan, as one sentence.

        Raises:
            CdcError: if the rows cannot be read as the options say.
        """
        match self.action, self.standing:
            case RebuildAction.FORGET, _:
                return (
                    f"would let go of {', '.join(self.rebuild.tables.tags().values()) or 'nothing'}"
                )
            case _, None:
                return ""
            case _, standing if standing.swapped:
                return "a rebuild has been swapped in, and would be tidied up"
            case RebuildAction.ABANDON, standing:
                begun = standing.shadow is not None
                return "would drop what was built so far" if begun else "no rebuild was begun"
            case _, standing:
                return self._intention(standing)

    def say(self, words: str) -> None:
        """Reports progress within a step."""
        self.session.say(f"{self.options.table}: {words}")

    @cached_property
    def source(self) -> ShadowFromSource:
        """Reads rows from the source."""
        from cdc_assets.operations.rebuild.shadow_rows import ShadowFromSource

        return ShadowFromSource(self.session, self.rebuild, self.say)

    @cached_property
    def signal(self) -> ShadowFromSignal:
        """Has the connector send rows."""
        from cdc_assets.operations.rebuild.shadow_rows import ShadowFromSignal

        return ShadowFromSignal(self.session, self.rebuild, self.say)

    def is_read(self, standing: RebuildStanding) -> bool:
        """Returns whether rows are read from the source, now or since an earlier run."""
        return standing.is_read or self.options.from_source

    def is_signalled(self, standing: RebuildStanding) -> bool:
        """Returns whether the connector is asked for a snapshot, now or since an earlier run."""
        return self.options.via == "signal" or self.signal.has_begun(standing)

    def _intention(self, standing: RebuildStanding) -> str:
        tables, options = self.rebuild.tables, self.options
        verb = "continues" if standing.shadow else "builds"
        name = tables.shadow_entry(standing.generation).target
        start = "the log's present end" if options.from_snapshot else "the log's beginning"
        if standing.shadow is None and (own := self.rebuild.own_beginning(standing.old)):
            start = start if options.from_snapshot else f"offsets {own}, where its log begins"
        if self.is_read(standing):
            start = f"its source: {self.source.intention(standing)}"
        elif self.is_signalled(standing):
            start = f"{start}: {self.signal.intention(standing)}"
        return (
            f"{verb} the shadow table {name} from {start}; puts its rows and offsets in the place "
            f"of those of {self.session.entry.target} in one commit; keeps the old ones as the tag "
            f"{tables.tag_for(standing.old, standing.generation)}"
        )


class RebuildTable(Operation[RebuildOptions, RebuildPlan]):
    """Rebuild TABLE as a shadow table, and swap the shadow table in at once.

    Readers see a whole table throughout. A tag keeps the old rows until --forget. Can be
    interrupted and rerun. Exits with 1 while it waits for a snapshot, and if the rebuilt table
    differs from its source.
    """

    name = "rebuild"
    options = RebuildOptions
    is_observed = False
    job = Job(
        "rebuild_table", "build_anew", "rebuild",
        "Rebuilds a table as a shadow table and swaps it in at once: from its log, from the rows "
        "of its live source (`from_source`), or from a snapshot that the connector is asked for "
        "(`from_snapshot`, `via: signal`). `dry_run` says what would be done. May be cancelled and "
        "started again: it continues where it was.",
    )  # fmt: skip

    def check(self, options: RebuildOptions) -> None:
        """Refuses a signal without a snapshot to ask for."""
        if options.via == "signal" and not options.from_snapshot:
            what = "a signal requests a snapshot, and --from-snapshot is missing"
            raise ConfigError(what, where=f"table={options.table}", remedy="add --from-snapshot")

    def plan(self, session: TableSession, options: RebuildOptions) -> RebuildPlan:
        """Looks how far an earlier run has come, and chooses the action."""
        from cdc_assets.operations.rebuild.table_rebuild import TableRebuild

        rebuild = TableRebuild(session)
        if options.forget:
            return RebuildPlan(session, options, RebuildAction.FORGET, rebuild)
        standing = rebuild.tables.standing()
        if options.abandon:
            return RebuildPlan(session, options, RebuildAction.ABANDON, rebuild, standing)
        if standing.swapped:
            return RebuildPlan(session, options, RebuildAction.TIDY, rebuild, standing)
        rebuild.tables.require_possible(standing)
        if options.from_snapshot and (standing.is_read or options.from_source):
            what = "a table is built from its source's rows, or from a snapshot in its log"
            remedy = "continue without --from-snapshot, or begin again after --abandon"
            raise TerminalError(what, where=f"table={session.entry.table}", remedy=remedy)
        return RebuildPlan(session, options, RebuildAction.BUILD, rebuild, standing)

    def steps(
        self, session: TableSession, options: RebuildOptions, plan: RebuildPlan
    ) -> Iterator[Progress | Report]:
        """Carries the action out, and compares the rebuilt table with its source."""
        outcome = yield from _RebuildSteps(plan).carried_out()
        is_rebuilt = plan.action in {RebuildAction.TIDY, RebuildAction.BUILD} and outcome.is_done
        if is_rebuilt:
            session.services.failures.clear(session.entry.table)
        if is_rebuilt and options.verify:
            outcome = yield from _compared(plan, outcome)
        text = f"rebuilt: {outcome.rows:,} rows read, {outcome.records:,} records merged"
        observed = (Observation(session.entry, text),) if outcome.swapped else ()
        failure = "" if outcome.is_done else outcome.said
        yield Report(outcome.to_dict(), failure=failure, observations=observed)

    def document(self, options: RebuildOptions, results: Results) -> Mapping[str, Any]:
        """Returns the outcome."""
        (report,) = results.reports.values()
        return report.document


Ending = Generator[Progress, None, RebuildOutcome]
"""Yields progress, and returns the outcome."""


def _compared(plan: RebuildPlan, outcome: RebuildOutcome) -> Ending:
    """Compares the rebuilt table with its source, if that has a database."""
    check = plan.session.host.check_source(plan.session.entry, plan.say)
    if check is None:
        return outcome
    yield Progress(f"{plan.options.table}: {check.text}")
    return replace(outcome, equal=check.is_equal, is_done=check.is_equal, said=check.text)


class _RebuildSteps:
    """The steps of a plan, and the counts of rows and records so far."""

    def __init__(self, plan: RebuildPlan) -> None:
        self._plan, self._session, self._options = plan, plan.session, plan.options
        self._rebuild, self._table = plan.rebuild, plan.session.entry.table
        self._rows = self._waves = self._records = 0

    def carried_out(self) -> Ending:
        match self._plan.action, self._plan.standing:
            case RebuildAction.FORGET, _:
                names = ", ".join(self._rebuild.forget())
                words = f"let go of {names or 'nothing: no rebuild has kept anything'}"
                return (yield from self._ended(words))
            case RebuildAction.TIDY, _:
                words = "a rebuild had been swapped in and was tidied up"
                return (yield from self._swapped(words))
            case _, None:
                msg = "a rebuild was planned without a look at the table"
                raise RuntimeError(msg)
            case RebuildAction.ABANDON, standing:
                return (yield from self._abandoned(standing))
            case _, standing:
                return (yield from self._built(standing))

    def _abandoned(self, standing: RebuildStanding) -> Ending:
        dropped = self._rebuild.abandon()
        if standing.swapped:
            words = "a rebuild had been swapped in before, and was tidied up: its rows stay"
            return (yield from self._swapped(words))
        rebuilds.remove_directive(self._session.services, self._table)
        done = "what was built so far is dropped" if dropped else "no rebuild was begun"
        return (yield from self._ended(f"{done}; the table is as it was"))

    def _built(self, standing: RebuildStanding) -> Ending:
        plan, options, begin, settled = self._plan, self._options, None, 0
        if options.via == "signal":
            plan.signal.require_possible(standing)
        rebuilds.store_directive(self._session.services, self._table)
        is_read = plan.is_read(standing)
        if is_read:
            done = plan.source.read(standing)
            self._rows, self._waves = done.rows, done.waves
        else:
            begin = self._rebuild.begin(standing, from_now=options.from_snapshot)
            is_done = options.snapshot_done
            if begin is not None and not is_done and plan.is_signalled(standing):
                self._rows, begin = plan.signal.rows(standing), None
        for _ in range(TRIES):
            yield from self._caught_up(standing, is_read=is_read)
            if begin is not None and not self._is_whole(standing, begin):
                return (yield from self._ended(self._awaited(begin), is_done=False))
            try:
                if is_read:
                    before, settled = settled, plan.source.settle_doubts(standing, settled)
                    if settled != before:  # a comparison takes its time
                        yield from self._caught_up(standing, is_read=True)
                with self._session.lease.hold():
                    yield from self._filled(standing, is_read=is_read)
                    swapped = self._rebuild.swap(standing, settled)
            except ConflictError as error:
                yield self._progress(f"{error.what}: once more")
                continue
            if swapped:
                return (yield from self._swapped("swapped in"))
        what = "other runs kept publishing while the new table was swapped in"
        raise ConflictError(what, where=f"table={self._table}", remedy="run it again")

    def _caught_up(
        self, standing: RebuildStanding, *, is_read: bool
    ) -> Generator[Progress, None, None]:
        """Merges the log, until the rest that has come meanwhile is short."""
        while True:
            began = time.monotonic()
            batches = yield from self._filled(standing, is_read=is_read)
            if batches <= 1 or time.monotonic() - began < NEAR_SECONDS:
                return

    def _filled(
        self, standing: RebuildStanding, *, is_read: bool
    ) -> Generator[Progress, None, int]:
        """Merges the log up to its present end; returns the number of batches."""
        batches = 0
        try:
            for batch in self._rebuild.fill(standing):
                batches += 1
                ranges = " ".join(map(str, batch.ranges))
                rows = "" if batch.row_count is None else f", {batch.row_count} rows"
                self._records += batch.records
                yield self._progress(f"merged {batch.records} records {ranges}{rows}")
        except LostRangeError as error:
            if not is_read:
                raise
            again = f"cdc-assets rebuild {self._table} --abandon, then --from-source once more"
            remedy = f"lengthen the topic's retention, then {again}"
            raise error.but(remedy=remedy) from None
        return batches

    def _is_whole(self, standing: RebuildStanding, begin: OffsetVector) -> bool:
        return self._options.snapshot_done or self._rebuild.has_snapshot(standing, begin)

    def _awaited(self, begin: OffsetVector) -> str:
        """Returns instructions for the snapshot that is awaited."""
        name = self._session.entry.at_source.qualified
        return (
            f"waits for a snapshot of the whole table, from offsets "
            f"{begin.to_json()} on. Start one now, for example by a blocking snapshot: insert "
            "into the connector's signal table a row with the type execute-snapshot and the data "
            f'{{"type": "blocking", "data-collections": ["{name}"]}}. '
            "Then run this command again. Where the connector reads signals from Kafka, --via "
            "signal asks for an incremental snapshot and waits for it. One that was under way "
            "before does not do: its first rows have lower offsets. After one whose first "
            "and last records do not say so (an incremental one that others have asked for, a "
            "table of one row), or are not read for it (Avro, flattened records without "
            "source.snapshot in add.fields), add --snapshot-done once it is complete."
        )

    def _swapped(self, words: str) -> Ending:
        """Drops the shadow table; the directive goes first, as the table shows the rest to do."""
        rebuilds.remove_directive(self._session.services, self._table)
        self._rebuild.tidy()
        kept = next(reversed(self._rebuild.tables.tags().values()), "")
        until = (
            f". The old rows are kept as the tag {kept}, until: "
            f"cdc-assets rebuild {self._table} --forget"
        )
        outcome = yield from self._ended(f"{words}{until if kept else ''}")
        return replace(outcome, swapped=True, kept=kept)

    def _ended(self, words: str, *, is_done: bool = True) -> Ending:
        yield self._progress(words)
        return RebuildOutcome(
            self._table, is_done=is_done, rows=self._rows, waves=self._waves,
            records=self._records, said=words,
        )  # fmt: skip

    def _progress(self, words: str) -> Progress:
        return Progress(f"{self._options.table}: {words}")


REBUILD: Final = RebuildTable()
