"""The possible outcomes of a try to merge a table's next batch, which one place decides upon.

A try with another outcome than `Merged` leaves nothing that readers can see.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from cdc_assets.changes.offsets import Coordinate
from cdc_assets.errors import CdcError, ConflictError
from cdc_assets.merge.plan.result import BatchResult, QuarantineReplay, UnknownColumn, Waiting


@dataclass(frozen=True, slots=True)
class Merged:
    """The batch is published, or held nothing that the table lacked."""

    result: BatchResult


@dataclass(frozen=True, slots=True)
class Requeued:
    """Records left the quarantine, as far as they could be merged."""

    replay: QuarantineReplay


@dataclass(frozen=True, slots=True)
class NothingNew:
    """There is nothing more that may be merged now."""


@dataclass(frozen=True, slots=True)
class NeedsLongerBatch:
    """The batch is cut short: the rest of something that it holds may follow its end.

    Attributes:
        error: the error to raise if no longer batch is possible.
        may_grow: whether a longer batch may hold more.
    """

    error: CdcError
    may_grow: bool


@dataclass(frozen=True, slots=True)
class NeedsColumns:
    """Records without a schema have columns unknown to the plan; the next plan knows them."""

    case: ClassVar = "records have a column that the table lacks"
    found: tuple[UnknownColumn, ...]


@dataclass(frozen=True, slots=True)
class MissesColumns:
    """Records without a schema lack columns; the next plan takes account of that."""

    case: ClassVar = "records lack a column that the table has"
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NeedsDdl:
    """The table's records include statements on it; the next plan knows their effects.

    Attributes:
        where: coordinates of the statements.
    """

    case: ClassVar = "there are statements on the table among its records"
    where: tuple[Coordinate, ...]


@dataclass(frozen=True, slots=True)
class NeedsSchemas:
    """Records have schemas unknown to the plan; the next plan has looked for all of them."""

    case: ClassVar = "a record has a schema that was not planned for"


@dataclass(frozen=True, slots=True)
class NeedsAllSchemas:
    """Records of the topic name other tables; the next try reads only the table's own."""

    case: ClassVar = "a record names another table"


@dataclass(frozen=True, slots=True)
class Conflict:
    """Another writer published first: the batch is planned again on its snapshot."""

    error: ConflictError


Replan = NeedsColumns | MissesColumns | NeedsDdl | NeedsSchemas | NeedsAllSchemas
"""The records hold something that the plan did not know; ``case`` says what, in words."""

Outcome = Merged | Requeued | Waiting | NothingNew | NeedsLongerBatch | Replan | Conflict
