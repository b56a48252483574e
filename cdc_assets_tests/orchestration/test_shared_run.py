"""Tables of one topic in one run of Dagster: the topic is read once, and given back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pytest
from cdc_assets_devstack.spark_server import SparkEndpoint

from cdc_assets.config import ReplicationConfig
from cdc_assets.orchestration.assets import table_asset
from cdc_assets.orchestration.keys import SPARK, TAG_MODE, TAIL
from cdc_assets.orchestration.resources import spark_resource
from cdc_assets_tests.faults import Fault, How, faults
from cdc_assets_tests.merge.shared_topic import (
    ITEMS,
    KEEP,
    MAXWELL,
    NOTES,
    USERS,
    Topic,
    put,
    topic_of,
)
from cdc_assets_tests.pipeline import Pipeline
from cdc_assets_tests.toy.profiles import in_soak
from cdc_assets_tests.waiting import roomy_hour

pytestmark = pytest.mark.stack


@pytest.fixture
def make(
    stack_config: ReplicationConfig,
    kafka_bootstrap: str,
    spark_endpoint: SparkEndpoint,
    tmp_path: Path,
) -> Callable[..., Pipeline]:
    assert kafka_bootstrap
    assert spark_endpoint

    def unused() -> None:
        msg = "runs open sessions of their own"
        raise AssertionError(msg)

    return lambda **source: Pipeline(stack_config, unused, tmp_path, source)


def run(
    topic: Topic, instance: dg.DagsterInstance, *tables: str, **tags: str
) -> dg.ExecuteInProcessResult:
    made = topic.pipeline
    return dg.materialize(
        [table_asset(made.config, made.entry(table)) for table in tables],
        instance=instance, partition_key=roomy_hour().key, raise_on_error=False,
        resources={SPARK: spark_resource(made.config)}, tags={TAG_MODE: TAIL, **tags},
    )  # fmt: skip


@in_soak
def test_tables_of_a_run_read_their_topic_once(
    make: Callable[..., Pipeline], instance_in_memory: dg.DagsterInstance
) -> None:
    """A table that fails costs the others another reading, and nothing else."""
    topic = topic_of(make, MAXWELL, tables={NOTES: {"columns": {"id": "int"}}})
    topic.send(*(put(table, id_) for id_ in (1, 2) for table in (ITEMS, NOTES, USERS)))
    with faults() as seen:
        assert run(topic, instance_in_memory, ITEMS, NOTES, USERS).success
    assert seen.seen[KEEP] == 1
    assert topic.rows() == {key: [(1, "a"), (2, "a")] for key in (ITEMS, NOTES, USERS)}

    topic.send(put(ITEMS, 3), put(NOTES, 2**40), put(USERS, 3))
    with faults() as seen:
        assert not run(topic, instance_in_memory, ITEMS, NOTES, USERS).success
    assert seen.seen[KEEP] == 1  # the last one has nobody to share with
    assert topic.rows() == {
        ITEMS: [(1, "a"), (2, "a"), (3, "a")],
        NOTES: [(1, "a"), (2, "a")],
        USERS: [(1, "a"), (2, "a"), (3, "a")],
    }


@in_soak
def test_the_turns_of_a_run_end_with_what_is_kept(
    make: Callable[..., Pipeline], instance_in_memory: dg.DagsterInstance
) -> None:
    topic = topic_of(make, MAXWELL, batch={"max_records": 4})
    topic.send(*(put(table, id_) for id_ in (1, 2, 3) for table in (ITEMS, NOTES)))
    for expected in (4, 6):
        with faults() as seen:
            assert run(topic, instance_in_memory, ITEMS, NOTES).success
        assert seen.seen[KEEP] == 1
        states = [topic.pipeline.lake.state(topic.pipeline.entry(t).target) for t in (ITEMS, NOTES)]
        assert [s and s.published and s.published.offsets.get(0) for s in states] == [expected] * 2


@in_soak
def test_a_session_that_was_lost_takes_what_was_read_with_it(
    make: Callable[..., Pipeline], instance_in_memory: dg.DagsterInstance
) -> None:
    topic = topic_of(make, MAXWELL)
    topic.send(*(put(table, 1) for table in (ITEMS, NOTES, USERS)))
    with faults(Fault("spark: publish rows", How.BEFORE)) as seen:
        assert run(topic, instance_in_memory, ITEMS, NOTES, USERS).success
    assert seen.seen[KEEP] == 2
    assert topic.rows() == {key: [(1, "a")] for key in (ITEMS, NOTES, USERS)}
