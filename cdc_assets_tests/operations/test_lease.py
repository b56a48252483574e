"""Whoever merges waits for as long as another writer needs, and no longer."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cdc_assets.desired import NOTHING
from cdc_assets.effects import Moment, hooked
from cdc_assets.operate.services import Services
from cdc_assets.operations.lease import Lease
from cdc_assets_tests.waiting import until
from cdc_assets_tests.world import entry_of, write_config

pytestmark = pytest.mark.slow

NEVER = datetime.min.replace(tzinfo=UTC)


@pytest.fixture
def way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lease:
    monkeypatch.setattr("cdc_assets.operations.lease.YIELDED", timedelta(seconds=0.6))
    config = write_config(tmp_path)
    return Lease(Services(config), entry_of("orders", config).table, "a-run")


def ends_at(way: Lease) -> datetime:
    """When they go on by themselves; long ago, if nobody has asked them."""
    wanted = way.services.desired.of(way.table).yields
    return wanted.until if wanted and wanted.until else NEVER


def test_it_is_asked_again_as_long_as_the_block_takes_and_withdrawn_then(way: Lease) -> None:
    with way.hold():
        first = ends_at(way)
        assert first > NEVER
        until(lambda: ends_at(way) > first + timedelta(seconds=0.6), "it is asked once more")
    assert way.services.desired.of(way.table) == NOTHING


def test_one_wish_that_cannot_be_stored_is_followed_by_the_next(way: Lease) -> None:
    failed = list[str]()

    def hook(point: str, moment: Moment) -> None:
        if point == "desired: write" and moment is Moment.BEFORE and len(failed) < 2:
            failed.append(point)
            raise OSError(point)

    with way.hold(), hooked(hook):
        first = ends_at(way)
        until(lambda: ends_at(way) > first, "it is asked once more")
    assert len(failed) == 2
    assert way.services.desired.of(way.table) == NOTHING


def test_what_was_not_asked_is_not_withdrawn(way: Lease) -> None:
    other = Lease(way.services, way.table, "another-run")
    other.ask()
    way.clear()
    assert ends_at(way) > NEVER
    other.clear()
    assert ends_at(way) == NEVER
