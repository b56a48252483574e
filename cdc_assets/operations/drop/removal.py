"""Removes a table from the lake, for `drop --lake` and `reset`.

1. The directive is stored: from then on nothing is begun for the table, see `cdc_assets.desired`.
2. Runs that have the table leave it.
3. The registry stores where the table begins, if its topic holds other changes before. Then the
   directive says that the removal has begun: now only the same command completes it.
4. Records of the table in quarantine are removed.
5. Tables that belong to it are dropped: those of a rebuild, and the remembered deletes.
6. The lake table is dropped last: as long as it exists, it names the tables that belong to it.
7. A drop's directive says that it is done. A reset clears the table's failure, and removes its
   directive: with the next run the table is new, from its own beginning in the log on.

Each step looks at what is there, so that all of them can be interrupted and done again. Tables are
taken out of the catalog; their files stay.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from cdc_assets.changes.names import LakeName
from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.desired import Directive, DirectiveNote, Removal
from cdc_assets.errors import CdcError, TerminalError
from cdc_assets.operate.own_tables import own_tables
from cdc_assets.operate.services import Services
from cdc_assets.operations.operation import Progress
from cdc_assets.operations.session import TableSession
from cdc_assets.registry import Beginning, TableEntry


@dataclass(frozen=True, slots=True)
class Remains:
    """The parts of a table in the lake.

    Attributes:
        tables: in the order in which they go.
        quarantined: the number of its records in quarantine.
    """

    tables: tuple[LakeName, ...]
    quarantined: int

    @property
    def is_nothing(self) -> bool:
        """Whether there is nothing to remove."""
        return not self.tables and not self.quarantined

    def words(self) -> str:
        """Returns the parts to remove, in words."""
        names = ", ".join(str(each) for each in self.tables)
        parts = [f"takes {names} out of the catalog (files stay)"] if names else []
        if self.quarantined:
            parts.append(f"removes {self.quarantined:,} records from the quarantine")
        return " and ".join(parts) or "the lake has nothing of it"


def remains(services: Services, entry: TableEntry) -> Remains:
    """Returns the parts of a table that are there now.

    Raises:
        UnreachableError: if the catalog, or the quarantine's files, cannot be read.
    """
    from cdc_assets.lake.quarantined import QuarantineLake

    state = services.lake.state(entry.target, entry.shard_value)
    names = (*own_tables(entry, state), *([entry.target] if state is not None else []))
    there = tuple(each for each in dict.fromkeys(names) if services.lake.exists(each))
    lake = QuarantineLake(services.config)
    _, count = lake.quarantined(entry.table.source, entry.table.qualified, 0)
    return Remains(there, count)


def removed(
    session: TableSession, directive: Directive, wanted: DirectiveNote
) -> Iterator[Progress]:
    """Carries steps 1 to 6 out.

    Args:
        session: the means.
        directive: the kind of the directive, a drop or a reset.
        wanted: the directive, without the progress of the removal.

    Raises:
        CdcError: if a step fails; the steps before it stay done.
    """
    services, entry = session.services, session.entry
    services.desired.put(entry.table, directive, wanted)  # 1.
    yield from map(Progress, session.host.wait_for_runs(entry))  # 2.
    _keep_beginning(services, entry)  # 3.
    begun = replace(wanted, removal=Removal.BEGUN)
    services.desired.put(entry.table, directive, begun)
    found = remains(services, entry)
    yield Progress(f"{entry.table}: {found.words()}")
    if found.quarantined:
        _clear_quarantine(session)  # 4.
    for name in found.tables:  # 5., 6.
        services.lake.drop(name)
    services.desired.remove(entry.table, Directive.REBUILD)


def _clear_quarantine(session: TableSession) -> None:
    from cdc_assets.merge.statements.failures import translated
    from cdc_assets.merge.tables.quarantine import Quarantine

    table, catalog = session.entry.table, session.config.lake.catalog.name
    with translated("clear the quarantine", f"table={table}"):
        Quarantine(session.spark(), catalog, table.source).clear(table)


def _keep_beginning(services: Services, entry: TableEntry) -> None:
    """Stores in the registry where the table begins, which the lake forgets with the table.

    Raises:
        CdcError: if the registry does not have the table any more, or does not answer.
    """
    state = services.lake.state(entry.target)
    published = state.published if state else None
    own = published.carried.own_beginning if published else None
    if published is None or own is None or not any(at for _, at in own):
        return
    begins = Beginning(own, published.topic_id)
    stored = services.registry.begin(entry.table, begins).get(entry.table)
    if stored is None or stored.begins != begins:
        what = "the registry, which is to keep where the table begins, does not have it any more"
        remedy = "run the same command again, once the table is discovered again"
        raise CdcError(what, where=f"table={entry.table}", remedy=remedy)


def require_own(entry: TableEntry, command: str) -> None:
    """Requires that no rows of other tables would be removed, too.

    Raises:
        TerminalError: if they are in the same lake table.
    """
    if entry.shard is not None:
        what = f"{command}: rows of other tables are in {entry.target}, and in its snapshots"
        remedy = "drop it without --lake, or rebuild it: cdc-assets rebuild TABLE"
        raise TerminalError(what, where=f"table={entry.table}", remedy=remedy)


def require_beginning(services: Services, entry: TableEntry) -> None:
    """Requires all of the log of a table that begins again.

    Raises:
        TerminalError: if some of the log is gone, or is in another topic.
    """
    if services.config.source(entry.table.source).reads_first(entry.table):
        return  # its rows are read from its source again
    where = f"table={entry.table} topic={entry.topic}"
    remedy = services.config.source(entry.table.source).rebuild_command(entry.table)
    if entry.renamed is not None:
        what = "reset: its topic holds only what came since it was renamed at its source"
        raise TerminalError(what, where=where, remedy=remedy)
    marks = services.log.watermarks([entry.topic]).get(entry.topic)
    if marks is None:
        what = "reset: its topic is not there: what the lake has could not be merged again"
        raise TerminalError(what, where=where, remedy="look whether the topic was deleted")
    own = _beginning_in_topic(services, entry)
    gone = [f"{p}: [{own.get(p)}, {first})" for p, first in marks.begin if first > own.get(p)]
    if gone and services.config.source(entry.table.source).lost_start == "fail":
        what = f"reset: the log has lost its beginning, offsets {', '.join(gone)}"
        raise TerminalError(what, where=where, remedy=remedy)


def _beginning_in_topic(services: Services, entry: TableEntry) -> OffsetVector:
    """Returns where the table begins in its topic as it is; nothing for all of it."""
    state = services.lake.state(entry.target)
    published = state.published if state else None
    identity = services.log.identity([entry.topic]).get(entry.topic)
    if published is None or identity is None or published.topic_id != identity.topic_id:
        return OffsetVector()
    return published.carried.own_beginning or OffsetVector()
