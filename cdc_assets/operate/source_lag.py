"""Sums up how far each source's tables are behind, in one number of each kind per source."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from cdc_assets.operate.survey import Condition

if TYPE_CHECKING:
    from cdc_assets.operate.status import TableStatus

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SourceLag:
    """How far the tables of a source are behind; those that are dropped are left out.

    Attributes:
        source: its name.
        tables: how many tables are counted.
        lag_records: the highest number of unmerged records of a table; without tables that people
            hold, which lag on purpose. None if no table's is known.
        lag_seconds: the highest age in Kafka of an unmerged record; the same holds.
        valid_through: everything committed at the source before this is in each of the tables,
            those that people hold, too. None if that is not proven of one of them.
        end_to_end_seconds: the age of ``valid_through``.
    """

    source: str
    tables: int
    lag_records: int | None
    lag_seconds: float | None
    valid_through: datetime | None
    end_to_end_seconds: float | None

    def to_dict(self) -> dict[str, Any]:
        """Returns it for ``--json``, with the keys that tables have; null if unknown."""
        through = self.valid_through
        return {
            "source": self.source,
            "tables": self.tables,
            "lag": {
                "changes": self.lag_records,
                "kafka_to_lake_seconds": self.lag_seconds,
                "end_to_end_seconds": self.end_to_end_seconds,
                "valid_through": through.isoformat() if through else None,
            },
        }


def source_lags(tables: Sequence[TableStatus]) -> tuple[SourceLag, ...]:
    """Returns the lag of each source that has tables, ordered by name."""
    found: dict[str, list[TableStatus]] = {}
    for each in tables:
        if each.condition is not Condition.DROPPED:
            found.setdefault(each.table.source, []).append(each)
    return tuple(_lag(source, mine) for source, mine in sorted(found.items()))


def _lag(source: str, tables: Sequence[TableStatus]) -> SourceLag:
    merged = [each for each in tables if each.survey.desired.held is None]
    through = _known(each.valid_through for each in tables)
    ages = _known(each.completeness.end_to_end_seconds(each.at) for each in tables)
    is_proven = len(through) == len(tables)
    return SourceLag(
        source,
        len(tables),
        max(_known(each.survey.lag_changes for each in merged), default=None),
        max(_known(each.survey.lag_seconds(each.at) for each in merged), default=None),
        min(through) if is_proven else None,
        max(ages) if is_proven else None,
    )


def _known(values: Iterable[T | None]) -> list[T]:
    return [each for each in values if each is not None]
