"""Parts are taken away one after the other, while Kafka is away all the time: each is told.

What is cut off is real: a server's port, the lake's folder, a registry's folder. Minutes pass
by the watch's clock.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import dagster as dg
import pytest

from cdc_assets.registry import RegistryFile
from cdc_assets_tests.configuration import NOWHERE, platform, source, write
from cdc_assets_tests.formats.registry_server import running
from cdc_assets_tests.orchestration.test_watch import ALERTS, Watch
from cdc_assets_tests.outage import Outage, moved, relayed
from cdc_assets_tests.receiver import Receiver, receiving
from cdc_assets_tests.world import World, entry_of

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("impatient")]


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    with receiving() as made:
        monkeypatch.setenv("ALERTS_WEBHOOK", made.url)
        monkeypatch.setenv("HEARTBEAT", made.url)
        yield made


@pytest.fixture
def parts(
    tmp_path: Path, receiver: Receiver, instance_in_memory: dg.DagsterInstance
) -> Iterator[tuple[Watch, dict[str, Outage]]]:
    """A published table whose parts are there, but for Kafka; and how each is taken away."""
    with ExitStack() as at_end:
        spark = at_end.enter_context(socket.create_server(("127.0.0.1", 0)))
        to_spark = at_end.enter_context(relayed(*spark.getsockname()))
        registry = at_end.enter_context(running())
        to_registry = at_end.enter_context(relayed("127.0.0.1", registry.server.server_port))
        shop = source("shop", schema_registry={"url": f"http://127.0.0.1:{to_registry.port}"})
        world = World(tmp_path, NOWHERE)
        rest = {"registry": ".cdc/registry.json", "alerts": ALERTS, "sources": {"shop": shop}}
        remote = {"remote": f"sc://127.0.0.1:{to_spark.port}"}
        config = write(tmp_path / "replication.yaml", platform(NOWHERE, spark=remote, **rest))
        entry = entry_of("orders", config)
        RegistryFile(config.registry).add([entry])
        world.publish(entry.target, {0: 0}, {0: 1})
        yield (
            Watch(config, receiver, instance_in_memory),
            {
                "spark": Outage(to_spark.away, to_spark.back, "Spark server"),
                "schema registry": Outage(to_registry.away, to_registry.back, "schema registry"),
                "lake": moved(tmp_path / "lake", "lake's store"),
                "registry": moved(tmp_path / ".cdc", str(tmp_path / ".cdc")),
            },
        )


@pytest.mark.parametrize("part", ["spark", "schema registry", "lake", "registry"])
def test_a_part_that_is_away_is_told_once_and_so_is_its_recovery(
    parts: tuple[Watch, dict[str, Outage]], part: str, receiver: Receiver
) -> None:
    watch, outage = parts[0], parts[1][part]
    watch.ticks(3, minutes=6)
    assert [each["name"] for each in receiver.received[0]["members"]] == [NOWHERE], "Kafka alone"
    outage.away()
    watch.tick()
    watch.tick(minutes=4)
    assert not says(receiver, outage.named), "it may come back"
    watch.ticks(2, minutes=12)
    assert says(receiver, outage.named) == 1
    outage.back()
    watch.tick()
    watch.tick(minutes=4)
    assert not ends(receiver, outage.named), "it may be away again"
    watch.ticks(2, minutes=12)
    assert ends(receiver, outage.named) == 1
    count = len(receiver.received)
    watch.ticks(2, minutes=30)
    assert len(receiver.received) == count, "and nothing more"
    for each in receiver.received:
        print(part, "→", each["change"], each["text"])


def says(receiver: Receiver, named: str) -> int:
    return sum(
        any(named in member["name"] for member in each["members"]) for each in receiver.received
    )


def ends(receiver: Receiver, named: str) -> int:
    return sum(any(named in name for name in each["over"]) for each in receiver.received)
