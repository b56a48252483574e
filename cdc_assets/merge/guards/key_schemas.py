"""Detects keys with another schema than before: producers choose partitions by keys' bytes."""

from __future__ import annotations

from dataclasses import replace

from cdc_assets.formats.key_form import KeyBytes
from cdc_assets.merge.fold.context import Pass, PlannedBatch
from cdc_assets.merge.guards.guard import Guard
from cdc_assets.merge.intake.observe import OptionalFigures
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.merge.plan.stable_partitions import REMEDY, MovedKeysError


class KeySchemas(Guard):
    """Watches the schemas of keys; stops a table ordered by offsets alone whose keys change."""

    def require(self, batch: PlannedBatch) -> None:
        """Checks the plan's key columns; see `require_same_keys`."""
        require_same_keys(batch.plan, batch.decoder.format.key_bytes(batch.plan.layout))

    def watch(self, batch: PlannedBatch, watched: OptionalFigures) -> OptionalFigures:
        """Counts the schemas of keys, where another schema would have moved keys."""
        plan = batch.plan
        may_move = plan.partitions > 1 and plan.layout.keyed and bool(plan.schema.key)
        return replace(watched, key_schemas=may_move and batch.decoder.tells_key_schema)

    def settle(self, last: Pass) -> Pass:
        """Completes the plan by the schemas of its records' keys, and checks the keys' bytes.

        Raises:
            MovedKeysError: see `require_same_keys`.
        """
        plan = with_keys_of(last.plan, frozenset(last.figures.signs["key_schemas"]))
        if plan is not last.plan:
            last = replace(last, batch=last.batch.replanned(plan))
        self.require(last.batch)
        return last


def with_keys_of(plan: BatchPlan, schemas: frozenset[int]) -> BatchPlan:
    """Completes a plan by the schemas of its records' keys."""
    before = plan.published.carried.key_schemas if plan.published else ()
    if plan.replay or not before or schemas <= {*before}:
        return plan
    return replace(plan, has_other_keys=True, forgettable=None)


def require_same_keys(plan: BatchPlan, content: KeyBytes) -> None:
    """Fails if a table ordered by offsets alone has other key bytes than at its beginning.

    Producers hash these bytes: a key whose column has another name or type is in another partition,
    with offsets that may be lower than the offsets of its older changes.

    Args:
        plan: of a batch.
        content: of the table's keys.

    Raises:
        MovedKeysError: names the key's columns.
    """
    used = [partition for partition, end in plan.end if end > 0]
    if not plan.needs_keys_apart or len(used) <= 1:
        return
    renamed = plan.has_renamed_key and content is not KeyBytes.VALUES
    retyped = plan.has_retyped_key and content is KeyBytes.SCHEMA
    if not (renamed or retyped or plan.has_other_keys):
        return
    cause = "was renamed or retyped" if renamed or retyped else "has another schema in records"
    what = (
        f"a column of the key ({', '.join(plan.schema.key)}) {cause}: keys have moved between "
        "partitions, and their changes are ordered by Kafka's offsets alone"
    )
    raise MovedKeysError(what, where=plan.where, remedy=REMEDY)
