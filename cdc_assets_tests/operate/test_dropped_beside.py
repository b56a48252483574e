"""Whatever belongs to a table goes with it when its source has dropped it. Without a database."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from cdc_assets.changes.names import LakeName
from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.lake.carried import SideMark
from cdc_assets.lake.side import side_name
from cdc_assets.log.values import Watermarks
from cdc_assets.operate.dropped import follow_drops
from cdc_assets.operate.schema_drift import BY_CATALOG, Drift
from cdc_assets.operate.services import Services
from cdc_assets.operate.survey import Survey, TableSurvey
from cdc_assets.registry import TableEntry
from cdc_assets_tests.configuration import beside, source
from cdc_assets_tests.lake_view import open_catalog
from cdc_assets_tests.world import NOW, World, entry_of

pytestmark = pytest.mark.stack


@pytest.fixture
def world(world: World) -> World:
    made = world
    made.config = beside(
        made.config, "drops", sources={"shop": source("shop", dropped_table="drop")}
    )
    made.services = Services(made.config)
    return made


def rebuilt(world: World, entry: TableEntry) -> LakeName:
    """Publishes what a rebuild does: the table goes on with another side table; returns that."""
    side = side_name(LakeName(entry.stem.namespace, f"{entry.stem.name}__rebuild1"))
    world.publish(side, {0: 0}, {0: 1})
    state = world.services.lake.state(entry.target)
    assert state is not None
    assert state.published is not None
    carried = replace(state.published.carried, side=SideMark(table=str(side)), generation=1)
    said = replace(state.published, attempt="rebuilt", carried=carried).to_properties()
    table = open_catalog(world.config).load_table((entry.target.namespace, entry.target.name))
    table.append(table.scan().to_arrow(), snapshot_properties=said)
    return side


def test_the_first_side_table_of_a_rebuilt_table_goes_with_it(world: World) -> None:
    """Another table of its name, with another key perhaps, would take it for its own."""
    entry = entry_of("orders", world.config, world.topic("orders"))
    world.produce(entry.topic, [NOW])
    first = side_name(entry.stem)
    for name in (entry.target, first):
        world.publish(name, {0: 0}, {0: 1})
    tables = (entry.target, first, rebuilt(world, entry))
    world.services.registry.add([entry])
    end = OffsetVector.of({0: 1})
    seen = TableSurvey(
        entry, world.services.lake.state(entry.target), Watermarks(OffsetVector(), end), None, None
    )
    gone = {entry.table: Drift(is_gone=True, is_dropped=True)}
    (news,) = follow_drops(world.services, Survey(datetime.now(UTC), (seen,)), gone)
    assert "so has the lake" in news.words
    assert [each for each in tables if world.services.lake.exists(each)] == []


def test_it_stays_if_a_record_has_come_since_it_was_looked_at(world: World) -> None:
    """The survey is older than what says that the table is gone: the topic is looked at again."""
    entry = entry_of("late", world.config, world.topic("late"))
    world.produce(entry.topic, [NOW, NOW])
    world.publish(entry.target, {0: 0}, {0: 1})
    world.services.registry.add([entry])
    seen = TableSurvey(
        entry,
        world.services.lake.state(entry.target),
        Watermarks(OffsetVector(), OffsetVector.of({0: 1})),
        None,
        None,
    )
    gone = {entry.table: Drift(is_gone=True, is_dropped=True)}
    (news,) = follow_drops(world.services, Survey(datetime.now(UTC), (seen,)), gone)
    assert "the lake drops it once its last 1 records are merged" in news.words
    assert world.services.lake.exists(entry.target)
    (known,) = world.services.registry.load()
    assert known.dropped is not None
    assert known.dropped.end is None

    # Somebody has it kept: nothing is waited for any more.
    keeps = beside(world.config, "keeps", sources={"shop": source("shop", dropped_table="keep")})
    again = (replace(seen, entry=known),)
    assert follow_drops(Services(keeps), Survey(datetime.now(UTC), again), gone) == ()
    (kept,) = world.services.registry.load()
    assert kept.dropped is not None
    assert kept.dropped.waits_for == ""


def test_what_no_statement_and_no_slot_has_told_is_waited_for(world: World) -> None:
    """A catalog of MySQL says that a table is gone before the connector has sent the statement."""
    entry = entry_of("early", world.config, world.topic("early"))
    world.produce(entry.topic, [NOW])
    world.publish(entry.target, {0: 0}, {0: 1})
    world.services.registry.add([entry])
    end = Watermarks(OffsetVector(), OffsetVector.of({0: 1}))
    seen = TableSurvey(entry, world.services.lake.state(entry.target), end, None, None)
    gone = {entry.table: Drift(is_gone=True, is_dropped=True, by=BY_CATALOG)}
    (news,) = follow_drops(world.services, Survey(datetime.now(UTC), (seen,)), gone)
    assert "once the statement that has dropped it is read" in news.words
    assert world.services.lake.exists(entry.target)
