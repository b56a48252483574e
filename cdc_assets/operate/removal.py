"""`drop` and `reset`: replication ends, or begins again, and the lake forgets a table.

1. The wish is put down: from then on nothing is begun for the table, see `cdc_assets.desired`.
2. Whoever is at it lets it go (`wait`).
3. The registry is told where the table begins, if its topic holds other changes before. Then the
   wish says that the removal has begun: now only the same command makes it whole again.
4. Records of the table in quarantine are removed.
5. Tables beside it go: those of a rebuild, and what is remembered of deletes.
6. The lake table goes last: as long as it is there, it says which tables are beside it.
7. A drop says that it is done. A reset forgets what held the table up, and takes its wish back:
   with the next run the table is new, from its own beginning in the log on.

Each step looks at what is there, so that all of them can be interrupted and done again. Tables are
taken out of the catalog; their files stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from cdc_assets.changes.names import LakeName
from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.desired import Removal, Wanted, Wish
from cdc_assets.errors import CdcError, TerminalError
from cdc_assets.operate.beside import tables_beside
from cdc_assets.operate.services import Services
from cdc_assets.operate.steering import Done, Order, Say, Steered, each_of
from cdc_assets.registry import Beginning, TableEntry

Wait = Callable[[TableEntry], None]
"""Returns once no run is at a table any more that merges into it or looks after it."""

Clear = Callable[[TableEntry], None]
"""Removes the records of a table from the quarantine."""


@dataclass(frozen=True, slots=True)
class Remains:
    """The parts of a table in the lake.

    Attributes:
        tables: in the order in which they go.
        quarantined: how many records of it lie in quarantine.
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


@dataclass(frozen=True, slots=True)
class Hands:
    """The tools for removing, beside `Services`; ``tell`` hears of each removal in advance."""

    wait: Wait
    clear: Clear
    tell: Callable[[str], None]


def drop(
    services: Services, entries: Iterable[TableEntry], order: Order, say: Say, hands: Hands | None
) -> Steered:
    """Ends the replication of these tables.

    Args:
        services: what to ask.
        entries: the tables.
        order: how it is meant.
        say: told of each.
        hands: to remove them from the lake too; None if that keeps them.
    """

    def one(entry: TableEntry) -> Done:
        known = services.desired.of(entry.table).dropped
        if hands is None:
            return _ended(services, entry, order, known)
        _require_own(entry, "drop --lake")
        found = remains(services, entry)
        is_done = known is not None and known.removal is Removal.DONE and found.is_nothing
        if order.dry_run or is_done:
            would = "is dropped already" if is_done else "would be dropped"
            return Done(entry, not is_done, f"{would}: {_all(found)}")
        wanted = known or Wanted(services.clock(), order.by, order.why)
        _remove(services, entry, Wish.DROPPED, wanted, hands)
        done = replace(wanted, removal=Removal.DONE)
        services.desired.put(entry.table, Wish.DROPPED, done)
        services.failures.clear(entry.table)
        return Done(entry, changed=True, words=f"dropped: {_all(found)}")

    return each_of(entries, "drop", order, one, say)


def reset(
    services: Services, entries: Iterable[TableEntry], order: Order, say: Say, hands: Hands
) -> Steered:
    """Removes these tables from the lake; they start again at their beginning in the log."""

    def one(entry: TableEntry) -> Done:
        known = services.desired.of(entry.table).reset
        if known is None or known.removal is Removal.NONE:
            _require_own(entry, "reset")
            _require_beginning(services, entry)
        found = remains(services, entry)
        if order.dry_run:
            words = f"would be: {found.words()}; then its log is merged again"
            return Done(entry, changed=True, words=words)
        wanted = known or Wanted(services.clock(), order.by, order.why)
        _remove(services, entry, Wish.RESET, wanted, hands)
        services.failures.clear(entry.table)
        services.desired.remove(entry.table, Wish.RESET)
        words = f"reset: {found.words()}; its log is merged again from now on"
        return Done(entry, changed=True, words=words)

    return each_of(entries, "reset", order, one, say)


def remains(services: Services, entry: TableEntry) -> Remains:
    """Returns the parts of a table that are there now.

    Raises:
        UnreachableError: if the catalog, or the quarantine's files, cannot be read.
    """
    from cdc_assets.lake.quarantined import QuarantineLake

    state = services.lake.state(entry.target, entry.shard_value)
    names = (*tables_beside(entry, state), *([entry.target] if state is not None else []))
    there = tuple(each for each in dict.fromkeys(names) if services.lake.exists(each))
    lake = QuarantineLake(services.config)
    _, count = lake.quarantined(entry.table.source, entry.table.qualified, 0)
    return Remains(there, count)


def _remove(
    services: Services, entry: TableEntry, wish: Wish, wanted: Wanted, hands: Hands
) -> None:
    services.desired.put(entry.table, wish, wanted)  # 1.
    hands.wait(entry)  # 2.
    _keep_beginning(services, entry)  # 3.
    begun = replace(wanted, removal=Removal.BEGUN)
    services.desired.put(entry.table, wish, begun)
    found = remains(services, entry)
    hands.tell(f"{entry.table}: {found.words()}")
    if found.quarantined:
        hands.clear(entry)  # 4.
    for name in found.tables:  # 5., 6.
        services.lake.drop(name)
    services.desired.remove(entry.table, Wish.REBUILD)


def _keep_beginning(services: Services, entry: TableEntry) -> None:
    """Tells the registry where the table begins, which the lake forgets with it.

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


def _ended(services: Services, entry: TableEntry, order: Order, known: Wanted | None) -> Done:
    if known is not None:
        words = f"is dropped already, {known.words()}"
        return Done(entry, changed=False, words=words)
    if not order.dry_run:
        wanted = Wanted(services.clock(), order.by, order.why)
        services.desired.put(entry.table, Wish.DROPPED, wanted)
    would = "would be " if order.dry_run else ""
    words = f"{would}dropped: nothing is merged into it any more; the lake keeps {entry.target}"
    return Done(entry, changed=True, words=words)


def _all(found: Remains) -> str:
    return f"nothing is merged into it any more; {found.words()}"


def _require_own(entry: TableEntry, command: str) -> None:
    """Requires that no other tables' rows would be removed along.

    Raises:
        TerminalError: if they are in the same lake table.
    """
    if entry.shard is not None:
        what = f"{command}: rows of other tables are in {entry.target}, and in its snapshots"
        remedy = "drop it without --lake, or build it anew: cdc-assets rebuild"
        raise TerminalError(what, where=f"table={entry.table}", remedy=remedy)


def _require_beginning(services: Services, entry: TableEntry) -> None:
    """Requires all of the log, for a table that begins again.

    Raises:
        TerminalError: if that is gone, or lies in another topic.
    """
    where = f"table={entry.table} topic={entry.topic}"
    remedy = services.config.source(entry.table.source).built_anew_by(entry.table)
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
