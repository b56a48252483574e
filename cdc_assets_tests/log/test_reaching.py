"""A closed port is an answer, a slow broker is not."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from cdc_assets.errors import UnreachableError
from cdc_assets.log.kafka import KafkaLog

TIMEOUT_SECONDS = 10
Question = Callable[[KafkaLog], object]
QUESTIONS: dict[str, Question] = {
    "topics": KafkaLog.topics,
    "watermarks": lambda log: log.watermarks(["x"]),
    "identity": lambda log: log.identity(["x"]),
}


def free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])


def log_at(*ports: int, timeout_seconds: float = TIMEOUT_SECONDS) -> KafkaLog:
    servers = ",".join(f"127.0.0.1:{port}" for port in ports)
    return KafkaLog({"bootstrap.servers": servers}, timeout_seconds)


class Way:
    """A port that leads to a broker, each answer held back for a while."""

    def __init__(self, broker: str, port: int, delay_seconds: float = 0) -> None:
        host, _, number = broker.rpartition(":")
        self._broker = (host, int(number))
        self._delay = delay_seconds
        self._server = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = self._server.accept()
                broker = socket.create_connection(self._broker)
                for start, end, delay in ((client, broker, 0), (broker, client, self._delay)):
                    copy = threading.Thread(target=_copy, args=(start, end, delay), daemon=True)
                    copy.start()

    def close(self) -> None:
        self._server.close()


def _copy(start: socket.socket, end: socket.socket, delay_seconds: float) -> None:
    with suppress(OSError):  # one of the two has hung up
        while data := start.recv(65536):
            time.sleep(delay_seconds)
            end.sendall(data)


@contextmanager
def way(broker: str, port: int, delay_seconds: float = 0) -> Iterator[None]:
    made = Way(broker, port, delay_seconds)
    yield
    made.close()


@pytest.mark.slow
def test_a_refused_connection_is_reported_long_before_the_time_out() -> None:
    port = free_port()
    log, started = log_at(port), time.monotonic()
    with pytest.raises(UnreachableError, match="Connection refused") as caught:
        log.topics()
    assert time.monotonic() - started < TIMEOUT_SECONDS / 2
    assert f"127.0.0.1:{port}" in str(caught.value)


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("also_refused", [False, True], ids=["alone", "beside a closed port"])
def test_silence_gets_the_whole_time_out(also_refused: bool) -> None:
    whole = 1.0
    with socket.create_server(("127.0.0.1", 0)) as silent:
        ports = [silent.getsockname()[1], *([free_port()] if also_refused else [])]
        log, started = log_at(*ports, timeout_seconds=whole), time.monotonic()
        with pytest.raises(UnreachableError):
            log.topics()
    assert time.monotonic() - started >= whole


@pytest.mark.stack
@pytest.mark.parametrize("ask", QUESTIONS.values(), ids=QUESTIONS)
def test_a_broker_that_comes_up_a_moment_later_is_waited_for(
    kafka_bootstrap: str, ask: Question
) -> None:
    port, opened = free_port(), []
    timer = threading.Timer(0.7, lambda: opened.append(Way(kafka_bootstrap, port)))
    timer.start()
    ask(log_at(port))
    assert opened, "it answered before it was there"
    opened[0].close()


@pytest.mark.stack
@pytest.mark.parametrize("ask", QUESTIONS.values(), ids=QUESTIONS)
def test_a_slow_broker_gets_its_time(kafka_bootstrap: str, ask: Question) -> None:
    port = free_port()
    with way(kafka_bootstrap, port, delay_seconds=1):
        ask(log_at(port))


@pytest.mark.stack
@pytest.mark.parametrize("ask", QUESTIONS.values(), ids=QUESTIONS)
def test_one_of_several_brokers_is_enough(kafka_bootstrap: str, ask: Question) -> None:
    broker = int(kafka_bootstrap.rpartition(":")[2])
    ask(log_at(free_port(), broker, free_port()))
