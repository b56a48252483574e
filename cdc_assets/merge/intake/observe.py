"""Counts a batch's records in the same pass that folds them.

A function of ours (``jvm/src``, ``figures/Records``) sees each record once, and those of a Kafka
partition in the order of their offsets.

The figures of a batch, which `cdc_assets.merge.intake.observe` counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_assets.changes.latency import BOUNDS, LatencyHistogram
from cdc_assets.changes.offsets import OffsetRange
from cdc_assets.formats.record_keys import has_moved
from cdc_assets.formats.spec import CONTROL, OTHER, ROW_OPS, STATEMENT, TOMBSTONE
from cdc_assets.merge.statements.observed import Observed

_NO_CHANGES: Final = (TOMBSTONE, CONTROL, STATEMENT, OTHER)
_OPS: Final = (*ROW_OPS, "d", "t", *_NO_CHANGES)
_MOST_SCHEMAS: Final = 16
_MICROSECOND: Final = timedelta(microseconds=1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_BOUNDS: Final = [round(each * 1_000_000) for each in BOUNDS]


@dataclass(frozen=True, slots=True)
class OptionalFigures:
    """Figures that not every batch has.

    Attributes:
        others: whether the topic may hold changes of other tables.
        key_schemas: whether the records have a ``key_schema``.
        before: what was merged before, as `RestartWatch.before` tells it; None if no restart is
            looked for.
    """

    others: bool = False
    key_schemas: bool = False
    before: Mapping[str, object] | None = None


_USUAL: Final = OptionalFigures()


class BatchObserver:
    """An observer that attaches figures to a decoded batch and returns them after an action.

    Attributes:
        also: the figures in addition to the usual ones.
    """

    def __init__(
        self,
        ranges: Sequence[OffsetRange],
        asked_at: datetime,
        watched: OptionalFigures = _USUAL,
        *,
        pardoned: Sequence[str] = (),
    ) -> None:
        """Stores the figures to observe.

        Args:
            ranges: of the batch.
            asked_at: time that ages are measured against.
            watched: figures in addition to the usual ones.
            pardoned: columns, by their names in records, that records may lack.
        """
        self._pardoned = pardoned
        self.also = watched
        self._ranges = ranges
        self._asked_at = asked_at
        self._observed = Observed("batch")

    @property
    def name(self) -> str:
        """Name of the observation."""
        return self._observed.name

    def attach(self, decoded: DataFrame) -> DataFrame:
        """Returns the same rows, observed."""
        counted = self._observed.attach(decoded, "batch", self._wanted, *_parts(self.also))
        return counted.drop("pair", "key_schema")

    @property
    def _wanted(self) -> Mapping[str, object]:
        """The figures to count: see ``figures/Records.java``."""
        also = self.also
        wanted: dict[str, object] = {
            "ops": _OPS,
            "bounds": _BOUNDS,
            "asked_at": (self._asked_at - _EPOCH) // _MICROSECOND,
            "ranges": [(each.partition, each.start, each.end) for each in self._ranges],
            "pardoned": [*self._pardoned],
            "most_tables": MOST_OTHERS if also.others else 0,
            "most_schemas": _MOST_SCHEMAS,
        }
        return wanted if also.before is None else {**wanted, "before": also.before}

    def figures(self, read: DataFrame) -> BatchFigures | None:
        """Returns the observed figures; None if Spark has not reported them.

        Args:
            read: the frame whose execution has read all the attached rows.
        """
        got = self._observed.figures(read)
        if got is None:
            return None
        by_op = {op: got["by_op"].get(op, 0) for op in _OPS}
        is_of_one = got["min_read"] == got["max_read"]
        begins_with_one = is_of_one and got["begun"] == len(self._ranges)
        return BatchFigures(
            records=got["total"] - sum(by_op[each] for each in _NO_CHANGES),
            by_op={op: by_op[op] for op in (*ROW_OPS, "d", "t")},
            rejected=got["rejected"] + got["unwritten"],
            ages=LatencyHistogram.from_counts(dict(enumerate(got["ages"]))),
            asked_at=self._asked_at,
            lone_tombstones=bool(by_op[TOMBSTONE]) and not got["is_paired"],
            controls=by_op[CONTROL] + by_op[STATEMENT],
            others=by_op[OTHER],
            other_tables=tuple(sorted(got["other_tables"])),
            max_read=got["max_read"],
            min_floating=got["min_floating"],
            begun_at_start=got["max_read"] if begins_with_one else None,
            signs=got,
        )


def _parts(also: OptionalFigures) -> list[Expression]:
    """Returns the parts of a record, in the order of ``figures/Records.java``."""
    nothing = F.lit(None).cast("bigint")
    key_schema = F.col("key_schema") if also.key_schemas else nothing
    # A position may have one number only: no restart is looked for then.
    numbers = (F.col("n0"), F.col("n1")) if also.before else (nothing, nothing)
    return [
        *map(F.col, ("partition", "offset", "op", "ts", "is_unwritten")),
        F.col("reject").isNotNull(),
        F.col("in_doubt"),
        has_moved(),
        *map(F.col, ("pair", "unknown", "absent", "other_table")),
        key_schema,
        *map(F.col, ("read_lsn", "floating_lsn", "told_ms")),
        *numbers,
        *map(F.col, ("may_witness", "floats")),
    ]


MOST_OTHERS: Final = 1000
"""Most other tables of a topic that are named."""


@dataclass(frozen=True, slots=True)
class BatchFigures:
    """Counts of one batch's records.

    Attributes:
        records: with a value.
        by_op: changes per operation.
        rejected: number of records that cannot be merged.
        ages: latencies at ``asked_at``; to be shifted by the time until the publish.
        lone_tombstones: whether a record without a value may follow no delete event.
        controls: records that are no changes and were passed over.
        others: changes of other tables in the same topic; ``other_tables`` names some of them.
        max_read, min_floating: see `cdc_assets.changes.position`; None if there are none.
        begun_at_start: the LSN of the one snapshot that the batch has rows of, if its rows begin
            with the first offset of every range; None otherwise.
        signs: all that was counted, as ``figures/Records.java`` tells it: each guard knows the
            name of its own.
    """

    records: int
    by_op: dict[str, int]
    rejected: int
    ages: LatencyHistogram
    asked_at: datetime
    lone_tombstones: bool
    controls: int
    others: int
    other_tables: tuple[str, ...]
    max_read: int | None
    min_floating: int | None
    begun_at_start: int | None = None
    signs: Mapping[str, Any] = field(default_factory=dict[str, Any], compare=False)

    @property
    def may_be_anywhere(self) -> bool:
        """Whether a change may have any position, and a different one in each delivery.

        Truncates have no key, and may come again in any partition. So may changes without a last
        commit, or without an event.
        """
        is_odd = self.by_op["t"] > 0 or self.lone_tombstones
        return is_odd or self.min_floating is not None

    def with_others(self, left_out: Mapping[str, int]) -> BatchFigures:
        """Adds the numbers, by table, of other tables' changes that the batch was not given."""
        frequent = sorted(left_out, key=lambda name: (-left_out[name], name))[:MOST_OTHERS]
        names = sorted({*self.other_tables, *frequent})
        others = self.others + sum(left_out.values())
        return replace(self, others=others, other_tables=tuple(names))
