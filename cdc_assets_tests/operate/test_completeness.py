"""A table is proven to be complete only by its own topic."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.operate.completeness import completeness
from cdc_assets_tests.operate.statuses import table_status
from cdc_assets_tests.world import NOW

pytestmark = pytest.mark.unit

DELIVERED = NOW - timedelta(seconds=20)


@pytest.mark.parametrize(
    ("ends", "is_proven"),
    [
        ({0: 100, 1: 50}, True),
        ({0: 101, 1: 50}, False),  # one record is not merged
        ({0: 3, 1: 0}, False),  # another topic of its name, of which nothing is merged
        ({0: 0, 1: 0}, False),  # likewise, and empty
    ],
)
def test_a_topic_with_less_than_the_table_has_merged_proves_nothing(
    tmp_path: Path, ends: dict[int, int], is_proven: bool
) -> None:
    status = table_status(tmp_path)
    log = SimpleNamespace(
        high_watermarks=lambda topics: dict.fromkeys(topics, OffsetVector.of(ends))
    )
    services: Any = SimpleNamespace(log=log)
    deliveries = {status.table: status.completeness.delivery}
    found = completeness(services, [status.survey], deliveries)[status.table]
    assert found.valid_through == (DELIVERED if is_proven else None)
