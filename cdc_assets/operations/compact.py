"""Compacts a lake table at once and to the end, whatever the thresholds of maintenance are.

1. The plan counts the files of the lake table and of its side tables.
2. Each step is one commit that combines small files, or rewrites files with deleted rows. No row
   changes; a commit that was not made has changed nothing, so the operation may be interrupted and
   run again at any point.
3. If another writer comes first, it is asked to wait (`Lease`), and the step is done again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pydantic import Field

from cdc_assets.errors import ConflictError, TerminalError
from cdc_assets.operate.known_tables import replicated
from cdc_assets.operate.services import Services
from cdc_assets.operations.maintain import by_target, step_dict, upkeep_in, words
from cdc_assets.operations.operation import (
    Job,
    Observation,
    Operation,
    Progress,
    Report,
    Tables,
)
from cdc_assets.operations.options import OneTable, Planned
from cdc_assets.operations.session import TableSession
from cdc_assets.schema.file_layout import DeleteMode
from cdc_assets.schema.readers import faults

if TYPE_CHECKING:
    from cdc_assets.lake import TableState
    from cdc_assets.merge.upkeep import Needs, UpkeepStep

TRIES: Final = 5
"""Most consecutive tries in which another writer may commit first."""


class CompactOptions(OneTable, Planned):
    """The options of a compaction."""

    rewrite: bool = Field(
        default=False,
        description="Rewrite all files in the table's layout.",
    )


@dataclass(frozen=True, slots=True)
class CompactPlan:
    """The files that there are now, of the lake table and of its side tables."""

    tables: Tables
    before: tuple[Needs, ...]
    rewrite: bool = False

    def lines(self) -> Sequence[str]:
        """Returns the plan for people."""
        files = self.before[0].figures.files if self.before else 0
        first = f"{self.tables[0].target}: would rewrite all {files} files in the table's layout"
        combined = [
            f"{each.name}: would combine {each.figures.undersized} small files of "
            f"{each.figures.files}, and rewrite files with {each.figures.marked} deleted rows of "
            f"{each.figures.rows}"
            for each in self.before
        ]
        return [first, *combined] if self.rewrite else combined

    def to_dict(self) -> dict[str, Any]:
        """Returns the plan for ``--json``."""
        return {
            "table": str(self.tables[0].table),
            "lake_table": str(self.tables[0].target),
            "before": [_figures(each) for each in self.before],
        }


class Compact(Operation[CompactOptions, CompactPlan]):
    """Compact the lake table of TABLE at once: small files, and files with deleted rows.

    TABLE is [source.][schema.]table. Ignores the thresholds of `maintain`. Merging continues
    meanwhile. Can be interrupted and rerun; with --rewrite a rerun starts over.
    """

    name = "compact"
    options = CompactOptions
    job = Job(
        "compact_table", "compact", "compact",
        "Compacts a lake table at once and to the end: combines small files, and rewrites those "
        "with deleted rows. `dry_run` says what there is. May be cancelled and started again.",
    )  # fmt: skip

    def chosen(self, services: Services, options: CompactOptions) -> Sequence[Tables]:
        """Returns all tables that are merged into the lake table, the named one first."""
        (entry,) = options.entries(services)
        known = replicated(services.config, services.registry.load())
        (group,) = by_target(each for each in known if each.target == entry.target)
        return [(entry, *(each for each in group if each != entry))]

    def plan(self, session: TableSession, options: CompactOptions) -> CompactPlan:
        """Returns the files that there are."""
        return CompactPlan(session.tables, tuple(upkeep_in(session).needs()), options.rewrite)

    def steps(
        self, session: TableSession, options: CompactOptions, plan: CompactPlan
    ) -> Iterator[Progress | Report]:
        """Combines files, a few with each commit, until there is nothing left to combine."""
        done, conflicts = list["UpkeepStep"](), 0
        if options.rewrite:
            yield from self._rewritten(session, done)
        while True:
            try:
                for each in upkeep_in(session).compact():
                    done.append(each)
                    conflicts = 0
                    yield Progress(words(each))
                break
            except ConflictError as error:
                conflicts += 1
                if conflicts == TRIES:
                    raise
                session.lease.ask()
                yield Progress(f"{session.entry.target}: {error.what}: once more", is_warning=True)
        yield self._report(session, plan, done)

    def _rewritten(
        self, session: TableSession, done: list[UpkeepStep]
    ) -> Iterator[Progress | Report]:
        """Rewrites all files; asks other writers to wait if they have come first.

        Raises:
            ConflictError: if they keep coming first.
        """
        from cdc_assets.merge.intake.layouts import lay_out

        entry, catalog = session.entry, session.config.lake.catalog.name
        state = session.lake.state(entry.target, entry.shard_value)
        if state is not None:
            _require_read(session.config.lake.readers, state)
            lay_out(session.spark(), catalog, entry, session.planner.tables(entry), state)
        failed = 0
        for _ in range(TRIES):
            step = upkeep_in(session).rewrite()
            if step is None:
                return
            done.append(step)
            yield Progress(words(step))
            failed = step.counts.get("failed_data_files_count", 0)
            if not failed:
                return
            session.lease.ask()
            what = f"{failed} files were changed while they were rewritten"
            yield Progress(f"{session.entry.target}: {what}: once more", is_warning=True)
        what = f"{failed} files were changed each time while they were rewritten"
        where = f"lake={session.entry.target}"
        raise ConflictError(what, where=where, remedy="run the same command again")

    def _report(
        self, session: TableSession, plan: CompactPlan, done: Sequence[UpkeepStep]
    ) -> Report:
        after = upkeep_in(session).needs()
        files = [sum(each.figures.files for each in needs) for needs in (plan.before, after)]
        text = f"compacted: {files[0]} files are {files[1]}" if done else "nothing to compact"
        document = {
            **plan.to_dict(),
            "after": [_figures(each) for each in after],
            "steps": [step_dict(each) for each in done],
        }
        observed = Observation(session.entry, text, {"files": files[1], "files_before": files[0]})
        return Report(
            document, (f"{session.entry.target}: {text}",), observations=(observed,) if done else ()
        )


COMPACT: Final = Compact()


def _require_read(readers: Sequence[str], state: TableState) -> None:
    """Requires that readers read the table's format version: a rewrite makes no earlier one of it.

    Raises:
        TerminalError: if one does not.
    """
    version = state.format_version
    unread = version and next(faults(readers, version, DeleteMode.COPY_ON_WRITE), "")
    if unread:
        what = f"{unread}, and files that are rewritten do not change that"
        remedy = (
            "make the table again (cdc-assets reset --table TABLE), or take the reader out of "
            "lake.readers"
        )
        raise TerminalError(what, where=f"lake={state.name}", remedy=remedy)


def _figures(needs: Needs) -> dict[str, Any]:
    figures = needs.figures
    return {
        "lake_table": str(needs.name),
        "files": figures.files,
        "file_bytes": figures.file_bytes,
        "undersized_files": figures.undersized,
        "rows": figures.rows,
        "deleted_rows": figures.marked,
    }
