"""A broker that is restored from an older copy of its disk, and grows again, stops the table.

The broker is one of its own, whose folder is copied and put back as an operator would.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from cdc_assets_devstack.configured import stack_of
from cdc_assets_devstack.ports import pick_free_ports
from cdc_assets_devstack.stack import LocalStack

from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import LostRangeError
from cdc_assets.merge.intake.planning import planner
from cdc_assets_tests.configuration import beside, on_ports, write
from cdc_assets_tests.merge import stated as told
from cdc_assets_tests.pipeline import Message, Pipeline, Session

pytestmark = pytest.mark.stack

TABLE = "public.t"


@dataclass(frozen=True)
class Broker:
    """A broker whose disk can be copied and put back."""

    stack: LocalStack
    copies: Path

    @property
    def disk(self) -> Path:
        return self.stack.layout.data("kafka")

    def copy(self) -> None:
        self._stopped(lambda: shutil.copytree(self.disk, self.copies))

    def restore(self, only: str = ".") -> None:
        """Puts the copy back, or one folder of it, of a partition."""

        def put_back() -> None:
            shutil.rmtree(self.disk / only)
            shutil.copytree(self.copies / only, self.disk / only)

        self._stopped(put_back)

    def _stopped(self, then: Callable[[], object]) -> None:
        self.stack.kafka.stop()
        then()
        self.stack.up(["kafka"])


@pytest.fixture
def broker(stack_config: ReplicationConfig, tmp_path: Path) -> Iterator[Broker]:
    own = write(tmp_path / "replication.yaml", on_ports(pick_free_ports(), sources={}))
    found = stack_of(own)
    try:
        found.up(["kafka"])
        yield Broker(found, tmp_path / "copy")
    finally:
        found.down()


@pytest.fixture
def made(
    broker: Broker, stack_config: ReplicationConfig, spark: Session, tmp_path: Path
) -> Pipeline:
    """A table that was merged up to offset 20 of each partition, the copy being of offset 10."""
    kafka = {"bootstrap_servers": broker.stack.kafka.address}
    pipeline = Pipeline(beside(stack_config, "own_kafka", kafka=kafka), spark, tmp_path)
    pipeline.create_topic(TABLE, partitions=2)
    pipeline.produce(TABLE, rows(0, 10))
    pipeline.merge(TABLE)
    broker.copy()
    pipeline.produce(TABLE, rows(10, 20))
    pipeline.merge(TABLE)
    return pipeline


def rows(begin: int, end: int, name: str = "before") -> list[Message]:
    return [
        Message(b'{"id":%d}' % key, row(key, name).encode(), partition)
        for n in range(begin, end)
        for partition, key in ((0, n), (1, 1000 + n))
    ]


def row(key: int, name: str) -> str:
    source = {"version": "3", "connector": "postgresql", "lsn": 1000 + key, "snapshot": "false"}
    after = {"id": key, "name": name}
    return json.dumps({"before": None, "after": after, "op": "c", "ts_ms": 1, "source": source})


def test_a_log_that_was_cut_back_and_has_grown_again_stops_the_table(
    broker: Broker, made: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.restore()
    made.produce_as(TABLE, rows(50, 65, "after"))  # a producer that knows nothing of before
    before = made.by_key(TABLE)

    with pytest.raises(LostRangeError, match=r"cut back and has grown again") as stopped:
        made.merge(TABLE)
    assert "0:[?,20) 1:[?,20)" in str(stopped.value)
    assert f"topic={made.topic(TABLE)}" in stopped.value.where
    with pytest.raises(LostRangeError, match="grown again"):
        made.replay(TABLE)
    assert made.by_key(TABLE) == before

    # The inverse: by begin and end alone the lost changes pass unseen.
    monkeypatch.setattr(planner, "require_unchanged", lambda *_: None)
    made.merge(TABLE)
    assert len(made.by_key(TABLE)) == len(before) + 2 * 5, "2 * 10 of the new rows are missing"


@pytest.mark.parametrize("others", [0, 3], ids=["shorter", "longer"])
def test_statements_are_read_where_their_topic_was_cut_back(
    broker: Broker, stack_config: ReplicationConfig, spark: Session, tmp_path: Path, others: int
) -> None:
    """By their offsets the ones that are new were read before."""
    kafka = {"bootstrap_servers": broker.stack.kafka.address}
    config = beside(stack_config, "own_kafka", kafka=kafka)
    made = told.started(lambda **source: Pipeline(config, spark, tmp_path, source))
    changed = [told.with_schema(each, "id", "name") for each in told.OLD]
    told.tell(made, *told.MADE, *told.of_another(2))
    broker.copy()
    told.tell(made, *told.of_another(2))
    made.produce(told.TABLE, changed)
    made.merge(told.TABLE)

    broker.restore(f"{made.prefix}-0")
    renamed = told.statement(300, "ALTER TABLE t CHANGE name called text", "id", "called")
    made.produce_as(told.TABLE, [])  # a producer that knows nothing of before
    told.tell(made, renamed, *told.of_another(others))
    row = {"id": 1, "called": "new"}
    made.produce(told.TABLE, [told.with_schema(told.change("u", 500, row), *row)])
    made.merge(told.TABLE)
    assert made.rows(told.TABLE) == [row, {"id": 2, "called": "old"}]


def test_a_log_that_only_moved_on_goes_on(broker: Broker, made: Pipeline) -> None:
    """The broker restarts, records expire up to the last merged one, and beyond it."""
    broker.copies.rename(broker.copies.with_name("unused"))
    broker.copy()
    made.expire(TABLE, 19)
    made.produce(TABLE, rows(20, 25))
    made.merge(TABLE)
    made.expire(TABLE, 25)
    made.produce(TABLE, rows(25, 30))
    made.merge(TABLE)
    assert len(made.by_key(TABLE)) == 60
