"""What is asked of one try: which records are to be merged, and with how much room."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cdc_assets.changes.offsets import Coordinate, OffsetRange
from cdc_assets.log.hours import HourWindow
from cdc_assets.merge.plan.result import BatchResult, UnknownColumn
from cdc_assets.registry import TableEntry

_GROWTH = 8


@dataclass(frozen=True, slots=True)
class Tail:
    """What comes after the committed offsets, within an hour; None for no limit.

    ``last`` is the batch before it in this hour.
    """

    window: HourWindow | None = None
    last: BatchResult | None = None


@dataclass(frozen=True, slots=True)
class Again:
    """Offsets that were merged before; ``window`` is the hour that they are of."""

    ranges: tuple[OffsetRange, ...]
    window: HourWindow | None = None


@dataclass(frozen=True, slots=True)
class Quarantined:
    """Records that lie in quarantine; None for all of the table.

    ``accept_overtaken``: see `Replicator.replay_quarantined`.
    """

    coordinates: Sequence[Coordinate] | None
    accept_overtaken: bool = False


@dataclass(frozen=True, slots=True)
class Request:
    """One try.

    Attributes:
        entry: the table.
        run_id: recorded with the publish.
        work: what is to be merged.
        limits: how many times the source's limit of records the batch may hold.
        columns: those that only the records have shown; ``lacking`` those that some lack.
        told: where statements lie among the records; None before that was found out.
        all_schemas: whether all records are asked for the schema they were written with.
        tries: how often the batch was planned because another writer came first.
    """

    entry: TableEntry
    run_id: str
    work: Tail | Again | Quarantined
    limits: int = 1
    columns: tuple[UnknownColumn, ...] = ()
    lacking: tuple[str, ...] = ()
    told: tuple[Coordinate, ...] | None = None
    all_schemas: bool = False
    tries: int = 1

    @property
    def has_learned(self) -> bool:
        """Whether a try before this one has told something of the same records."""
        return bool(self.columns or self.lacking or self.told or self.all_schemas)

    def longer(self) -> Request:
        """The same with more room."""
        return replace(self, limits=self.limits * _GROWTH, told=None)

    def wider(self, found: tuple[UnknownColumn, ...]) -> Request:
        """The same with more columns."""
        return replace(self, columns=(*self.columns, *found))

    def without(self, columns: tuple[str, ...]) -> Request:
        """The same, knowing that records lack columns."""
        return replace(self, lacking=(*self.lacking, *columns))

    def knowing(self, told: tuple[Coordinate, ...]) -> Request:
        """The same, knowing where statements lie; what they do to columns is learned anew."""
        return replace(self, told=told, columns=(), lacking=())

    def with_all_schemas(self) -> Request:
        """The same, knowing that records have schemas that were not met before."""
        return replace(self, all_schemas=True)

    def once_more(self) -> Request:
        """The same, planned on what another writer has left."""
        return replace(self, tries=self.tries + 1, told=None)

    def for_work(self, work: Tail | Again) -> Request:
        """Other work of the same run, with nothing learned yet."""
        return Request(self.entry, self.run_id, work)
