"""A table that is dropped while its connector is down goes only once its last changes are there."""

from __future__ import annotations

from collections.abc import Iterator

import dagster as dg
import pytest
import requests
from cdc_assets_devstack.stack import LocalStack

from cdc_assets.config import ReplicationConfig
from cdc_assets.operate.seen_states import Condition
from cdc_assets.operate.services import Services
from cdc_assets.operate.status import read_status
from cdc_assets.orchestration.sensors import slo_sensor
from cdc_assets_tests.lake_view import read_rows
from cdc_assets_tests.stack.replicated import Replicated, new_database, replicated
from cdc_assets_tests.waiting import until

pytestmark = pytest.mark.stack

NAME = "undelivered"
MAKE = (
    "CREATE TABLE t (id int PRIMARY KEY)",
    "CREATE TABLE other (id int PRIMARY KEY)",
    "INSERT INTO t VALUES (1)",
    "INSERT INTO other VALUES (1)",
)


@pytest.fixture
def shop(stack: LocalStack, stack_config: ReplicationConfig) -> Iterator[Replicated]:
    dsn = new_database(stack, NAME, *MAKE)
    with replicated(stack, stack_config, NAME, dsn, dropped_table="drop") as made:
        made.wait_until_delivered()
        made.replicate()
        yield made


def look(shop: Replicated) -> list[str]:
    """What a tick of the sensor says of tables, beside its checks."""
    services = Services(shop.config)
    sensor = slo_sensor(shop.config, services.registry.load())
    with dg.DagsterInstance.ephemeral() as instance:
        result = sensor(dg.build_sensor_context(instance=instance))
    assert isinstance(result, dg.SensorResult)
    events = (each for each in result.asset_events if isinstance(each, dg.AssetObservation))
    return [each.description or "" for each in events if "no longer" in (each.description or "")
            or "so has the lake" in (each.description or "")]  # fmt: skip


def why(shop: Replicated, table: str) -> str:
    """What `status` says of a table that is dropped."""
    services = Services(shop.config)
    entry = services.registry.load().get(shop.entry(table).table)
    assert entry is not None
    (only,) = read_status(services, [entry]).tables
    assert only.condition is Condition.DROPPED
    return str(only.to_dict()["condition"])


def test_its_last_changes_come_before_it_is_dropped(shop: Replicated) -> None:
    url = f"http://{shop.stack.connect.address}/connectors/{NAME}"
    requests.put(f"{url}/stop", timeout=30).raise_for_status()

    def is_stopped() -> bool:
        found = requests.get(f"{url}/status", timeout=10).json()
        return found["connector"]["state"] == "STOPPED" and not found["tasks"]

    until(is_stopped, "the connector is stopped")
    shop.execute("INSERT INTO t VALUES (7), (8)")
    shop.execute("DROP TABLE t")
    assert len(read_rows(shop.config, shop.entry("t").target)) == 1

    (said,) = look(shop)
    assert "the lake drops it once slot" in said
    assert look(shop) == [], "that is said once"
    assert len(read_rows(shop.config, shop.entry("t").target)) == 1
    assert "has confirmed" in why(shop, "t")

    requests.put(f"{url}/resume", timeout=30).raise_for_status()
    shop.execute("INSERT INTO other VALUES (2)")  # a connector at rest confirms nothing
    shop.wait_until_delivered()
    assert look(shop) == [], "not before its last changes are merged"
    shop.replicate()
    until(lambda: any("so has the lake" in each for each in look(shop)), "it is dropped")
    services = Services(shop.config)
    entry = services.registry.load().get(shop.entry("t").table)
    assert entry is not None
    assert entry.dropped is not None
    end = services.log.watermarks([entry.topic])[entry.topic].end
    assert entry.dropped.end == end, "behind its last changes"
    shop.replicate()
    assert services.lake.state(entry.target) is None, "no ghost of two rows"
    assert shop.differences("other") == []
