"""A refused login is a failure of its own, whichever client meets it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import grpc
import psycopg
import pymysql
import pytest
from confluent_kafka import KafkaError, KafkaException
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.connect import SparkConnectGrpcException

from cdc_assets.databases.mysql import connection as mysql
from cdc_assets.databases.postgres import connection as postgres
from cdc_assets.errors import (
    LoginRefusedError,
    TerminalError,
    TransientError,
    UnreachableError,
)
from cdc_assets.log.connect import ConnectRest
from cdc_assets.log.errors import no_answer, translate
from cdc_assets.merge.statements.failures import translated
from cdc_assets.operate.failures import FailureKind, kind_of

pytestmark = pytest.mark.unit

# ruff: noqa: SLF001 - librdkafka's own errors begin with an underscore


@pytest.mark.parametrize(
    "error",
    [
        KafkaError(KafkaError._SSL, "certificate has expired"),
        KafkaError(KafkaError._AUTHENTICATION, "SASL authentication error: Invalid password"),
        KafkaError(KafkaError.SASL_AUTHENTICATION_FAILED),
        KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED),
        KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED),
    ],
    ids=lambda error: error.name(),
)
def test_kafka_refuses_a_login(error: KafkaError) -> None:
    problem = translate(KafkaException(error), "kafka:9092")
    assert isinstance(problem, LoginRefusedError)
    assert "Kafka refused the login" in problem.what
    assert problem.where == "kafka:9092"
    assert kind_of(problem) is FailureKind.LOGIN_REFUSED


def test_a_time_out_whose_last_attempt_was_refused_is_a_refused_login() -> None:
    last = KafkaError(KafkaError._AUTHENTICATION, "SASL authentication error")
    late = KafkaException(KafkaError(KafkaError._TIMED_OUT))
    assert isinstance(translate(late, "kafka:9092", last), LoginRefusedError)
    assert isinstance(no_answer("kafka:9092", 10, last), LoginRefusedError)


@pytest.mark.parametrize(
    "last",
    [
        None,
        KafkaError(KafkaError._TRANSPORT, "Connection refused"),
        KafkaError(KafkaError._SSL, "SSL handshake failed: Disconnected"),
    ],
    ids=["silent", "closed", "went away during the handshake"],
)
def test_a_broker_that_is_away_refuses_nothing(last: KafkaError | None) -> None:
    late = KafkaException(KafkaError(KafkaError._TIMED_OUT))
    problem = translate(late, "kafka:9092", last)
    assert isinstance(problem, UnreachableError)
    assert not isinstance(problem, LoginRefusedError)


@pytest.mark.parametrize(
    "text",
    [
        'FATAL:  password authentication failed for user "etl"',
        "fe_sendauth: no password supplied",
        'FATAL:  no pg_hba.conf entry for host "10.0.0.1", user "etl"',
        'FATAL:  role "etl" does not exist',
        'FATAL:  role "etl" is not permitted to log in',
        "SSL error: certificate verify failed",
        'root certificate file "/etc/ca.pem" does not exist',
    ],
)
def test_postgres_refuses_a_login(text: str) -> None:
    problem = postgres.translated(psycopg.OperationalError(text), "db:5432/shop")
    assert isinstance(problem, LoginRefusedError)
    assert "etl" not in str(problem)


def test_a_missing_right_in_postgres_is_one_and_a_missing_database_is_none() -> None:
    lacks = postgres.translated(psycopg.errors.InsufficientPrivilege("…"), "db:5432/shop")
    assert isinstance(lacks, LoginRefusedError)
    gone = psycopg.OperationalError('FATAL:  database "shop" does not exist')
    assert isinstance(postgres.translated(gone, "db:5432/shop"), TerminalError)


@pytest.mark.parametrize("number", [1045, 1044, 1142, 1227, 1698, 1862, 2026, 3118])
def test_mysql_refuses_a_login(number: int) -> None:
    problem = mysql.translated(pymysql.err.OperationalError(number, "for 'etl'@'%'"), "db:3306/")
    assert isinstance(problem, LoginRefusedError)
    assert "refused the login" in problem.what
    assert "etl" not in str(problem)


@pytest.mark.parametrize(
    ("text", "who"),
    [
        ("status = StatusCode.UNAUTHENTICATED", "Spark refused the login"),
        ("org.apache.kafka.common.errors.SaslAuthenticationException: no", "Kafka refused"),
        ("org.apache.kafka.common.errors.TopicAuthorizationException: no", "Kafka refused"),
        ("KafkaException: javax.security.auth.login.LoginException: 401", "Kafka refused"),
        ("org.apache.iceberg.exceptions.NotAuthorizedException: no", "the catalog refused"),
        ("org.apache.iceberg.exceptions.ForbiddenException: no", "the catalog refused"),
        ("S3Exception: (Service: S3, Status Code: 403, Request ID: x)", "the warehouse refused"),
        ("FATAL: password authentication failed for user", "a database refused"),
        ("Access denied for user 'etl'@'%' (using password: YES)", "a database refused"),
    ],
)
def test_spark_names_who_has_refused_it(text: str, who: str) -> None:
    with pytest.raises(LoginRefusedError) as raised, translated("a step", "table=t"):
        raise PySparkException(text)
    assert who in raised.value.what
    assert "etl" not in str(raised.value)


def test_a_refusal_is_found_among_the_causes_on_the_server() -> None:
    stack = (
        "org.apache.kafka.common.KafkaException: Failed to create new KafkaAdminClient\n"
        "\tat org.apache.kafka.SaslAuthenticationException.no(Cause.java:1)\n"
        "Caused by: javax.security.auth.login.LoginException: hunter2\n"
    )
    failed = SparkConnectGrpcException(
        "Failed to create new KafkaAdminClient", server_stacktrace=stack
    )
    with pytest.raises(LoginRefusedError, match="Kafka refused") as raised, translated("a", "t"):
        raise failed
    assert "hunter2" not in str(raised.value)
    frames = stack.partition("Caused")[0]
    other = SparkConnectGrpcException("Failed to create", server_stacktrace=frames)
    with pytest.raises(TransientError) as told, translated("a", "t"):
        raise other
    assert not isinstance(told.value, LoginRefusedError)


def test_another_failure_of_spark_stays_one() -> None:
    with pytest.raises(TransientError) as raised, translated("a step", "table=t"):
        raise PySparkException("S3Exception: (Service: S3, Status Code: 503)")
    assert not isinstance(raised.value, LoginRefusedError)


class _Refused(grpc.RpcError):
    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.UNAUTHENTICATED


def test_a_refused_token_of_spark_is_a_refused_login() -> None:
    with pytest.raises(LoginRefusedError, match=r"spark\.token"), translated("a step", "table=t"):
        raise _Refused


@contextmanager
def answering(status: int) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Location", "/elsewhere")
            self.end_headers()
            self.wfile.write(b"x" * 5000)

        def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("status", [401, 403])
def test_connect_refuses_a_login(status: int) -> None:
    with answering(status) as url, pytest.raises(LoginRefusedError, match=f"HTTP {status}"):
        ConnectRest(url).connectors()


def test_connect_is_not_followed_elsewhere_and_its_replies_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with answering(302) as url, pytest.raises(UnreachableError, match=r"HTTP 302.*redirects"):
        ConnectRest(url).connectors()
    monkeypatch.setattr("cdc_assets.log.connect.MAX_REPLY_BYTES", 1000)
    with answering(200) as url, pytest.raises(UnreachableError, match="ContentDecodingError"):
        ConnectRest(url).connectors()
