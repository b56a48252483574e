"""Keeps the findings of a batch's first try for the tries that follow."""

from __future__ import annotations

from dataclasses import dataclass

from cdc_assets.changes.names import TableName
from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.merge.intake.source_facts import SourceAnswers
from cdc_assets.merge.plan.request import Request
from cdc_assets.schema.ddl import Ddl
from cdc_assets.schema.history import StatementHistory


@dataclass(frozen=True, slots=True)
class Held:
    """The findings of a batch's first try, kept for the tries that follow from what it found.

    A source that is altered all the time would otherwise show each try something new.

    Attributes:
        batch: identifies the batch.
        end: of the batch, exclusive.
        answers: answers about the source's table.
        before: the table's history before the statements; None without any.
        statements: on the table, among the batch's records.
        has_read: whether the statements that the request names were read; they may all be on other
            tables.
    """

    batch: tuple[TableName, int, int]
    end: OffsetVector
    answers: SourceAnswers
    before: StatementHistory | None = None
    statements: tuple[Ddl, ...] = ()
    has_read: bool = False


class Findings:
    """The findings of the batch that was tried last; those of others are forgotten."""

    def __init__(self) -> None:
        self._held: Held | None = None

    @property
    def statements(self) -> tuple[Ddl, ...]:
        """Statements on the table, among the batch's records."""
        return self._held.statements if self._held else ()

    def forget(self) -> None:
        """Forgets them, as the next try finds out for itself."""
        self._held = None

    def keep(self, held: Held) -> None:
        """Keeps these for later tries of the batch."""
        self._held = held

    def of(self, request: Request) -> Held | None:
        """Returns those that a request follows from; None if it follows from none."""
        held = self._held
        is_same = held is not None and held.batch == batch_of(request)
        return held if request.has_learned and is_same else None

    def known_to(self, request: Request) -> Held | None:
        """Returns those of `of`, unless statements of the request are yet to be read."""
        held = self.of(request)
        return None if held and request.statements and not held.has_read else held


def batch_of(request: Request) -> tuple[TableName, int, int]:
    """Returns the value that identifies the batch of a request among those of a run."""
    return request.entry.table, request.limits, request.tries
