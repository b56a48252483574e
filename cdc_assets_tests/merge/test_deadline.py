"""A statement that hangs is ended, whether the server still answers or not."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from cdc_assets_devstack.spark_server import SparkEndpoint
from cdc_assets_devstack.stack import LocalStack
from pyspark.sql import SparkSession

from cdc_assets.errors import HungError, OutcomeUnknownError, TransientError, UnreachableError
from cdc_assets.merge.statements.deadline import Limits, Steps, Watch
from cdc_assets.orchestration.resources import ReplicationSpark

pytestmark = pytest.mark.stack

SLEEP = "SELECT java_method('java.lang.Thread', 'sleep', {}L)"
WHERE = "table=shop.public.orders"


@pytest.fixture
def session(spark_endpoint: SparkEndpoint) -> Iterator[SparkSession]:
    """One of its own: it is of no use after its channel was closed."""
    made = SparkSession.builder.remote(spark_endpoint.url).create()
    made.sql("SELECT 1").collect()
    yield made
    made.stop()


@contextmanager
def stopped(stack: LocalStack) -> Iterator[None]:
    """The Spark server takes connections and does nothing."""
    running = stack.spark.running
    assert running is not None
    os.kill(running.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(running.pid, signal.SIGCONT)


def steps(session: SparkSession, statement: float, table: float = 600, grace: float = 2) -> Steps:
    return Steps(WHERE, Watch(lambda: session, Limits(statement, table), grace=grace))


def seconds(block: Callable[[], object]) -> float:
    started = time.monotonic()
    block()
    return time.monotonic() - started


def test_a_step_in_time_is_left_alone(session: SparkSession) -> None:
    made = steps(session, statement=60)
    with made.step("count"):
        assert session.range(10).count() == 10
    assert made.seconds["count"] > 0


def test_a_hung_statement_is_interrupted_and_the_session_goes_on(session: SparkSession) -> None:
    made = steps(session, statement=1, grace=60)

    def hang() -> None:
        with pytest.raises(HungError, match="step 'append rows' was not over after") as caught:
            with made.step("append rows"):
                session.sql(SLEEP.format(120_000)).collect()
        assert WHERE in str(caught.value)
        assert "batch.statement_seconds" in str(caught.value)

    assert seconds(hang) < 60
    with made.step("count"):
        assert session.range(3).count() == 3


def test_a_server_that_does_nothing_any_more_does_not_hold_up_the_client(
    session: SparkSession, stack_parts: Callable[..., LocalStack], spark_endpoint: SparkEndpoint
) -> None:
    made = steps(session, statement=1, grace=2)

    def hang() -> None:
        with pytest.raises(HungError), made.step("append rows"):
            session.range(5).count()

    with stopped(stack_parts("spark")):
        assert seconds(hang) < 30
        with pytest.raises(TransientError), made.step("look up"):
            session.range(5).count()
        assert seconds(session.stop) < 30
    other = SparkSession.builder.remote(spark_endpoint.url).create()
    assert other.range(5).count() == 5
    other.stop()


def test_what_was_publishing_is_unknown(session: SparkSession) -> None:
    made = steps(session, statement=1, grace=60)
    with pytest.raises(OutcomeUnknownError, match="looks for the attempt"):
        with made.step("publish", publishes=True):
            session.sql(SLEEP.format(120_000)).collect()


def test_the_turn_of_a_table_ends_too(session: SparkSession) -> None:
    watch = Watch(lambda: session, Limits(600, 1), grace=60)
    with pytest.raises(HungError, match=r"batch\.table_seconds"), watch.turn(WHERE):
        session.sql(SLEEP.format(120_000)).collect()
    with pytest.raises(HungError, match="turn was over"), watch.step("append rows", WHERE):
        pytest.fail("it must not begin")


def test_an_error_before_the_deadline_is_what_it_is(session: SparkSession) -> None:
    with pytest.raises(TransientError, match="TABLE_OR_VIEW_NOT_FOUND") as caught:
        with steps(session, statement=60).step("look up"):
            session.table("nowhere").collect()
    assert not isinstance(caught.value, HungError)


@pytest.mark.parametrize("silent", [False, True], ids=["it refuses", "it is silent"])
def test_no_session_is_waited_for_without_end(
    monkeypatch: pytest.MonkeyPatch, *, silent: bool
) -> None:
    """A port that takes connections and says nothing is what a stopped server is."""
    monkeypatch.setattr("cdc_assets.orchestration.resources.ANSWER_SECONDS", 1.0)
    with socket.socket() as port:
        port.bind(("127.0.0.1", 0))
        if silent:
            port.listen()
        remote = f"sc://localhost:{port.getsockname()[1]}/;token=x"
        spark = ReplicationSpark(spark_config={"spark.remote": remote})
        with pytest.raises(
            UnreachableError, match=r"Spark (does not answer|cannot be connected to)"
        ):
            spark.session()
