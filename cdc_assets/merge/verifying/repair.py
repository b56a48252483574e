"""Repairs rows that were proven to differ: replaces them with the source's.

`cdc_assets.merge.verifying.judging` has proven of a key that the newest change of it that the lake
has merged is what the source showed when it was read. So the row is put in as that version, and
its position only has to make older changes lose and newer ones win:

- Each change that was merged when the lake was read *before* the source has a position no higher
  than the highest that had been applied then. The row gets this highest position.
- Each change that the source did not show yet commits after those that the lake had merged by
  then, so that its position is higher.

The position of the source's log at the time of reading would not do: PostgreSQL's changes have the
position of the commit *before* theirs, which may be far below it if the source was at rest.

1. Plan on the table's head, and look the keys up there: those of which a change was merged since
   they were judged are left alone.
2. Delete the rows of the others on a branch, remember the deletes of keys that the source does not
   have, append the source's rows. Offsets stay as they are.
3. Publish, as any batch: all of it or nothing. If another writer came first, repeat from 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_assets.changes.names import HELPERS
from cdc_assets.changes.position import Scheme
from cdc_assets.databases.statements import DIGEST, KEY, LAKE_TEXT
from cdc_assets.errors import ConfigError, ConflictError, TerminalError, TransientError
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.merge.statements.failures import translated
from cdc_assets.merge.verifying.canonical import digest, of_lake_texts
from cdc_assets.merge.verifying.judging import Difference, DifferenceKind
from cdc_assets.merge.verifying.lake_rows import LakeRows
from cdc_assets.merge.verifying.putting import AT, EXISTS, Putting
from cdc_assets.schema.comparing import Compared

_TRIES: Final = 20
"""Many, as other writers publish every few seconds, and each try takes a few."""
_PATIENCE: Final = 3
"""So often others come first before they are asked to wait."""
_NUMBER: Final = f"{HELPERS}number"


@dataclass(frozen=True, slots=True)
class RowRepair:
    """A difference, and the position for the row that replaces it, hexadecimal."""

    difference: Difference
    position: str


@dataclass(frozen=True, slots=True)
class RepairCounts:
    """Numbers of keys.

    Attributes:
        repaired: those that were repaired.
        unrepaired: those that cannot be, as columns are not compared.
        unheld: those that cannot be, as the lake's types cannot hold a value.
    """

    repaired: int = 0
    unrepaired: int = 0
    unheld: int = 0


def highest_of(plan: BatchPlan) -> str:
    """Returns the highest position that was applied when a plan was made, hexadecimal."""
    return max(plan.published.carried.applied.values(), default="") if plan.published else ""


def require_order(scheme: Scheme, partitions: int, where: str) -> None:
    """Refuses to put rows into a table where no position shows which change of a key is newer.

    Raises:
        ConfigError: if only offsets order its changes, and there are several partitions.
    """
    if scheme is Scheme.OFFSET and partitions > 1:
        what = (
            "nothing is put right: only offsets order its changes, and these say nothing across "
            "partitions"
        )
        raise ConfigError(what, where=where, remedy="compare it only, or rebuild it")


def generation_of(plan: BatchPlan) -> int:
    """Returns the number of rebuilds that the table was swapped in by, see `Carried.generation`."""
    return plan.published.carried.generation if plan.published else 0


def require_generation(plan: BatchPlan, seen: int) -> None:
    """Requires that no rebuild was swapped in since the table was looked at first.

    What was compared then, and put in since, is gone; columns may be others.

    Raises:
        TransientError: if one was.
    """
    if generation_of(plan) != seen:
        what = "a rebuild was swapped in since the table was compared"
        remedy = "run the same command again, which begins again"
        raise TransientError(what, where=plan.where, remedy=remedy)


def held(
    spark: Callable[[], SparkSession], wanted: Sequence[RowRepair], columns: Sequence[Compared]
) -> Sequence[RowRepair]:
    """Returns the repairs with values that the lake's types hold exactly.

    Args:
        spark: returns the session.
        wanted: repairs.
        columns: those of the source's values.
    """
    rows = [
        (n, of.source_digest, *of.source_values)
        for n, of in enumerate(each.difference for each in wanted)
        if of.source_values is not None
    ]
    if not rows:
        return wanted
    texts = ", ".join(f"{LAKE_TEXT}{n} string" for n in range(len(columns)))
    given = spark().createDataFrame(rows, f"{_NUMBER} int, {DIGEST} string, {texts}")
    made = given.select(_NUMBER, DIGEST, *of_lake_texts(columns))
    lost = made.where(digest(columns) != F.col(DIGEST)).select(_NUMBER).collect()
    numbers = {number for (number,) in lost}
    return [each for n, each in enumerate(wanted) if n not in numbers]


class Repair:
    """The repair of one table's rows.

    Args:
        putting: replaces rows; its way is asked for, once others came first a few times.
        generation: of the table that was compared, see `Carried.generation`.
    """

    def __init__(self, putting: Putting, generation: int) -> None:
        self._putting = putting
        self._lakes, self._entry, self._of = putting.lakes, putting.entry, putting.comparison
        self._way = putting.way
        self._generation = generation

    def apply(self, wanted: Sequence[RowRepair]) -> RepairCounts:
        """Replaces the differing rows with the source's.

        Raises:
            ConflictError: if other writers came first each time.
            CdcError: as for any batch; nothing was published, or all of it.
        """
        able = [each for each in wanted if self._is_able(each.difference)]
        if any(not each.position for each in able):
            what = "no change of the table was applied yet: it is unknown what a row is newer than"
            raise TerminalError(what, where=self._where, remedy=f"rebuild {self._entry.table}")
        with translated("look at what is to be put right", self._where):
            left = held(self._lakes.spark, able, self._of.columns)
        counts = RepairCounts(0, len(wanted) - len(able), len(able) - len(left))
        if not left:
            return counts
        try:
            return replace(counts, repaired=self._repaired(left))
        finally:
            self._way.clear()

    def _repaired(self, wanted: Sequence[RowRepair]) -> int:
        tries = 1
        while True:
            try:
                return self._tried(wanted)
            except ConflictError:
                if tries == _TRIES:
                    raise
                if tries >= _PATIENCE:
                    self._way.ask()
                tries += 1

    def _is_able(self, difference: Difference) -> bool:
        """Returns whether the source or the lake has all columns of the row exactly."""
        return not self._of.unread or difference.kind in {
            DifferenceKind.DIFFERENT,
            DifferenceKind.ONLY_IN_LAKE,
        }

    def _tried(self, wanted: Sequence[RowRepair]) -> int:
        # 1. plan, and look up
        plan = self._lakes.planner.replay(self._entry, (), self._putting.run_id).plan
        require_generation(plan, self._generation)
        rows = self._putting.rows(plan)
        look = rows.look([each.difference.key for each in wanted])
        still = [
            each for each in wanted if look.version(each.difference.key) == each.difference.version
        ]
        if still:
            with translated("put rows right", self._where):
                self._put(plan, rows, still)
        return len(still)

    def _put(self, plan: BatchPlan, rows: LakeRows, wanted: Sequence[RowRepair]) -> None:
        # 2. and 3.
        highest = max(each.position for each in wanted)
        self._putting.put(plan, rows, self._source_rows(wanted), len(wanted), highest)

    def _source_rows(self, wanted: Sequence[RowRepair]) -> DataFrame:
        """Returns the frame that `cdc_assets.merge.verifying.putting` describes."""
        width = len(self._of.columns)
        nothing = (None,) * width
        rows = [
            (
                *each.difference.key,
                *(each.difference.source_values or nothing),
                each.difference.source_values is not None,
                bytearray.fromhex(each.position),
            )
            for each in wanted
        ]
        keys = [f"{KEY}{n} string" for n in range(len(self._of.key))]
        values = [f"{LAKE_TEXT}{n} string" for n in range(width)]
        own = [f"{EXISTS} boolean", f"{AT} binary"]
        return self._lakes.spark().createDataFrame(rows, ", ".join([*keys, *values, *own]))

    @property
    def _where(self) -> str:
        return f"table={self._entry.table} lake={self._entry.target}"
