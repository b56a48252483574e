"""Detects positions that went back in a batch; refuses a restart, or gives it an accepted epoch.

The rule is `cdc_assets.changes.restarts`; it looks at the records of a partition one after the
other. The pass that folds a batch sees them in that order, too, and tells at next to no cost
whether one of them may break the rule (the sign ``suspicious``). Only then are they read again and
examined (`contradictions`), and changes without a last commit compared with those of their keys
(`overtaken`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Final

from pyspark.sql import DataFrame

from cdc_assets.changes.position import Scheme
from cdc_assets.changes.restarts import (
    CLOCK_MS,
    COMMIT_NUMBERS,
    LEEWAY_MS,
    Commit,
    MergedState,
    Permit,
    Restart,
    Restarts,
    commit_of,
    newest_after,
    permitted,
)
from cdc_assets.errors import TerminalError
from cdc_assets.formats.order import Epochs
from cdc_assets.merge.fold.summary import Folded
from cdc_assets.merge.guards.restarts.contradictions import PriorFacts, in_order, restart_of
from cdc_assets.merge.intake.observe import BatchFigures
from cdc_assets.merge.plan.plan import BatchPlan

_UNKNOWN_CLOCK: Final = timedelta(minutes=5)
"""Largest assumed lead of a source's clock over ours, for tables that carried no times yet."""

Decode = Callable[[Epochs], AbstractContextManager[DataFrame]]


class RestartError(TerminalError):
    """The source's positions went back, and no operator has accepted the restart."""

    page = "source-restarted"

    def __init__(self, plan: BatchPlan, restart: Restart) -> None:
        self.restart = restart
        what = (
            "the source's positions went back, as after a restore or an upgrade by dump: "
            f"{restart.describe(plan.layout.scheme)}"
        )
        entry = plan.entry
        where = (
            f"table={entry.table} topic={entry.topic} partition={restart.partition} "
            f"offset={restart.offset}"
        )
        name = f"{entry.table.source}.{entry.table.qualified}"
        remedy = (
            f"`cdc-assets accept-restart {name}` takes later changes as newer; rows that the "
            "source no longer has stay in the table unless it sends their deletes. "
            f"`cdc-assets rebuild {name}` rebuilds the table"
        )
        super().__init__(what, where=where, remedy=remedy)


def state_before(
    scheme: Scheme, seen: MergedState, merged: Commit | None, pending: Mapping[int, Restart]
) -> Mapping[str, object]:
    """Returns the state by which witnesses are detected during reading: ``figures/Witnesses.java``.

    Args:
        scheme: of the positions.
        seen: before the records.
        merged: the highest commit that a key may have in the lake; None if nothing tells it.
        pending: accepted restarts, by partition.
    """
    return {
        "numbers": COMMIT_NUMBERS[scheme],
        "highest": seen.highest,
        "newest_ms": seen.newest_ms,
        "highest_of_all": seen.highest_of_all,
        "newest_of_all_ms": seen.newest_of_all_ms,
        "truncated": seen.truncated,
        "merged": merged,
        "pending": {p: each.before_ms for p, each in pending.items()},
        "keys_stay": seen.keys_stay,
        "apart_ms": seen.apart_ms,
        "clock_ms": CLOCK_MS,
    }


class RestartWatch:
    """A search for restarts in one batch.

    Attributes:
        restarts: the known ones, and those that this batch adds.
    """

    def __init__(self, plan: BatchPlan) -> None:
        carried = Restarts.from_json(plan.numbering)
        generation = plan.published.carried.generation if plan.published else 0
        self.restarts = permitted(carried, Permit.all_from_json(plan.permit), generation)
        self._plan = plan
        self._seen = seen_before(plan, carried)
        self._looked = False

    @classmethod
    def of(cls, plan: BatchPlan) -> RestartWatch | None:
        """Returns a watch; None for other schemes, and for replays."""
        is_watched = plan.layout.scheme in COMMIT_NUMBERS and not plan.replay
        return cls(plan) if is_watched else None

    # ── what costs next to nothing ───────────────────────────────────────────────────────

    def before(self) -> Mapping[str, object]:
        """Returns the merged state before the batch, for the pass that folds."""
        plan = self._plan
        pending = self.restarts.all_pending(plan.partitions)
        return state_before(plan.layout.scheme, self._seen, _highest_merged(plan), pending)

    def must_look(self, figures: BatchFigures, folded: Folded) -> bool:
        """Whether the batch may hold a restart, according to its fold and its figures."""
        is_possible = figures.signs["suspicious"] or figures.by_op["t"] > 0
        return is_possible and not self._looked and bool(folded.highest)

    # ── the look itself ──────────────────────────────────────────────────────────────────

    def look(self, decode: Decode) -> bool:
        """Examines the batch's records in their order.

        Args:
            decode: yields them, decoded with these epochs: see
                `cdc_assets.merge.guards.restarts.overtaken.looked_at`.

        Returns:
            Whether an accepted restart begins in this batch; then its positions change.

        Raises:
            RestartError: at a restart that nobody has accepted.
        """
        self._looked = True
        before = self.restarts
        while begun := self._begun(decode):
            for partition, offset in begun.items():
                self.restarts = self.restarts.begun(partition, offset)
        return self.restarts != before

    def _begun(self, decode: Decode) -> Mapping[int, int]:
        """Returns the offset where an accepted restart begins, by partition.

        Raises:
            RestartError: if there is a witness of one that is not accepted.
        """
        pending = self.restarts.all_pending(self._plan.partitions)
        with decode(self.restarts.epochs) as placed:
            begins, witnesses = self._begins_and_witnesses(placed, pending)
            others = [each for p, each in witnesses.items() if p not in pending]
            if others:
                raise RestartError(self._plan, min(others, key=lambda each: each.after_ms))
            if not witnesses:
                return begins
            # Witnesses show more about their own partitions: `cdc_assets.changes.restarts.begin`.
            more, _ = self._begins_and_witnesses(placed, witnesses)
        return {p: min(more.get(p, at), begins.get(p, at)) for p, at in {**begins, **more}.items()}

    def _begins_and_witnesses(
        self, placed: DataFrame, pending: Mapping[int, Restart]
    ) -> tuple[Mapping[int, int], Mapping[int, Restart]]:
        """Returns, by partition, where a pending restart begins, and the first witness of any."""
        found = in_order(placed, self._known(pending)).collect()
        begins = {row["partition"]: row["begin"] for row in found if row["begin"] is not None}
        witnesses = {
            row["partition"]: restart_of(row["partition"], row["witness"])
            for row in found
            if row["witness"] is not None
        }
        return begins, witnesses

    def _known(self, pending: Mapping[int, Restart]) -> PriorFacts:
        return PriorFacts(self._plan.partitions, self._plan.layout.scheme, self._seen, pending)

    def carried(self, figures: BatchFigures, folded: Folded) -> str:
        """Returns the numbering that the batch's publish records."""
        newest_ms = figures.signs["newest_told_ms"]
        latest = max(folded.latest_ms.values(), default=None)
        is_hidden = newest_ms is not None and latest is not None and newest_ms > latest + LEEWAY_MS
        is_ordered = not (is_hidden or folded.is_unordered)
        newest = newest_after(folded.latest_ms, newest_ms, is_ordered=is_ordered)
        return self.restarts.used().read(newest).to_json()


def _highest_merged(plan: BatchPlan) -> Commit | None:
    """Returns the highest commit that a key may have in the lake; None if unknown."""
    carried = plan.published.carried if plan.published else None
    if carried is None or not carried.applied:
        return None
    highest = max(*carried.applied.values(), carried.max_tombstone, plan.begins_after)
    return commit_of(plan.layout.scheme, highest)


def seen_before(plan: BatchPlan, carried: Restarts) -> MergedState:
    """Returns the commits and times merged before the batch."""
    published, scheme = plan.published, plan.layout.scheme
    apart = LEEWAY_MS
    if published is None:
        return MergedState(keys_stay=plan.keys_remain, apart_ms=apart)
    highest = {p: commit_of(scheme, text) for p, text in published.carried.applied.items()}
    truncated = commit_of(scheme, published.carried.max_truncate)
    newest = dict(carried.newest_ms)
    if not newest:
        until = int((published.published_at + _UNKNOWN_CLOCK).timestamp() * 1000)
        newest = dict.fromkeys(highest, until)
    known = {p: commit for p, commit in highest.items() if commit is not None}
    compared = [] if plan.keys_remain else list(known.values())
    return MergedState(
        highest=known,
        newest_ms=newest,
        highest_of_all=max([*compared, *([truncated] if truncated else [])], default=None),
        newest_of_all_ms=max(newest.values(), default=None),
        truncated=truncated,
        keys_stay=plan.keys_remain,
        apart_ms=apart,
    )
