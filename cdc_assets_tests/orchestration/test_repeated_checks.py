"""A check's outcome is written again after an hour, whichever clock has written the last one."""

from __future__ import annotations

from datetime import timedelta

import dagster as dg
import pytest

from cdc_assets.orchestration.checks import ERROR, CheckVerdict
from cdc_assets.orchestration.sensors.slo import REPEAT_AFTER, EventCursor, is_news
from cdc_assets_tests.world import NOW

pytestmark = pytest.mark.unit

FINE = CheckVerdict(dg.AssetKey("orders"), "replication_slo", True, ERROR, "")


@pytest.mark.parametrize(
    ("later", "is_written"),
    [
        (REPEAT_AFTER, True),
        (REPEAT_AFTER - timedelta(seconds=1), False),
        (-timedelta(seconds=30), False),
        (-timedelta(days=400), True),
    ],
)
def test_an_outcome_is_repeated(later: timedelta, is_written: bool) -> None:
    memory = EventCursor()
    assert is_news(FINE, memory, NOW)
    assert is_news(FINE, memory, NOW + later) is is_written
