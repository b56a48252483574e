"""The tables that a run waits for are those of its own steps; how it looks at their topics."""

# No `from __future__ import annotations`: Dagster reads the annotations of the bodies below.

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

import dagster as dg
import pytest

from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.config import ReplicationConfig
from cdc_assets.log.kafka import KafkaLog
from cdc_assets.orchestration.hand_over import PARTITIONS_SECONDS, TopicEnds, scheduler_of
from cdc_assets.orchestration.keys import TAG_TOPIC
from cdc_assets.orchestration.resources import spark_resource
from cdc_assets_tests.world import write_config

CONFIGS: list[ReplicationConfig] = []
"""The configuration of the job, which Dagster makes by a function of this module."""
ALONE: list[bool] = []


@pytest.fixture
def _configured(tmp_path: Path) -> Iterator[None]:
    CONFIGS.append(write_config(tmp_path))
    yield
    CONFIGS.clear()
    ALONE.clear()


def table(name: str) -> dg.AssetsDefinition:
    """One of two tables of a topic, of which the first fails at the first time."""

    def work(context: dg.AssetExecutionContext) -> Iterator[object]:
        (config,) = CONFIGS
        scheduler = scheduler_of(context, config, spark_resource(config), may_stay=False)
        ALONE.append(scheduler.is_alone(name))
        if name == "a" and context.run.parent_run_id is None:
            raise dg.Failure("no", allow_retries=False)
        yield dg.MaterializeResult()

    made = dg.multi_asset(name=name, specs=[dg.AssetSpec(name)], op_tags={TAG_TOPIC: "shop:all"})
    return made(work)


def job() -> dg.JobDefinition:
    found = dg.Definitions(
        assets=[table(name) for name in "ab"], executor=dg.in_process_executor,
        jobs=[dg.define_asset_job("tables", dg.AssetSelection.all())],
    )  # fmt: skip
    return found.resolve_job_def("tables")


@pytest.mark.slow
@pytest.mark.usefixtures("_configured")
def test_a_run_from_a_failure_waits_for_no_table_that_it_leaves_out(
    instance: dg.DagsterInstance,
) -> None:
    failed = dg.execute_job(dg.reconstructable(job), instance)
    again = dg.ReexecutionOptions.from_failure(failed.run_id, instance)
    assert dg.execute_job(dg.reconstructable(job), instance, reexecution_options=again).success
    assert ALONE == [False, False, True]


class Topics:
    """Kafka with topics of one partition, of which ``c`` does not exist."""

    def __init__(self) -> None:
        self.listed: list[frozenset[str]] = []

    def partitions(self, topics: Iterable[str]) -> dict[str, list[int]]:
        self.listed.append(frozenset(topics))
        return {topic: [0] for topic in topics if topic != "c"}

    def ends(self, partitions: Mapping[str, Sequence[int]]) -> dict[str, OffsetVector]:
        return {topic: OffsetVector.of({0: 7}) for topic in partitions}


@pytest.mark.unit
def test_tables_that_are_idle_in_turn_do_not_have_the_cluster_listed_at_each_look() -> None:
    topics, now = Topics(), 0.0
    ends = TopicEnds(cast("KafkaLog", topics), lambda: now)
    for wanted in ["a", "b", "a", "bc", "ab", "c"] * 3:
        assert ends(wanted).keys() == {*wanted} - {"c"}
    assert topics.listed == [frozenset("a"), frozenset("ab"), frozenset("abc")]
    now = PARTITIONS_SECONDS + 1
    assert ends("b").keys() == {"b"}
    assert topics.listed[3:] == [frozenset("b")], "what nobody asks for any more is forgotten"
