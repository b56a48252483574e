"""A table that its source has dropped is marked, and goes from the lake only if that is asked."""

from __future__ import annotations

from collections.abc import Iterator

import dagster as dg
import pytest

from cdc_assets.lake.side import side_of
from cdc_assets.operate.seen_states import Condition
from cdc_assets.operate.services import Services
from cdc_assets.operate.status import read_status
from cdc_assets.orchestration.sensors import slo_sensor
from cdc_assets.registry import Registry
from cdc_assets_tests.faults import Death, Fault, How, faults
from cdc_assets_tests.merge.one_table import Make
from cdc_assets_tests.merge.test_renamed import Shop
from cdc_assets_tests.merge.test_statements import OLD, change, statement, tell
from cdc_assets_tests.operated import run_rebuild
from cdc_assets_tests.toy import profiles

pytestmark = pytest.mark.stack

DROPPED = statement(600, "DROP TABLE t")
AGAIN = statement(700, "CREATE TABLE t (id int PRIMARY KEY, name text)", "id", "name")
NEW = change("c", 800, {"id": 2, "name": "new"})


@pytest.fixture
def shops() -> Iterator[list[Shop]]:
    made: list[Shop] = []
    yield made
    for each in made:
        each.forget()


@pytest.fixture
def begun(pipeline: Make, shops: list[Shop]) -> Make:
    def make(**of_source: object) -> Shop:
        shops.append(Shop.begun(pipeline, *OLD, **of_source))
        return shops[-1]

    return make


def look(shop: Shop) -> list[str]:
    """What a tick of the sensor says of the table, beside its checks."""
    sensor = slo_sensor(shop.made.config, Registry.of(shop.entries().values()))
    with dg.DagsterInstance.ephemeral() as instance:
        result = sensor(dg.build_sensor_context(instance=instance))
    assert isinstance(result, dg.SensorResult)
    events = (each for each in result.asset_events if isinstance(each, dg.AssetObservation))
    return [each.description or "" for each in events]


def condition(shop: Shop) -> Condition:
    (only,) = read_status(Services(shop.made.config), [*shop.entries().values()]).tables
    return only.condition


def test_its_rows_stay_and_it_is_marked(begun: Make) -> None:
    shop = begun()
    assert look(shop) == []
    tell(shop.made, DROPPED)
    (said,) = look(shop)
    assert said == "the source no longer has the table: the lake keeps its rows"
    assert look(shop) == []
    assert condition(shop) is Condition.DROPPED
    assert shop.rows() == {1: "old", 2: "old"}
    for future in shop.made.admin.delete_topics([shop.made.topic("shop.t")]).values():
        future.result(30)
    assert condition(shop) is Condition.DROPPED
    assert shop.replicate() == {}, "a topic that went with its table is no failure"
    tell(shop.made, AGAIN)
    shop.made.create_topic("shop.t")
    shop.made.produce("shop.t", [NEW, NEW, NEW])
    assert shop.replicate(), "another topic, and another table"


@pytest.mark.parametrize(
    "at",
    [
        "catalog: drop table",
        pytest.param(None, marks=profiles.in_soak),
        pytest.param("registry: replace", marks=profiles.in_soak),
    ],
    ids=str,
)
def test_it_goes_where_that_is_asked_and_another_table_begins_anew(
    begun: Make, at: str | None
) -> None:
    shop = begun(dropped_table="drop")
    before = shop.made.lake.state(shop.entries()["t"].target)
    assert before is not None
    assert before.published is not None
    shop.made.produce("shop.t", [change("d", 500, {"id": 1, "name": "old"})])
    tell(shop.made, DROPPED)
    assert look(shop) == [], "not before all of it is merged"
    assert shop.replicate() == {}
    if at is not None:
        with faults(Fault(at, How.DEATH)) as hook, pytest.raises(Death):
            look(shop)
        assert hook.happened
    (said,) = look(shop)
    assert "so has the lake" in said
    entry = shop.entries()["t"]
    assert shop.made.lake.state(entry.target) is None
    assert shop.made.lake.side(side_of(entry.stem, before.published.carried.side)) is None
    assert condition(shop) is Condition.DROPPED
    assert shop.replicate() == {}
    assert shop.made.lake.state(entry.target) is None, "what is merged does not come again"
    tell(shop.made, AGAIN)
    shop.made.produce("shop.t", [NEW])
    assert shop.replicate() == {}
    assert shop.rows() == {2: "new"}
    assert look(shop) == ["the source has the table again"]
    assert shop.entries()["t"].dropped is None
    shop.made.produce("shop.t", [change("c", 900, {"id": 3, "name": "next"})])
    assert shop.replicate() == {}
    assert shop.rows() == {2: "new", 3: "next"}
    run_rebuild(shop.made.config, "shop.t", verify=False)
    assert shop.rows() == {2: "new", 3: "next"}, "its log begins behind the other table's"


@profiles.in_soak
def test_all_of_a_topic_that_was_made_anew_is_another_tables(begun: Make) -> None:
    shop = begun(dropped_table="drop")
    tell(shop.made, DROPPED)
    assert "so has the lake" in look(shop)[0]
    for future in shop.made.admin.delete_topics([shop.made.topic("shop.t")]).values():
        future.result(30)
    tell(shop.made, AGAIN)
    shop.made.create_topic("shop.t")
    shop.made.produce("shop.t", [change("c", 800 + n, {"id": n, "name": "new"}) for n in range(9)])
    assert condition(shop) is not Condition.DROPPED
    assert shop.replicate() == {}
    assert shop.rows() == dict.fromkeys(range(9), "new")


@profiles.in_soak
def test_a_table_that_is_renamed_is_not_dropped(begun: Make) -> None:
    shop = begun(dropped_table="drop")
    tell(shop.made, statement(600, "RENAME TABLE t TO u", "id", "name"))
    assert look(shop) == []
    assert shop.rows() == {1: "old", 2: "old"}
