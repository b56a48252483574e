"""What Dagster allows a run: the time of its longest table, however many it has, and short tags."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest

from cdc_assets.log.hours import HourWindow
from cdc_assets.orchestration.keys import TAG_TABLE, names_in
from cdc_assets.orchestration.planning import RunPlan
from cdc_assets.orchestration.sensors.replicate import GRACE_SECONDS, busy_tables, run_request
from cdc_assets_tests.world import entry_of, write_config

pytestmark = pytest.mark.unit

HOUR = HourWindow.starting(datetime(2026, 3, 4, 12, tzinfo=UTC))
LONGEST_INDEXED = 2_704
"""Bytes of tag and value, above which PostgreSQL's index on Dagster's tags refuses the run."""


@pytest.mark.parametrize("tables", [1, 20])
def test_a_run_lives_as_long_as_its_longest_table_may_take(tmp_path: Path, tables: int) -> None:
    config = write_config(tmp_path)
    entries = tuple(entry_of(f"t{n}", config) for n in range(tables))
    limit = int(run_request(config, RunPlan(HOUR, entries)).tags["dagster/max_runtime"])
    batch = config.sources["shop"].batch
    longest = max(batch.table_seconds, batch.drain_seconds)
    assert limit == int(longest + config.runs.most_seconds) + GRACE_SECONDS


@pytest.mark.parametrize("tables", [1, 2, 1_000])
def test_tags_of_a_run_of_many_tables_fit_into_an_index_and_name_all_of_them(
    tmp_path: Path, tables: int
) -> None:
    """Such an index would refuse the run, at each tick: no table would be replicated."""
    config = write_config(tmp_path)
    entries = tuple(entry_of(f"bestellungen_für_{n}_ü", config) for n in range(tables))
    request = run_request(config, RunPlan(HOUR, entries))
    assert all(len(f"{tag}{text}".encode()) < LONGEST_INDEXED - 200
               for tag, text in request.tags.items())  # fmt: skip
    run = dg.DagsterRun("job", tags=request.tags)
    assert names_in(run) == {str(each.table) for each in entries}
    is_one = [tag for tag in request.tags if tag.startswith(TAG_TABLE)] == [TAG_TABLE]
    assert is_one == (tables < 1_000)
    assert busy_tables(config, [run], entries) == {each.table for each in entries}
