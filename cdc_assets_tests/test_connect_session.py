"""Sessions share the code that Spark has generated, but where one brings a jar of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import grpc
import pytest
from cdc_assets_devstack.spark_server import SparkEndpoint
from pyspark.sql import SparkSession
from pyspark.sql.connect.client import SparkConnectClient

from cdc_assets.changes.names import LakeName
from cdc_assets.config import ReplicationConfig
from cdc_assets.connect_session import add_jar, open_session
from cdc_assets.decode import JAR
from cdc_assets.merge.statements import sql
from cdc_assets.orchestration.resources import ReplicationSpark, spark_resource
from cdc_assets.schema.types import Column, Primitive, TableSchema, Wire
from cdc_assets_tests.configuration import beside, source
from cdc_assets_tests.lake_view import open_catalog
from cdc_assets_tests.waiting import until

pytestmark = pytest.mark.stack

ISOLATED = "spark.sql.artifact.isolation.enabled"


@contextmanager
def opened(url: str, *, isolated: bool = False) -> Iterator[SparkSession]:
    session = open_session(url, isolated=isolated)
    try:
        yield session
    finally:
        session.stop()


def is_isolated(session: SparkSession) -> bool:
    assert session.range(3).count() == 3
    return session.conf.get(ISOLATED) == "true"


def test_a_session_is_isolated_if_a_jar_will_be_sent(spark_endpoint: SparkEndpoint) -> None:
    url = spark_endpoint.url
    with opened(url) as one, opened(url) as other, opened(url, isolated=True) as sending:
        assert not is_isolated(one)
        assert not is_isolated(other)
        assert is_isolated(sending)
        one.conf.set("cdc.assets.test", "of one")
        assert other.conf.get("cdc.assets.test", None) is None
    with opened(url) as after:
        assert not is_isolated(after)


def test_a_jar_leaves_with_its_session_and_is_refused_where_it_would_stay(
    spark_endpoint: SparkEndpoint,
) -> None:
    """Left there, its file goes with the session, and every later task fails to fetch it."""
    url = spark_endpoint.url
    with opened(url) as one:
        with opened(url) as other, pytest.raises(RuntimeError, match="needs a session"):
            add_jar(other, JAR)
        with opened(url, isolated=True) as sending:
            add_jar(sending, JAR)
            use(sending)
        use(one)
        with opened(url) as after:
            use(after)


def test_what_was_compiled_for_one_is_not_compiled_for_the_next(
    spark_endpoint: SparkEndpoint,
) -> None:
    """The server compiles for its warm-up, too, when it has just started."""
    url = spark_endpoint.url
    with opened(url) as looking:
        compiling(looking)

        def compiles(*, isolated: bool) -> bool:
            with opened(url, isolated=isolated) as session:
                before = compiling(looking)
                use(session)
                return compiling(looking) > before

        until(lambda: not compiles(isolated=False), "a session that compiles nothing")
        assert compiles(isolated=True)
        assert compiles(isolated=True)


def use(session: SparkSession) -> None:
    """Some statement that Spark generates code for."""
    session.range(100).selectExpr("id % 7 AS part").groupBy("part").count().collect()


def compiling(session: SparkSession) -> int:
    """The nanoseconds for which the server has compiled generated code so far."""
    generator = "org.apache.spark.sql.catalyst.expressions.codegen.CodeGenerator"
    (row,) = session.sql(f"SELECT java_method('{generator}', 'compileTime')").collect()
    return int(row[0])


def test_a_server_that_cannot_clone_gives_an_isolated_one(
    spark_endpoint: SparkEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> SparkConnectClient:
        raise grpc.RpcError

    monkeypatch.setattr(SparkConnectClient, "clone", refuse)
    with opened(spark_endpoint.url) as session:
        assert session.range(3).count() == 3


@pytest.mark.parametrize("form", ["debezium-json", "canal-protobuf"])
def test_a_run_shares_code_whatever_it_reads(
    stack_config: ReplicationConfig, spark_endpoint: SparkEndpoint, form: str
) -> None:
    assert spark_endpoint.url
    name = f"session_{form}".replace("-", "_")
    config = beside(stack_config, name, sources={"shop": {**source("shop"), "format": form}})
    session = spark_resource(config).new_session()
    try:
        assert not is_isolated(session)
    finally:
        session.stop()


LIKE_VARIABLES = "a ${env:PATH} ${spark:spark.app.name} ${x} b"


@pytest.mark.parametrize("isolated", [False, True])
def test_statements_run_as_they_are_written(
    spark_endpoint: SparkEndpoint, *, isolated: bool
) -> None:
    """Spark would replace variables within quotes, too, those of its environment among them."""
    statement = f"SELECT {sql.text(LIKE_VARIABLES)} AS {sql.quote(LIKE_VARIABLES)}"
    with opened(spark_endpoint.url, isolated=isolated) as session:
        session.conf.unset("spark.sql.variable.substitute")
        (naive,) = session.sql(statement).collect()
        assert "${env:PATH}" not in naive[0], "Spark's default"
    with opened(spark_endpoint.url, isolated=isolated) as session:
        (row,) = session.sql(statement).collect()
        assert row.asDict() == {LIKE_VARIABLES: LIKE_VARIABLES}


def test_a_comment_shows_no_variable_of_the_server_whatever_the_configuration_says(
    stack_config: ReplicationConfig, spark_endpoint: SparkEndpoint
) -> None:
    settings = {"spark.remote": spark_endpoint.url, "spark.sql.variable.substitute": "true"}
    name = LakeName("as_written", "commented")
    column = Column("id", Primitive.LONG, Wire.LONG, comment=LIKE_VARIABLES)
    schema = TableSchema((column,), comment=LIKE_VARIABLES)
    catalog = stack_config.lake.catalog.name
    session = ReplicationSpark(spark_config=settings).new_session()
    try:
        session.sql(sql.create_namespace(catalog, name))
        session.sql(sql.create_table(catalog, name, schema, {}, {"format-version": "2"}))
        made = open_catalog(stack_config).load_table((name.namespace, name.name))
        session.sql(sql.drop_table(catalog, name))
    finally:
        session.stop()
    assert made.schema().find_field("id").doc == LIKE_VARIABLES
    assert made.properties["comment"] == LIKE_VARIABLES
