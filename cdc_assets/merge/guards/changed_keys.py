"""Splits updates that change the key: see `cdc_assets.merge.fold.split_key_change`."""

from __future__ import annotations

from dataclasses import replace

from cdc_assets.merge.fold.changeset import Knowledge
from cdc_assets.merge.fold.context import Pass
from cdc_assets.merge.guards.guard import Guard


class ChangedKeys(Guard):
    """Tells the fold of updates that change the key, unless it splits them in any case."""

    case = "an update changes the key"

    def learn(self, this: Pass, known: Knowledge) -> Knowledge:
        """Adds that there are such updates."""
        is_new = this.figures.signs["rekeyed"] and not this.plan.layout.split_keys
        return replace(known, rekeyed=True) if is_new else known
