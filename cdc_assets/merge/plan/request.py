"""The request of one try: the records to be merged, and the largest size of the batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from cdc_assets.changes.offsets import Coordinate, OffsetRange
from cdc_assets.log.hours import HourWindow
from cdc_assets.merge.plan.result import BatchResult, UnknownColumn
from cdc_assets.registry import TableEntry

_GROWTH = 8


@dataclass(frozen=True, slots=True)
class TailRequest:
    """Records after the committed offsets, within an hour; None for no limit.

    ``last`` is the batch before in this hour.
    """

    window: HourWindow | None = None
    last: BatchResult | None = None


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """Offsets that were merged before; ``window`` is their hour."""

    ranges: tuple[OffsetRange, ...]
    window: HourWindow | None = None


@dataclass(frozen=True, slots=True)
class Quarantined:
    """Records in quarantine; None for all of the table.

    ``accept_overtaken`` and ``before_removal``: see `Replicator.replay_quarantined`.
    """

    coordinates: Sequence[Coordinate] | None
    accept_overtaken: bool = False
    before_removal: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True)
class Request:
    """One try.

    Attributes:
        entry: the table.
        run_id: recorded with the publish.
        work: records to be merged.
        limits: largest size of the batch, as a multiple of the source's limit of records.
        columns: those that only the records have shown; ``lacking`` those that some records lack.
        statements: coordinates of statements among the records; None before that was found out.
        all_schemas: whether all records are asked for the schema they were written with.
        tries: number of this try, from 1; every conflict with another writer adds one.
        cases: what earlier tries have found that their plans did not know, in words.
    """

    entry: TableEntry
    run_id: str
    work: TailRequest | ReplayRequest | Quarantined
    limits: int = 1
    columns: tuple[UnknownColumn, ...] = ()
    lacking: tuple[str, ...] = ()
    statements: tuple[Coordinate, ...] | None = None
    all_schemas: bool = False
    tries: int = 1
    cases: tuple[str, ...] = ()

    @property
    def has_learned(self) -> bool:
        """Whether an earlier try has found out something about the same records."""
        return bool(self.columns or self.lacking or self.statements or self.all_schemas)

    def with_larger_limit(self) -> Request:
        """Returns the request with a larger limit."""
        return replace(self, limits=self.limits * _GROWTH, statements=None)

    def with_columns(self, found: tuple[UnknownColumn, ...]) -> Request:
        """Returns the request with more columns."""
        return replace(self, columns=(*self.columns, *found))

    def without(self, columns: tuple[str, ...]) -> Request:
        """Returns the request with columns that records lack."""
        return replace(self, lacking=(*self.lacking, *columns))

    def with_statements(self, statements: tuple[Coordinate, ...]) -> Request:
        """Returns the request with the statements' coordinates; columns are found out again."""
        return replace(self, statements=statements, columns=(), lacking=())

    def with_all_schemas(self) -> Request:
        """Returns the request that asks all records for their schemas, as some are new."""
        return replace(self, all_schemas=True)

    def with_shared_topic(self) -> Request:
        """Returns the request for the table's own records in a topic that has others'."""
        entry = replace(self.entry, is_shared=True)
        return Request(
            entry, self.run_id, self.work, self.limits, tries=self.tries, cases=self.cases
        )

    def with_case(self, case: str) -> Request:
        """Returns the request with one more thing that a plan did not know."""
        return self if case in self.cases else replace(self, cases=(*self.cases, case))

    def next_try(self) -> Request:
        """Returns the request for a try after another writer has published."""
        return replace(self, tries=self.tries + 1, statements=None)

    def for_work(self, work: TailRequest | ReplayRequest) -> Request:
        """Returns a request for other work of the same run, with nothing found out yet."""
        return Request(self.entry, self.run_id, work)
