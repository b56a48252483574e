"""A tag is set by this process's clock, and batches are committed by Spark's: these may differ."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from cdc_assets.lake.cuts import TAG
from cdc_assets.lake.moving_back import drop_tags, set_tag
from cdc_assets_tests.lake_view import read_table
from cdc_assets_tests.merge.events import event
from cdc_assets_tests.merge.one_table import TABLE
from cdc_assets_tests.pipeline import Pipeline

pytestmark = pytest.mark.stack


def test_batches_go_on_after_a_tag_by_a_clock_that_is_ahead_of_sparks(
    pipeline: Callable[..., Pipeline], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = pipeline()
    made.create_topic(TABLE)
    made.produce(TABLE, [event("c", {"id": 1, "n": 1}, 1, commit=1)])
    made.merge(TABLE)
    now = time.time
    with monkeypatch.context() as ahead:
        ahead.setattr("time.time", lambda: now() + 600)
        table = read_table(made.config, made.entry(TABLE).target)
        assert table is not None
        head = table.current_snapshot()
        assert head is not None
        assert set_tag([(table, head.snapshot_id)], TAG)
        tagged = read_table(made.config, made.entry(TABLE).target)
        assert tagged is not None
        assert tagged.refs()[TAG].snapshot_id == head.snapshot_id
        drop_tags(tagged, [TAG])
    made.produce(TABLE, [event("u", {"id": 1, "n": 2}, 2, commit=2)])
    made.merge(TABLE)
    assert [row["n"] for row in made.rows(TABLE)] == [2]
