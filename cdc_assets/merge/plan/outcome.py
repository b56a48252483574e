"""What can become of a try to merge a table's next batch: one of these, decided upon in one place.

Nothing of a try that ends otherwise than `Merged` is visible to anybody.
"""

from __future__ import annotations

from dataclasses import dataclass

from cdc_assets.changes.offsets import Coordinate
from cdc_assets.errors import CdcError, ConflictError
from cdc_assets.merge.plan.result import BatchResult, QuarantineReplay, UnknownColumn, Waiting


@dataclass(frozen=True, slots=True)
class Merged:
    """The batch is published, or had nothing in it that the table lacks."""

    result: BatchResult


@dataclass(frozen=True, slots=True)
class Requeued:
    """Records were taken out of the quarantine, as far as they could be merged."""

    replay: QuarantineReplay


@dataclass(frozen=True, slots=True)
class Nothing:
    """There is nothing more that may be merged now."""


@dataclass(frozen=True, slots=True)
class Longer:
    """The batch ends inside something whose rest may lie behind its end.

    Attributes:
        error: what to say if no longer batch can be had.
        may_grow: whether the log holds more.
    """

    error: CdcError
    may_grow: bool


@dataclass(frozen=True, slots=True)
class Wider:
    """Records without a schema have columns that the plan did not know; the next one does."""

    found: tuple[UnknownColumn, ...]


@dataclass(frozen=True, slots=True)
class Lacking:
    """Records without a schema lack columns; the next plan has looked into that."""

    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Told:
    """Statements on the table lie among its records; the next plan knows what they have done.

    Attributes:
        where: they lie.
    """

    where: tuple[Coordinate, ...]


@dataclass(frozen=True, slots=True)
class Unwritten:
    """Records have schemas that the plan did not know; the next one has looked for all."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """Another writer came first: the batch is planned again on what it left."""

    error: ConflictError


Unlike = Wider | Lacking | Told | Unwritten
"""Its records have something in them that the plan did not know."""

Outcome = Merged | Requeued | Waiting | Nothing | Longer | Unlike | Conflict
