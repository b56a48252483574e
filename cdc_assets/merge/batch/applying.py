"""Applies a batch to its branch in the way of its table."""

from __future__ import annotations

from typing import assert_never

from cdc_assets.changes.mode import Mode
from cdc_assets.merge.apply.record import Outcome
from cdc_assets.merge.batch.application import Application
from cdc_assets.merge.batch.at_once import apply_keyless, apply_to_changelog, apply_to_history
from cdc_assets.merge.batch.by_parts import apply_keyed


def applied(it: Application, outcome: Outcome) -> Outcome:
    """Writes the batch to its branch; the last write carries the snapshot's properties.

    Args:
        it: the application.
        outcome: of the batch before anything is applied.

    Returns:
        The outcome; ``published`` is None if nothing has to be published.
    """
    _fill(it)
    match it.plan.mode:
        case Mode.CHANGELOG:
            return apply_to_changelog(it, outcome)
        case Mode.HISTORY:
            return apply_to_history(it, outcome)
        case Mode.MIRROR:
            by_key = bool(it.plan.schema.key)
            return apply_keyed(it, outcome) if by_key else apply_keyless(it, outcome)
        case unexpected:
            assert_never(unexpected)


def _fill(it: Application) -> None:
    """Fills columns that were added with a value in all existing rows, which are older."""
    plan = it.plan
    if plan.mode is Mode.CHANGELOG:  # a recorded change does not change
        return
    if plan.unfilled and not plan.is_empty:
        with it.means.steps.step("fill added columns"):
            it.branch.fill(plan.unfilled)
