"""The check `replication_slo` while records lie in quarantine."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import dagster as dg
import pytest

from cdc_assets.operate.survey import survey
from cdc_assets.orchestration.checks import CheckVerdict, verdicts
from cdc_assets.orchestration.keys import CHECK_SLO
from cdc_assets_tests.quarantine_world import QuarantineWorld
from cdc_assets_tests.world import NOW

pytestmark = pytest.mark.stack


@pytest.fixture
def world(tmp_path: Path, kafka_bootstrap: str) -> Iterator[QuarantineWorld]:
    made = QuarantineWorld(tmp_path, kafka_bootstrap)
    yield made
    made.close()


def slo_of(world: QuarantineWorld) -> CheckVerdict:
    seen = survey(world.services, tuple(world.discover())).complete()
    (verdict,) = (each for each in verdicts(world.services, seen, {}) if each.check == CHECK_SLO)
    return verdict


@pytest.mark.parametrize("days", [0, 60])
def test_it_is_red_whatever_the_age_of_what_lies_there(world: QuarantineWorld, days: int) -> None:
    world.produce(world.topic("orders"), [NOW])
    (entry,) = world.discover()
    world.publish_quarantined(entry.target, 3, NOW - timedelta(days=days))

    slo = slo_of(world)
    assert not slo.passed
    assert slo.severity is dg.AssetCheckSeverity.ERROR
    command = "cdc-assets quarantine list --table shop.public.orders"
    assert f"3 records are in quarantine: {command}" in slo.description
    assert slo.metadata["records_quarantined"] == 3


def test_it_is_green_again_once_nothing_lies_there(world: QuarantineWorld) -> None:
    world.produce(world.topic("orders"), [NOW])
    (entry,) = world.discover()
    world.publish_quarantined(entry.target, 1, NOW - timedelta(minutes=1))
    assert "1 record is in quarantine" in slo_of(world).description

    world.publish_quarantined(entry.target, 0, NOW)
    assert slo_of(world).passed
