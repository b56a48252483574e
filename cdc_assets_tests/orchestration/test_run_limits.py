"""How long Dagster lets a run live: by its longest table, however many it has."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from cdc_assets.log.hours import HourWindow
from cdc_assets.orchestration.planning import RunPlan
from cdc_assets.orchestration.sensors.replicate import GRACE_SECONDS, run_request
from cdc_assets_tests.world import entry_of, write_config

pytestmark = pytest.mark.unit

HOUR = HourWindow.starting(datetime(2026, 3, 4, 12, tzinfo=UTC))


@pytest.mark.parametrize("tables", [1, 20])
def test_a_run_lives_as_long_as_its_longest_table_may_take(tmp_path: Path, tables: int) -> None:
    config = write_config(tmp_path)
    entries = tuple(entry_of(f"t{n}", config) for n in range(tables))
    limit = int(run_request(config, RunPlan(HOUR, entries)).tags["dagster/max_runtime"])
    batch = config.sources["shop"].batch
    longest = max(batch.table_seconds, batch.drain_seconds)
    assert limit == int(longest + config.runs.most_seconds) + GRACE_SECONDS
