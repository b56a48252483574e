"""Defines the operations `rewind` and `history`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import Field

from cdc_assets.errors import ConfigError
from cdc_assets.log.hours import HOUR, HourWindow
from cdc_assets.operate.known_tables import find_table, replicated
from cdc_assets.operate.services import Services
from cdc_assets.operations.operation import (
    Job,
    Observation,
    Operation,
    Progress,
    Report,
    ReportTable,
    Results,
)
from cdc_assets.operations.options import Cli, OneTable, Options, Planned
from cdc_assets.operations.rewind.goal import Goal
from cdc_assets.operations.rewind.history import PublishLine, read_history
from cdc_assets.operations.rewind.table_rewind import RewindPlan, TableRewind
from cdc_assets.operations.session import TableSession
from cdc_assets.registry import TableEntry

SHOWN: Final = 20
"""The number of publishes on an asset's page."""

HOURS_SHOWN: Final = 14 * 24
"""The greatest number of partitions, newest first, that get an observation after a rewind."""


class RewindOptions(OneTable, Planned):
    """The options of a rewind."""

    to: str = Field(
        default="",
        description="Snapshot, time (ISO 8601, by default UTC), offsets such as 0:1234,1:77, or "
        "a tag before_rewind_<n>.",
    )
    undo: bool = Field(default=False, description="Rewind to the state before the last rewind.")
    forget: bool = Field(
        default=False,
        description="Delete the tags before_rewind_*, so that their snapshots can expire.",
    )
    all_shards: bool = Field(
        default=False, description="Rewind all tables that are merged into the lake table."
    )

    @property
    def goal(self) -> Goal:
        """The target."""
        return Goal(self.to, undo=self.undo, all_shards=self.all_shards)


@dataclass(frozen=True, slots=True)
class ForgetPlan:
    """The tags of earlier rewinds that are to be dropped."""

    entry: TableEntry
    tags: tuple[str, ...]

    def lines(self) -> Sequence[str]:
        """Returns the plan for people."""
        return [f"{self.entry.table}: would let go of {', '.join(self.tags) or 'nothing'}"]

    def to_dict(self) -> dict[str, Any]:
        """Returns the plan for ``--json``."""
        return {"forgotten": list(self.tags)}


class Rewind(Operation[RewindOptions, RewindPlan | ForgetPlan]):
    """Rewind TABLE to an earlier commit: rows, offsets and delete markers together.

    Later changes are merged again. A tag keeps the replaced snapshot until --forget. Can be
    interrupted and rerun.
    """

    name = "rewind"
    options = RewindOptions
    job = Job(
        "rewind", "take_back", "rewind",
        "Rewinds a table to an earlier publish: rows and offsets together. The table continues "
        "from there automatically. `dry_run` says what would be done.",
    )  # fmt: skip

    def check(self, options: RewindOptions) -> None:
        """Refuses more than one target, and none."""
        if not options.forget:
            _ = options.goal
        elif options.to or options.undo or options.all_shards:
            msg = "--forget excludes --to, --undo and --all-shards"
            raise ConfigError(msg, remedy="let go of what was kept by itself")

    def plan(self, session: TableSession, options: RewindOptions) -> RewindPlan | ForgetPlan:
        """Chooses the target, or the tags to drop."""
        if options.forget:
            past = session.lake.past(session.entry.target)
            return ForgetPlan(session.entry, tuple(past.tags) if past else ())
        return TableRewind(session.services, session.entry).plan(options.goal)

    def steps(
        self, session: TableSession, options: RewindOptions, plan: RewindPlan | ForgetPlan
    ) -> Iterator[Progress | Report]:
        """Moves the table, or drops the tags."""
        if isinstance(plan, ForgetPlan):
            yield from _forgotten(session)
            return
        yield from map(Progress, plan.lines())
        if plan.is_done:
            yield Report({**plan.to_dict(), "done": False})
            return
        said = list[str]()
        done = TableRewind(session.services, session.entry, said.append).carry_out(
            options.goal, plan
        )
        yield from map(Progress, said if done is plan else [*said, *done.lines()])
        if done.is_done:
            yield Report({**done.to_dict(), "done": False})
            return
        yield from _moved(session, done)

    def document(self, options: RewindOptions, results: Results) -> Mapping[str, Any]:
        """Returns the plan that was carried out, or would be, and whether it was."""
        (report,) = results.reports.values()
        done = report.document.get("done", False)
        return {**report.document, "done": done, "dry_run": options.dry_run}


def _forgotten(session: TableSession) -> Iterator[Progress | Report]:
    tags = TableRewind(session.services, session.entry).forget()
    kept = ", ".join(tags) or "nothing: no rewind has kept anything"
    yield Progress(f"{session.entry.table}: let go of {kept}")
    yield Report({"forgotten": list(tags), "done": bool(tags)})


def _moved(session: TableSession, done: RewindPlan) -> Iterator[Progress | Report]:
    """Has tables and runs find out that ``main`` was moved."""
    for each in done.tables:
        session.services.failures.clear(each.table)
    yield Progress(f"{session.entry.table}: done; what it replaced is kept as {done.tag}")
    if unseen := session.host.hand_over(done.tables):
        yield Progress(unseen)
    observed = tuple(observations(session.services, done))
    yield Report({**done.to_dict(), "done": True}, observations=observed)


def observations(services: Services, plan: RewindPlan) -> Iterator[Observation]:
    """Yields a rewind's observations, on its tables and on the hours to merge again.

    The earlier materializations of these hours no longer describe the table.
    """
    for entry in plan.tables:
        publishes = rows_of(read_history(services, entry).lines(SHOWN))
        text = "\n".join(plan.lines())
        yield Observation(entry, text, {**_metadata(plan), "publishes": publishes})
        for hour in _hours(plan):
            text = (
                f"{entry.table} went back to snapshot {plan.chosen.snapshot}: what was "
                "merged of this hour since then is merged again"
            )
            snapshot = {"snapshot_id": str(plan.chosen.snapshot)}
            yield Observation(entry, text, snapshot, partition=hour.key)


def _hours(plan: RewindPlan) -> list[HourWindow]:
    """Returns the newest of the hours to merge again, oldest first."""
    if plan.hours is None or not plan.again:
        return []
    first, last = plan.hours
    found = [last]
    while found[-1] > first and len(found) < HOURS_SHOWN:
        found.append(HourWindow.starting(found[-1].start - HOUR))
    return found[::-1]


def _metadata(plan: RewindPlan) -> dict[str, object]:
    lost = ", ".join(each.count_text for each in plan.loses)
    hours = f"{plan.hours[0].key} to {plan.hours[1].key}" if plan.hours else ""
    return {
        "rewound_to": str(plan.chosen.snapshot),
        "rewound_from": str(plan.past.head),
        "kept_as": plan.tag,
        "committed_offsets": plan.offsets.to_json(),
        "offsets_before": plan.committed.to_json(),
        "merged_again": " ".join(map(str, plan.again)) or "nothing",
        "publishes_taken_back": plan.taken_back,
        "records_taken_back": plan.records,
        **({"loses": lost} if lost else {}),
        **({"hours_merged_again": hours} if hours else {}),
    }


def rows_of(lines: Sequence[PublishLine]) -> ReportTable:
    """Returns a table of publishes, newest first."""
    records = tuple(
        {
            "snapshot": str(each.snapshot),
            "at": each.at.isoformat(timespec="seconds"),
            "kind": each.published.kind,
            "from": each.published.start.to_json(),
            "to": each.published.offsets.to_json(),
            "records": each.published.counts.get("records", 0),
            "standing": each.standing.value,
            "why": each.why,
            "loses": ", ".join(lost.count_text for lost in each.loses),
            "replaced": each.tag,
            "attempt": each.published.attempt,
        }
        for each in lines
    )
    names = ("snapshot", "at", "kind", "from", "to", "records", "standing", "why", "loses",
             "replaced", "attempt")  # fmt: skip
    return ReportTable(names, records, integers=frozenset({"records"}))


class HistoryOptions(Options):
    """The options of a list of publishes."""

    table: Annotated[str, Cli(is_argument=True)] = Field(
        default="", description="[source.][schema.]table; all tables if none is named"
    )
    limit: int = Field(default=SHOWN, ge=1, description="Maximum number of commits.")

    @property
    def names_one(self) -> bool:
        """Whether a table is named."""
        return bool(self.table)

    def entries(self, services: Services) -> Sequence[TableEntry]:
        """Returns the named table; all tables if none is named."""
        registry = services.registry.load()
        if self.table:
            return [find_table(services.config, registry, self.table)]
        return replicated(services.config, registry)


@dataclass(frozen=True, slots=True)
class Publishes:
    """The publishes of a table, newest first."""

    entry: TableEntry
    publishes: tuple[PublishLine, ...]

    def lines(self) -> Sequence[str]:
        """Returns the publishes for people."""
        return [_words(each) for each in self.publishes]

    def to_dict(self) -> dict[str, Any]:
        """Returns the publishes for ``--json``."""
        return {
            "table": str(self.entry.table),
            "lake_table": str(self.entry.target),
            "publishes": [each.to_dict() for each in self.publishes],
        }


class ListHistory(Operation[HistoryOptions, Publishes]):
    """List TABLE's commits, newest first, and whether it can be rewound to each.

    TABLE is [source.][schema.]table. Commits that rewinds have replaced come last.
    """

    name = "history"
    options = HistoryOptions
    is_look = True
    job = Job(
        "history", "show_history", "history",
        "Shows a table's publishes on its asset, and which of them it can be rewound to.",
    )  # fmt: skip

    def plan(self, session: TableSession, options: HistoryOptions) -> Publishes:
        """Reads the publishes."""
        lines = read_history(session.services, session.entry).lines(options.limit)
        return Publishes(session.entry, lines)

    def steps(
        self, session: TableSession, options: HistoryOptions, plan: Publishes
    ) -> Iterator[Progress | Report]:
        """Reports the publishes."""
        text = f"{session.entry.table}: its {len(plan.publishes)} newest publishes"
        observed = Observation(session.entry, text, {"publishes": rows_of(plan.publishes)})
        yield Report(plan.to_dict(), tuple(plan.lines()), observations=(observed,))


def _words(line: PublishLine) -> str:
    said = line.published
    counts = ", ".join(f"{name} {n}" for name, n in said.counts.items() if n) or "no records"
    replaced = f" (replaced: {line.tag})" if line.tag else ""
    return (
        f"{line.snapshot}  {line.at:%Y-%m-%d %H:%M:%S}Z  {said.kind}  {said.start.to_json()} to "
        f"{said.offsets.to_json()}  {counts}  attempt {said.attempt}{replaced}\n    {line.words()}"
    )


REWIND: Final = Rewind()
HISTORY: Final = ListHistory()
