"""Maintains lake tables: compaction, expiry, manifests, branches that were left, orphan files."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import Field

from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import ConfigError
from cdc_assets.operate.known_tables import find_table, replicated
from cdc_assets.operate.services import Clock, Services, utc_now
from cdc_assets.operations.operation import Markdown, Operation, Progress, Report, Tables
from cdc_assets.operations.options import Cli, Options, Planned
from cdc_assets.operations.session import TableSession
from cdc_assets.registry import TableEntry

if TYPE_CHECKING:
    from cdc_assets.lake import Lake
    from cdc_assets.merge.upkeep import Needs, Upkeep, UpkeepStep

BUDGET_SECONDS: Final = 60.0
"""How long a table's upkeep may take: nothing is merged meanwhile. The rest is done next time."""


class UpkeepOptions(Options):
    """The options of one lake table's upkeep, as the run of its asset gives them."""

    orphans: bool = Field(default=False, description="Also remove files that no snapshot names.")
    whole: Annotated[bool, Cli(always=True)] = Field(
        default=False, description="Do all that is needed, however long it takes and who waits."
    )
    turn: Annotated[int, Cli(always=0)] = Field(
        default=0, description="The number of the run, which decides where it begins."
    )


class MaintainOptions(UpkeepOptions, Planned):
    """The options of maintenance."""

    table: str | None = Field(default=None, description="Only this table: [source.][schema.]table.")


@dataclass(frozen=True)
class MaintenancePlan:
    """The plan of a lake table's upkeep: its needs, read when they are first asked for."""

    upkeep: Upkeep

    @cached_property
    def needs(self) -> Sequence[Needs]:
        """The needs of the lake table and of its side tables."""
        return self.upkeep.needs()

    def lines(self) -> Sequence[str]:
        """Returns the needs for people."""
        return [needs_text(each) for each in self.needs]

    def to_dict(self) -> dict[str, Any]:
        """Returns the needs for ``--json``."""
        return {"needs": [needs_dict(each) for each in self.needs]}


class Maintain(Operation[MaintainOptions, MaintenancePlan]):
    """Maintain lake tables: compact, expire snapshots, rewrite manifests, remove left branches.

    Uses the thresholds of the sensor `maintain`. Can be interrupted and rerun.
    """

    name = "maintain"
    options = MaintainOptions
    is_asset = True

    def chosen(self, services: Services, options: MaintainOptions) -> Sequence[Tables]:
        """Returns the selected tables by lake table.

        Raises:
            ConfigError: if no table is known, or the named one is not.
        """
        registry = services.registry.load()
        entries = replicated(services.config, registry)
        if options.table is not None:
            target = find_table(services.config, registry, options.table).target
            entries = [each for each in entries if each.target == target]
        if not entries:
            msg = "no table is known yet"
            raise ConfigError(msg, remedy="start cdc-assets replicate first")
        return by_target(entries)

    def label(self, tables: Tables) -> str:
        """Returns the name of the lake table."""
        return str(tables[0].target)

    def plan(self, session: TableSession, options: MaintainOptions) -> MaintenancePlan:
        """Returns what the lake table needs."""
        return MaintenancePlan(upkeep_in(session))

    def steps(
        self, session: TableSession, options: MaintainOptions, plan: MaintenancePlan
    ) -> Iterator[Progress | Report]:
        """Carries out what is needed, until the time is over or others wait."""
        begins, done = time.monotonic(), list["UpkeepStep"]()

        def is_over() -> bool:
            if options.whole:
                return False
            return time.monotonic() - begins >= BUDGET_SECONDS or session.host.is_wanted()

        for each in plan.upkeep.carry_out(
            orphans=options.orphans, is_over=is_over, turn=options.turn
        ):
            done.append(each)
            yield Progress(words(each), is_warning=bool(each.left))
        if not done:
            yield Progress(f"{session.entry.target}: nothing to do")
        yield Report({"steps": [step_dict(each) for each in done]},
                     metadata=metadata(done, plan.upkeep.needs()))  # fmt: skip


MAINTAIN: Final = Maintain()


def by_target(entries: Iterable[TableEntry]) -> list[Tables]:
    """Groups tables by the lake table into which they are merged."""
    found = dict[object, list[TableEntry]]()
    for entry in entries:
        found.setdefault(entry.target, []).append(entry)
    return [tuple(each) for each in found.values()]


def upkeep_in(session: TableSession) -> Upkeep:
    """Returns the upkeep of a session's lake table."""
    return upkeep_of(session.config, session.tables, session.lake, session.spark, session.clock)


def upkeep_of(
    config: ReplicationConfig,
    tables: Tables,
    lake: Lake,
    spark: Callable[[], Any],
    clock: Clock = utc_now,
) -> Upkeep:
    """Returns the object that maintains a lake table."""
    from cdc_assets.merge.upkeep import Upkeep

    return Upkeep(config, tables, lake, spark, clock)


def words(done: UpkeepStep) -> str:
    """Describes a finished step for people."""
    if done.left:
        return f"{done.name}: {done.task} left out: {done.left}"
    counts = ", ".join(f"{name} {n}" for name, n in done.counts.items() if n)
    return f"{done.name}: {done.task} in {done.seconds:.1f} s{': ' if counts else ''}{counts}"


def needs_text(needs: Needs) -> str:
    """Describes a table's needs for people."""
    figures = needs.figures
    what = ", ".join(needs.tasks) or "nothing to do"
    return (
        f"{needs.name}: {what} ({figures.files} files of {figures.file_bytes / 1e6:.1f} MB, "
        f"{figures.tiny + figures.small} small in a partition; {figures.marked_share:.0%} of "
        f"{figures.rows} rows deleted; {figures.manifests} manifests; "
        f"{len(figures.history.snapshots)} snapshots, {len(needs.expirable)} may go; "
        f"{len(figures.dead_branches)} branches left; metadata of "
        f"{figures.metadata_bytes / 1e6:.2f} MB)"
    )


def needs_dict(needs: Needs) -> dict[str, Any]:
    """Returns a table's needs for ``--json``."""
    figures = needs.figures
    return {
        "lake_table": str(needs.name),
        "tasks": [each.value for each in needs.tasks],
        "files": figures.files,
        "file_bytes": figures.file_bytes,
        "undersized_files": figures.undersized,
        "rows": figures.rows,
        "deleted_rows": figures.marked,
        "manifests": figures.manifests,
        "snapshots": len(figures.history.snapshots),
        "expirable_snapshots": len(needs.expirable),
        "dead_branches": len(figures.dead_branches),
        "metadata_bytes": figures.metadata_bytes,
    }


def step_dict(done: UpkeepStep) -> dict[str, Any]:
    """Returns a finished step for ``--json``."""
    left = {"left_out": done.left} if done.left else {}
    return {"lake_table": str(done.name), "task": done.task.value, "seconds": done.seconds,
            "counts": dict(done.counts), **left}  # fmt: skip


def metadata(done: Sequence[UpkeepStep], after: Sequence[Needs]) -> dict[str, object]:
    """Returns figures of finished steps and of the lake table after them."""
    target = after[0].figures if after else None
    seconds = dict[str, float]()
    for each in done:
        seconds[each.task] = seconds.get(each.task, 0.0) + each.seconds
    figures: dict[str, object] = {} if target is None else {
        "files": target.files,
        "deleted_rows_percent": 100 * target.marked_share,
        "manifests": target.manifests,
        "snapshots": len(target.history.snapshots),
        "metadata_bytes": target.metadata_bytes,
    }  # fmt: skip
    return {
        "steps": Markdown("\n".join(f"- {words(each)}" for each in done) or "none"),
        "seconds": sum(seconds.values()),
        **{f"seconds/{task}": spent for task, spent in seconds.items()},
        **figures,
    }


def no_session() -> Any:
    """Stands in for a session that is never needed.

    Raises:
        RuntimeError: always.
    """
    msg = "the needs of a lake table are read without Spark"
    raise RuntimeError(msg)
