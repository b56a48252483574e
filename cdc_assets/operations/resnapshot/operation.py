"""Defines the operation `resnapshot`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import Field

from cdc_assets.errors import ConfigError, HeldError
from cdc_assets.operate.states import held_words
from cdc_assets.operations.operation import (
    Job,
    Observation,
    Operation,
    Progress,
    Report,
    Results,
)
from cdc_assets.operations.options import AnyTables, Cli, Planned
from cdc_assets.operations.session import TableSession

if TYPE_CHECKING:
    from cdc_assets.operations.resnapshot.connector_snapshot import SnapshotChange
    from cdc_assets.operations.resnapshot.notes import ResnapshotBook, SignalNote
    from cdc_assets.operations.resnapshot.signal_resnapshot import SignalReport, SignalResnapshot
    from cdc_assets.operations.resnapshot.spark_resnapshot import ResnapshotReport, SparkResnapshot

READ_AGAIN: Final = "read_again"


class ResnapshotOptions(AnyTables, Planned):
    """The options of a re-snapshot."""

    via: Literal["read", "signal"] = Field(
        default="read",
        description="read: Spark reads by JDBC. signal: the connector reads while it streams.",
    )
    do: Annotated[Literal["read_again", "pause", "resume", "stop"], Cli(is_flags=True)] = Field(
        default=READ_AGAIN, description="Pause, resume or stop snapshots that a signal requested."
    )
    anew: bool = Field(default=False, description="Begin again instead of continuing.")


@dataclass(frozen=True)
class ResnapshotPlan:
    """The plan of reading one table again. Its words are made when they are first asked for.

    Attributes:
        session: the means, and the table.
        options: as they were given.
    """

    session: TableSession
    options: ResnapshotOptions

    def lines(self) -> Sequence[str]:
        """Returns the plan for people."""
        return [f"{self.session.entry.table}: {self.words}"]

    def to_dict(self) -> dict[str, Any]:
        """Returns the plan for ``--json``."""
        table = str(self.session.entry.table)
        if self.options.do != READ_AGAIN:
            return {"table": table, "changed": bool(self.change.signals), "did": self.words}
        return {"table": table, "would": self.words}

    @cached_property
    def words(self) -> str:
        """The plan, as one sentence.

        Raises:
            CdcError: if the table cannot be read again, or a part does not answer.
        """
        if self.options.do != READ_AGAIN:
            return self.change.intention
        if self.options.via == "signal":
            return self.by_connector.intention(self.note, is_new=self.options.anew)
        begun = None if self.options.anew else self.book.load(self.session.entry.table)
        return self.by_spark.intention(begun)

    def say(self, words: str) -> None:
        """Reports progress within a step."""
        self.session.say(f"{self.session.entry.table}: {words}")

    @cached_property
    def book(self) -> ResnapshotBook:
        """The notes on earlier runs."""
        from cdc_assets.operations.resnapshot.notes import ResnapshotBook

        return ResnapshotBook.of_registry(self.session.config.registry)

    @property
    def note(self) -> SignalNote | None:
        """The note on an earlier run's signal; None without one."""
        return self.book.load_signal(self.session.entry.table)

    @cached_property
    def change(self) -> SnapshotChange:
        """The change of the snapshot that is under way."""
        from cdc_assets.operations.resnapshot.connector_snapshot import (
            SnapshotAction,
            SnapshotChange,
        )

        return SnapshotChange.of(self.session, SnapshotAction(self.options.do))

    @cached_property
    def by_spark(self) -> SparkResnapshot:
        """Reads the table with Spark."""
        from cdc_assets.operations.resnapshot.spark_resnapshot import SparkResnapshot

        return SparkResnapshot(self.session, self.say)

    @cached_property
    def by_connector(self) -> SignalResnapshot:
        """Has the connector read the table."""
        from cdc_assets.operations.resnapshot.signal_resnapshot import SignalResnapshot

        return SignalResnapshot(self.session, self.say)

    def read_by_spark(self) -> ResnapshotReport:
        """Reads the table with Spark, from an earlier run's progress on.

        Raises:
            CdcError: as `SparkResnapshot.read` raises.
        """
        table = self.session.entry.table
        begun = None if self.options.anew else self.book.load(table)
        report = self.by_spark.read(begun, lambda done: self.book.keep(table, done))
        self.book.forget(table)
        return report

    def read_by_connector(self) -> SignalReport:
        """Has the connector read the table, or follows an earlier run's snapshot.

        Raises:
            CdcError: as `SignalResnapshot.read` raises.
        """
        table = self.session.entry.table

        def keep(note: SignalNote | None) -> None:
            if note is None:
                self.book.forget_signal(table)
            else:
                self.book.keep_signal(table, note)

        report = self.by_connector.read(self.note, keep, is_new=self.options.anew)
        self.book.forget_signal(table)
        return report


class Resnapshot(Operation[ResnapshotOptions, ResnapshotPlan]):
    """Read tables again from their live source, and put right their rows in the lake.

    Reads without locks. Newer changes win, and rows that the source no longer has are removed.
    Something must merge meanwhile: the daemon, or cdc-assets replicate. Can be interrupted and
    rerun: it continues. Exits with 1 if a table failed, or if some rows could not be corrected.

    With --via signal the connector takes an incremental snapshot, which continues without this
    command. Rerun the command to follow the snapshot, or to --pause, --resume or --stop it.
    """

    name = "resnapshot"
    options = ResnapshotOptions
    is_observed = False
    is_progress_apart = True
    job = Job(
        "resnapshot_tables", "read_again", "resnapshot",
        "Reads tables again from their live source, and puts right their rows in the lake. "
        "Newer changes win; rows that the source no longer has are removed. `via: signal` has "
        "their connector read them, which continues whatever becomes of the run; `do` pauses, "
        "resumes or stops that. `dry_run` says what would be done. May be cancelled and "
        "started again: it continues where it was.",
    )  # fmt: skip

    def check_command(self, options: ResnapshotOptions) -> None:
        """Refuses a change of a connector's snapshot without ``--via signal``."""
        if options.do != READ_AGAIN and options.via != "signal":
            what = f"--{options.do} is of snapshots by the connector: give --via signal"
            raise ConfigError(what)

    def plan(self, session: TableSession, options: ResnapshotOptions) -> ResnapshotPlan:
        """Returns the plan, which reads nothing before it is asked for its words."""
        return ResnapshotPlan(session, options)

    def steps(
        self, session: TableSession, options: ResnapshotOptions, plan: ResnapshotPlan
    ) -> Iterator[Progress | Report]:
        """Reads the table again, or changes the connector's snapshot."""
        yield _changed(plan) if options.do != READ_AGAIN else _read(plan)

    def document(self, options: ResnapshotOptions, results: Results) -> Mapping[str, Any]:
        """Returns the results of all tables; of a changed snapshot, with the command's name."""
        tables = [dict(each.document) for each in results.reports.values()]
        document = {"dry_run": options.dry_run, "tables": tables, "failed": dict(results.failed)}
        if options.do != READ_AGAIN:
            return {"command": f"resnapshot --{options.do}", **document}
        return document


def _changed(plan: ResnapshotPlan) -> Report:
    entry = plan.session.entry
    is_changed, words = plan.change.carried_out()
    document = {"table": str(entry.table), "changed": is_changed, "did": words}
    observed = (Observation(entry, words),) if is_changed else ()
    return Report(document, (f"{entry.table}: {words}",), observations=observed)


def _read(plan: ResnapshotPlan) -> Report:
    entry = plan.session.entry
    _require_merged(plan.session)
    by_connector = plan.options.via == "signal"
    read: Callable[[], ResnapshotReport | SignalReport] = (
        plan.read_by_connector if by_connector else plan.read_by_spark
    )
    report = read()
    words = list(report.words())
    text = "; ".join(words)
    return Report(
        report.to_dict(),
        tuple(f"{entry.table}: {each}" for each in words),
        failure="" if report.is_whole else text,
        observations=(Observation(entry, f"read again: {text}"),),
    )


def _require_merged(session: TableSession) -> None:
    """Refuses a table that nobody merges into: its changes would be awaited in vain.

    Raises:
        HeldError: if a directive holds the table.
    """
    table = session.entry.table
    said = held_words(table, session.services.desired.of(table))
    if said:
        what, _, remedy = said.partition(" → ")
        raise HeldError(what, where=f"table={table}", remedy=remedy)


RESNAPSHOT: Final = Resnapshot()
