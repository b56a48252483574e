"""Distinguishes a refused connection, which is an answer, from a slow broker.

The client keeps connecting until a call's time-out, whatever the attempts' results. The first
request of a client is therefore watched, and given up early if every known broker turns the client
away (closed port, unknown name, failed login) for `TURNED_AWAY_SECONDS`: long enough for a broker
that starts a moment later. Silence gets the whole time-out, and so does a cluster of which one
broker may still answer.
"""

# librdkafka spells the codes of its own errors with a leading underscore.
# ruff: noqa: SLF001

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

TURNED_AWAY_SECONDS: Final = 1.5
_LOOK_SECONDS: Final = 0.2
_NO_ANSWER: Final = (KafkaError._TRANSPORT, KafkaError._TIMED_OUT)


@dataclass(slots=True)
class Attempts:
    """The results of one client's attempts to connect, as the client reports them.

    Attributes:
        last: the newest error of a single broker, which is more precise than that all are down.
        failed: number of errors.
        all_down: whether the client has reported that every broker it knows is down. It reports
            this once, and does not report when one is up again.
        connected: whether a request was answered, with nothing to the contrary since.
    """

    last: KafkaError | None = None
    failed: int = 0
    all_down: bool = False
    connected: bool = False

    def report(self, error: KafkaError) -> None:
        """Records an error; the client's ``error_cb``."""
        self.failed += 1
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self.all_down, self.connected = True, False
        else:
            self.last = error

    def answered(self) -> None:
        """Records an answer."""
        self.last, self.all_down, self.connected = None, False, True


def reach(client: AdminClient, attempts: Attempts, timeout_seconds: float) -> None:
    """Waits until a broker answers, unless one did without errors since: one small request.

    Raises:
        KafkaException: after the time-out, or early if every broker turns the client away.
    """
    client.poll(0)  # delivers the errors since the last request
    if attempts.connected:
        return
    try:
        _wait(client, attempts, client.describe_cluster(request_timeout=timeout_seconds))
    except KafkaException as error:
        if _code(error) in _NO_ANSWER:
            raise  # any other error is an answer, if only to this request
    client.poll(0)
    attempts.answered()


def _wait(client: AdminClient, attempts: Attempts, answer: Any) -> None:
    give_up_at = time.monotonic() + TURNED_AWAY_SECONDS
    failed = attempts.failed
    while True:
        try:
            answer.result(timeout=_LOOK_SECONDS)
        except TimeoutError:
            client.poll(0)
            if not attempts.all_down or attempts.failed == failed:
                give_up_at = time.monotonic() + TURNED_AWAY_SECONDS
            elif time.monotonic() >= give_up_at:
                raise KafkaException(attempts.last or KafkaError(KafkaError._TRANSPORT)) from None
            failed = attempts.failed
        else:
            return


def _code(error: KafkaException) -> int | None:
    cause = error.args[0] if error.args else None
    return cause.code() if isinstance(cause, KafkaError) else None
