"""Reads from a run's tags how it was started, which decides what it merges.

- *tail* (a sensor, a command): from the committed offsets to the end of the log, hour by
  hour, until caught up or out of time. In a run with other tables, only up to the log's end at
  the start of the turn, so that no busy table keeps the others waiting; with other tables of its
  topic, only as far as these have read, see `cdc_assets.merge.intake.shared_reading`. A run of
  a sensor stays: a table has turn after turn in it, see `cdc_assets.orchestration.turns`.
- *replay* (a backfill, or a range of partitions): the chosen hours once more, then those of
  their records that were not merged yet.
- *by hand* (one partition): like a tail; if that hour is over and held nothing new, replays it.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

import dagster as dg

from cdc_assets.orchestration.keys import REPLAY, TAG_MODE, TAIL

BACKFILL_TAG: Final = "dagster/backfill"
RANGE_TAG: Final = "dagster/asset_partition_range_start"


class Intention(Enum):
    """The reason why a run was started."""

    TAIL = auto()
    REPLAY = auto()
    BY_HAND = auto()


def intention_of(run: dg.DagsterRun) -> Intention:
    """Reads the intention from a run's tags; an explicit tag wins."""
    mode = run.tags.get(TAG_MODE)
    if mode == TAIL:
        return Intention.TAIL
    if mode == REPLAY or BACKFILL_TAG in run.tags or RANGE_TAG in run.tags:
        return Intention.REPLAY
    return Intention.BY_HAND
