from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cdc_assets_tests.world import World


@pytest.fixture
def world(tmp_path: Path, kafka_bootstrap: str) -> Iterator[World]:
    made = World(tmp_path, kafka_bootstrap)
    yield made
    made.close()
