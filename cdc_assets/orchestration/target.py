"""What a sensor starts: assets, by the executor that their runs are made for.

Where the whole code location is ours, its executor is `side_by_side`, and a sensor selects assets.
In a project that somebody else's definitions are part of, the location's executor is theirs, so
that a sensor has a job of its own with ours. A run by another executor (by hand, a backfill, an
automation condition) is right too: its tables are merged one by one, and it does not stay.
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
    """What a sensor is told to start, as arguments of it.

    Args:
        config: the configuration.
        keys: of assets with the same partitions.
        job: the name of the job, where one is needed.
    """
    selection = dg.AssetSelection.assets(*keys)
    if mount_of(config) is None or not keys:
        return {"asset_selection": selection}
    name = named(config, job)
    return {"job": dg.define_asset_job(name, selection, executor_def=side_by_side)}
