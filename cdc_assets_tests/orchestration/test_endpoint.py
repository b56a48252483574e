"""A closed port where Spark should be is found in a moment; a slow server is not given up."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import Mock

import grpc
import pytest

from cdc_assets.errors import UnreachableError
from cdc_assets.orchestration.resources import (
    PATIENCE_SECONDS,
    ReplicationSpark,
    require_listener,
    spark_resource,
)
from cdc_assets.orchestration.scheduler import TableScheduler
from cdc_assets_tests.world import write_config

pytestmark = pytest.mark.slow


def free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])


def test_a_session_without_a_server_fails_in_a_moment_and_names_the_address(
    tmp_path: Path,
) -> None:
    port = free_port()
    config = write_config(tmp_path, spark={"remote": f"sc://127.0.0.1:{port}"})
    started = time.monotonic()
    with pytest.raises(UnreachableError, match=f"127.0.0.1:{port}"):
        spark_resource(config).session()
    assert time.monotonic() - started < PATIENCE_SECONDS * 3


@pytest.mark.usefixtures("impatient")
def test_a_token_is_not_shown() -> None:
    with pytest.raises(UnreachableError) as caught:
        require_listener(f"sc://127.0.0.1:{free_port()}/;token=hunter2")
    assert "hunter2" not in str(caught.value)


@pytest.mark.usefixtures("impatient")
def test_silence_is_not_taken_for_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cdc_assets.orchestration.resources.ANSWER_SECONDS", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(TimeoutError):
        require_listener(f"sc://127.0.0.1:{silent.getsockname()[1]}")


def test_a_server_that_comes_up_a_moment_later_is_found() -> None:
    port, server = free_port(), grpc.server(ThreadPoolExecutor(1))

    def serve() -> None:
        server.add_insecure_port(f"127.0.0.1:{port}")
        server.start()

    threading.Timer(0.4, serve).start()
    require_listener(f"sc://127.0.0.1:{port}")
    server.stop(None).wait()


def test_an_interruption_does_not_wait_for_a_session_that_is_being_opened() -> None:
    """Otherwise a second Ctrl-C would end nothing as long as Spark starts, or does not answer."""
    begun, goes_on = threading.Event(), threading.Event()

    class Starting(ReplicationSpark):
        def late_config(self) -> Mapping[str, str]:
            begun.set()
            goes_on.wait(30)
            what = "Spark was never started"
            raise UnreachableError(what)

    spark = Starting(spark_config={})
    scheduler = spark.scheduler(lambda _: TableScheduler({}, Mock(), 1, None))
    with ThreadPoolExecutor(2) as pool:
        session = pool.submit(spark.session)
        assert begun.wait(10)
        try:
            pool.submit(spark.interrupt).result(10)
        finally:
            goes_on.set()
        assert scheduler.is_stopped
        assert isinstance(session.exception(10), UnreachableError)
