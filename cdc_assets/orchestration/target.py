"""Chooses a sensor's target, so that its runs use the executor `side_by_side`.

If the whole code location is ours, that is its executor, and a sensor selects assets. In a project
with other definitions, the location's executor is the project's, so a sensor has a job of its own
with ours. Runs by another executor (by hand, a backfill, an automation condition) are correct, too:
their tables are merged one by one, and they do not stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dagster as dg

from cdc_assets.config import ReplicationConfig
from cdc_assets.orchestration.keys import named
from cdc_assets.orchestration.mount import mount_of
from cdc_assets.orchestration.side_by_side import side_by_side


def target_of(config: ReplicationConfig, keys: Sequence[dg.AssetKey], job: str) -> dict[str, Any]:
    """Returns a sensor's target, as arguments of its definition.

    Args:
        config: the configuration.
        keys: the keys of assets with the same partitions.
        job: the name of the job, if one is needed.
    """
    selection = dg.AssetSelection.assets(*keys)
    if mount_of(config) is None or not keys:
        return {"asset_selection": selection}
    name = named(config, job)
    return {"job": dg.define_asset_job(name, selection, executor_def=side_by_side)}
