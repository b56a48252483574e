"""Changes that wait for longer than the SLO allows count as late, whatever records are dated."""

from __future__ import annotations

from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.config import ReplicationConfig
from cdc_assets.log.values import Watermarks
from cdc_assets.operate.slo import late_offsets
from cdc_assets.operate.survey import TableSurvey
from cdc_assets_tests.world import NOW, entry_of, write_config

pytestmark = pytest.mark.unit

AGES = [3_600, 600, 590, 580, 20]
"""Of records that wait, in seconds; the promise is 300."""


@pytest.fixture
def config(tmp_path: Any) -> ReplicationConfig:
    return write_config(tmp_path)


def late(config: ReplicationConfig, times: list[datetime], merged: int) -> int:
    """How many changes are late in a topic of these records, of which some are merged."""

    def offsets_at(topics: list[str], deadlines: list[datetime]) -> dict[Any, OffsetVector]:
        first = next((n for n, at in enumerate(times) if at >= deadlines[0]), len(times))
        return {(topics[0], deadlines[0]): OffsetVector.of({0: first})}

    entry = entry_of("orders", config)
    marks = Watermarks(OffsetVector.of({0: merged}), OffsetVector.of({0: len(times)}))
    oldest = times[merged] if merged < len(times) else None
    table = TableSurvey(entry, None, marks, oldest, None)
    services = SimpleNamespace(config=config, log=SimpleNamespace(offsets_at=offsets_at))
    return late_offsets(cast("Any", services), [table], NOW).get(entry.table, 0)


def test_a_record_of_the_future_does_not_hide_the_late_ones_after_it(
    config: ReplicationConfig,
) -> None:
    times = [NOW - timedelta(seconds=each) for each in AGES]
    ahead = [NOW + timedelta(hours=5)]
    assert late(config, times, 0) == 4
    assert late(config, [*ahead, *times], 1) == 5, "how many are late is unknown then"
    assert late(config, [*ahead, *times], 5) == 0, "the one that waits came just now"
    assert late(config, [*ahead, *times], 6) == 0
