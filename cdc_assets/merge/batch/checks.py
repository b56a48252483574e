"""Checks that a batch can be applied as it is, before any of it is refused or written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_assets.changes.mode import Mode
from cdc_assets.errors import CutShortError
from cdc_assets.merge.batch.passes import Pass
from cdc_assets.merge.fold.one_place import require_places_of_their_own
from cdc_assets.merge.fold.scattered import require_gathered
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.merge.statements.steps import Steps


def require_moved_keys_whole(plan: BatchPlan) -> None:
    """Checks that no older change of a key that has moved is left for a later batch.

    Raises:
        CutShortError: if one may be.
    """
    if plan.moves_keys and plan.is_limited and not (plan.replay or plan.needs_keys_apart):
        what = "a column of the key was renamed or retyped, and keys are in other partitions"
        remedy = "older changes of theirs may follow: a longer batch is tried"
        raise CutShortError(what, where=plan.where, remedy=remedy)


def require_partial_whole(this: Pass) -> None:
    """Checks that no partial image is completed from a row of which older changes are unread.

    Keys may go on moving after the batch that notices it: a producer learns of added partitions up
    to minutes later, a catalog shows a rename before the connector comes to it.

    Raises:
        CutShortError: if one may be.
    """
    plan = this.plan
    may_miss = plan.is_limited and not plan.replay and plan.mode is not Mode.CHANGELOG
    was_settled = plan.published is not None and bool(plan.published.carried.settled_at)
    have_moved = not plan.keys_remain or (plan.has_other_keys and was_settled)
    if may_miss and plan.schema.key and this.folded.partial and have_moved:
        what = "keys have moved between partitions, and changes leave values alone"
        remedy = "older changes of theirs may follow: a longer batch is tried"
        raise CutShortError(what, where=plan.where, remedy=remedy)


@dataclass(frozen=True, slots=True)
class Checks:
    """The checks of a batch's last pass.

    Attributes:
        steps: measures.
        unread: for a table's first batch, all records that the log held, raw; None if their keys
            were checked for another table of the topic.
        require_whole: of `cdc_assets.merge.intake.planning.Pending`.
    """

    steps: Steps
    unread: DataFrame | None
    require_whole: Callable[[Mapping[int, int]], None]

    def require_all(self, this: Pass) -> None:
        """Does all checks.

        Raises:
            CdcError: if one fails.
        """
        require_partial_whole(this)
        self._require_whole(this)
        self._require_gathered(this)
        self._require_places(this)

    def _require_whole(self, this: Pass) -> None:
        """Checks for redelivery, if more than a tombstone follows a partition's newest change."""
        ends = {each.partition: each.end for each in this.plan.ranges}
        newest = this.folded.newest.items()
        if any(offset + 1 + is_delete < ends[p] for p, (offset, is_delete) in newest):
            with self.steps.step("look at transactions"):
                self.require_whole({p: offset for p, (offset, _) in newest})

    def _require_gathered(self, this: Pass) -> None:
        """Checks that keys stay in their partition: in each batch those of its changes.

        Before the first batch the own keys of all records are checked, as batches of a first load
        may end anywhere, and the log is complete only before them.
        """
        plan = this.plan
        if not plan.needs_keys_apart:
            return
        with self.steps.step("look for keys in two partitions"):
            if plan.published is None and self.unread is not None:
                require_gathered(self.unread, F.col("key"), plan)
            if len(plan.ranges) > 1:
                decoded = this.batch.changes.decoded(this.knowledge)
                require_gathered(decoded, F.col("key"), plan)

    def _require_places(self, this: Pass) -> None:
        """Checks that changes that seem to be sent again are no others."""
        if this.plan.repeats_places and this.plan.schema.key:
            with self.steps.step("look for changes at one place"):
                decoded = this.batch.changes.decoded(this.knowledge)
                require_places_of_their_own(decoded, this.plan)
