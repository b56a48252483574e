"""Real parts are taken away for as long as an alert takes: what the receiver got, and when.

Kafka and Connect are killed and started again; PostgreSQL and Spark are cut off by a relay, since
the stack's other tests hold sessions there. Minutes pass by the watch's clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest
from cdc_assets_devstack.stack import LocalStack
from psycopg.conninfo import make_conninfo

from cdc_assets.config import ReplicationConfig
from cdc_assets.orchestration.sensors.watch import watch_sensor
from cdc_assets.registry import Registry
from cdc_assets_tests.outage import Outage, Relay, moved, relayed
from cdc_assets_tests.receiver import Receiver, changes_of, receiving
from cdc_assets_tests.stack.killed import kill_part
from cdc_assets_tests.stack.replicated import Replicated, new_database, replicated
from cdc_assets_tests.stack.test_watched import status_of
from cdc_assets_tests.toy.profiles import in_soak
from cdc_assets_tests.waiting import until

pytestmark = [pytest.mark.stack, in_soak]

NAME = "outages"
CREATE = ("CREATE TABLE busy (id bigint PRIMARY KEY)", "INSERT INTO busy VALUES (1)")


@dataclass
class Outages:
    """A replication whose parts are there, and how each is taken away."""

    database: Replicated
    receiver: Receiver
    parts: dict[str, Outage]
    later: timedelta = timedelta()

    def __post_init__(self) -> None:
        clock = lambda: datetime.now(UTC) + self.later  # noqa: E731
        self._sensor = watch_sensor(self.database.config, Registry.of([]), clock)

    def tick(self, minutes: float = 0) -> list[tuple[str, str]]:
        """What is received, this much later."""
        self.later += timedelta(minutes=minutes)
        before = len(self.receiver.received)
        with dg.DagsterInstance.ephemeral() as instance:
            self._sensor(dg.build_sensor_context(instance=instance))
        return changes_of(self.receiver)[before:]

    def until_quiet(self) -> None:
        """Let what the tests before have left be told and over."""
        for _ in range(5):
            self.tick(minutes=6)


@pytest.fixture(scope="module")
def outages(
    stack: LocalStack,
    stack_config: ReplicationConfig,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Outages]:
    with ExitStack() as at_end:
        patch = at_end.enter_context(pytest.MonkeyPatch.context())
        receiver = at_end.enter_context(receiving())
        to_spark = at_end.enter_context(relayed(*_spark_at(stack)))
        to_database = at_end.enter_context(relayed("127.0.0.1", stack.postgres.port))
        patch.setenv("OUTAGES_WEBHOOK", receiver.url)
        patch.setenv("OUTAGES_HEARTBEAT", receiver.url)
        document = {
            "alerts": {"webhook": {"env": "OUTAGES_WEBHOOK"},
                       "heartbeat": {"env": "OUTAGES_HEARTBEAT"}},
        }  # fmt: skip
        connect = {"url": f"http://{stack.connect.address}"}
        made = at_end.enter_context(
            replicated(
                stack, stack_config, NAME, new_database(stack, NAME, *CREATE), document,
                connect=connect,
            )
        )  # fmt: skip
        made.wait_until_delivered()
        made.replicate()
        database = made.config.source(NAME).database
        assert database
        patch.setenv(database.dsn.env, _through(made.dsn, to_database))
        spark = made.config.spark.model_copy(
            update={"remote": f"sc://127.0.0.1:{to_spark.port}", "master": None}
        )
        config = made.config.model_copy(update={"spark": spark})
        watched = Replicated(stack, config, NAME, made.side, made.instance)
        folder = Path(config.registry.removeprefix("file:")).parent
        parts = {
            "kafka": Outage(
                lambda: kill_part(stack.kafka), lambda: stack.up(("kafka",)), stack.kafka.address
            ),
            "connect": Outage(
                lambda: kill_part(stack.connect), lambda: stack.up(("connect",)), "Kafka Connect"
            ),
            "postgresql": Outage(to_database.away, to_database.back, "source database"),
            "spark": Outage(to_spark.away, to_spark.back, "Spark server"),
            "registry": moved(folder, str(folder)),
        }
        yield Outages(watched, receiver, parts)


def _spark_at(stack: LocalStack) -> tuple[str, int]:
    host, _, port = stack.spark.endpoint.url.removeprefix("sc://").partition("/")[0].partition(":")
    return host, int(port)


def _through(dsn: str, relay: Relay) -> str:
    return make_conninfo(dsn, host="127.0.0.1", port=relay.port)


def works(outages: Outages) -> bool:
    found = status_of(outages.database, "busy")
    return found.connector.working == "up" and found.survey.marks is not None


@pytest.mark.parametrize("part", ["postgresql", "spark", "registry", "connect", "kafka"])
def test_a_part_that_is_killed_is_told_once_and_its_recovery_once(
    outages: Outages, part: str
) -> None:
    receiver, outage = outages.receiver, outages.parts[part]
    outages.until_quiet()
    receiver.received.clear()
    outage.away()
    minutes = 0

    def told() -> bool:
        nonlocal minutes
        minutes += 1  # an answer of Connect's is good for some seconds
        return ("part_away", "firing") in outages.tick(minutes=1)

    try:
        outages.tick()
        until(told, "it is told", within_seconds=60)
        outages.tick(minutes=30)
    finally:
        outage.back()
    assert minutes >= 5, "a part that is away for a moment is no news"
    until(lambda: works(outages), "all parts work", within_seconds=300)
    outages.tick()
    assert ("part_away", "resolved") in [*outages.tick(minutes=6), *outages.tick(minutes=6)]
    mine = [each for each in receiver.received if each["kind"] == "part_away"]
    named = [each for each in mine if outage.named in each["text"]]
    changes = [each["change"] for each in named if each["change"] != "changed"]
    assert changes == ["firing", "resolved"], "a folder is away with all of its files"
    assert len({each["id"] for each in named}) == 1
    for each in receiver.received:
        print(part, "→", each["change"], each["text"])


def test_a_receiver_that_is_away_gets_it_once_it_is_back_and_no_heartbeat_meanwhile(
    outages: Outages,
) -> None:
    receiver, outage = outages.receiver, outages.parts["spark"]
    outages.until_quiet()
    receiver.received.clear()
    beats, receiver.is_down = receiver.beats, True
    outage.away()
    for _ in range(4):
        assert outages.tick(minutes=3) == []
    assert receiver.beats == beats
    receiver.is_down = False
    assert ("part_away", "firing") in outages.tick(minutes=1)
    outage.back()
    outages.tick(minutes=1)
    assert ("part_away", "resolved") in outages.tick(minutes=10)
