"""The page of findings is complete, and each rule has facts that make it speak."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from cdc_assets.changes.mode import Mode
from cdc_assets.changes.names import TableName
from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.changes.slo import SloTarget
from cdc_assets.config.assess import FINDINGS
from cdc_assets.config.connector import ConnectorConfig
from cdc_assets.config.platform import LakeConfig
from cdc_assets.config.table import TableOverrides
from cdc_assets.databases.mysql.server import BinlogServer, grants_of
from cdc_assets.databases.mysql.table import BinlogSettings, MysqlTable
from cdc_assets.databases.postgres.columns import PostgresColumn
from cdc_assets.databases.postgres.server import (
    OddValues,
    PostgresServer,
    PublishedOperations,
    Role,
    Slot,
)
from cdc_assets.databases.postgres.table import PostgresTable, Publication, ReplicaIdentity
from cdc_assets.databases.rows import Driver
from cdc_assets.decode import JarMatch
from cdc_assets.errors import TerminalError, UnsetVariableError
from cdc_assets.lake.abilities import CatalogAbilities, Together
from cdc_assets.log.settings import settings_of
from cdc_assets.log.values import Watermarks
from cdc_assets.operate.assess.connector import JSON, Connector, ConnectorCase, ExpectedConnector
from cdc_assets.operate.assess.database import Clock, Postgres, User
from cdc_assets.operate.assess.finding import Rule, Subject
from cdc_assets.operate.assess.lake import ReadTable
from cdc_assets.operate.assess.look import SourceAccess, Tables
from cdc_assets.operate.assess.parts import EXTENSIONS, Spark, SparkFacts, SparkRequirements
from cdc_assets.operate.assess.table_facts import KnownTable, Table
from cdc_assets.operate.assess.topics import Topic
from cdc_assets.operate.assess.writing import TriedCatalog, WriteRefusal
from cdc_assets.operate.plaintext import Plaintext
from cdc_assets.schema.described import Described
from cdc_assets.schema.modes import ConnectorModes
from cdc_assets.schema.silent import OnSilent, SilentChange, SilentKind, SilentPolicy
from cdc_assets.schema.types import Column, Primitive, Wire
from cdc_assets_tests.operate.findings_page import page, rules

pytestmark = pytest.mark.unit

PAGE: Final = Path(__file__).parents[2] / "docs" / "reference" / "findings.md"
SOURCE: Final = Subject("shop")
TABLE: Final = Subject("shop", TableName("shop", "public", "orders"))
CLASSES: Final = {
    "postgres": "postgresql.PostgresConnector",
    "mysql": "mysql.MySqlConnector",
    "mariadb": "mariadb.MariaDbConnector",
    "sqlserver": "sqlserver.SqlServerConnector",
    "oracle": "oracle.OracleConnector",
    "mongodb": "mongodb.MongoDbConnector",
    "yugabyte": "yugabytedb.YugabyteDBgRPCConnector",
}

# ── facts, each with one thing or a few that are wrong ────────────────────────────────────


def connector(kind: str, bad: str = "", **settings: str) -> Connector:
    said = {name.replace("_", "."): value for name, value in settings.items()}
    return Connector(
        "c", bad, {"connector.class": f"io.debezium.connector.{CLASSES[kind]}", **said}
    )


def facts_of_connectors() -> Iterator[ConnectorCase]:
    here = ExpectedConnector(SOURCE, "debezium-json", ConnectorConfig(), has_database=False)
    bare = {"value_converter": JSON, "value_converter_schemas_enable": "false"}
    flat = {
        "transforms": "a",
        "transforms_a_type": "io.debezium.transforms.ExtractNewRecordState",
        "transforms_a_delete_tombstone_handling_mode": "drop",
    }
    for each in (
        connector("postgres", "its task failed"),
        connector("postgres", **bare, decimal_handling_mode="string"),
        connector("postgres", value_converter="a.b.AvroConverter"),
        connector("postgres", unavailable_value_placeholder="else", skipped_operations="d"),
        connector("postgres", signal_enabled_channels="kafka", **flat),
        connector("postgres", **flat | {"transforms_a_delete_tombstone_handling_mode": "rewrite"}),
        connector("postgres", transforms="a", transforms_a_type="x.Route"),
        connector("postgres", column_exclude_list="public.orders.a", errors_tolerance="all"),
        connector("postgres", event_processing_failure_handling_mode="warn"),
        connector("postgres", snapshot_mode="never", decimal_handling_mode="double"),
        connector("postgres", time_precision_mode="connect", slot_drop_on_stop="true"),
        connector("postgres", publication_autocreate_mode="filtered"),
        connector("postgres", snapshot_select_statement_overrides="public.orders"),
        connector("postgres", snapshot_include_collection_list="public.orders"),
        connector("mysql", inconsistent_schema_handling_mode="skip"),
        connector("mysql", include_schema_changes="false", gtid_source_includes="a"),
        connector("mysql", value_converter=JSON, gtid_source_excludes="b"),
        connector("mysql", schema_history_internal_skip_unparseable_ddl="true"),
        connector("mariadb"),
        connector("sqlserver", snapshot_isolation_mode="read_uncommitted"),
        *(
            connector("oracle", **{f"log_mining_{who}_list": "a"})
            for who in ("username_include", "username_exclude", "clientid_include",
                        "clientid_exclude")
        ),
        connector("oracle", log_mining_transaction_retention_ms="9"),
        connector("mongodb", capture_mode="change_streams"),
        connector("yugabyte", ignore_exceptions="true"),
    ):  # fmt: skip
        yield ConnectorCase(each, here)
        yield ConnectorCase(each, replace(here, takes_cuts=True))


def facts_of_postgres() -> Iterator[Postgres]:
    slots = {
        "lost": Slot("lost", True, 0, 0, "lost"),
        "idle": Slot("idle", False, 1 << 40, 0, "reserved"),
    }
    published = {"cdc": PublishedOperations("cdc", delete=False, truncate=False)}
    server = PostgresServer("replica", None, slots, published)
    yield Postgres(server, frozenset({"lost", "idle", "gone"}), ("cdc", "gone"))


def facts_of_users() -> Iterator[User]:
    role = PostgresServer("logical", None, {}, {}, {"cdc": Role(may_replicate=False)})
    yield User(connector("postgres", database_user="cdc"), role)
    for grants in (None, grants_of(["GRANT SELECT ON *.* TO `cdc`"])):
        yield User(connector("mysql", database_user="cdc"), BinlogServer(grants={"cdc": grants}))


def facts_of_topics() -> Iterator[Topic]:
    week = {"cleanup.policy": "delete", "retention.ms": "604800000", "retention.bytes": "-1"}
    marks = Watermarks(OffsetVector.of({0: 3, 1: 0}), OffsetVector.of({0: 5, 1: 5}))
    good = Topic("t", marks, settings_of(week), SloTarget(95, 300, 24), (False,), expects_keys=True)
    yield replace(good, marks=None)
    yield replace(good, settings=None, partitions=1)
    one = Watermarks(marks.begin, OffsetVector.of({0: 5, 1: 0}))
    yield replace(good, partitions=1, marks=one)
    for changed in (
        {"cleanup.policy": "compact,delete", "retention.bytes": "9"},
        {"retention.ms": "299000", "message.timestamp.type": "LogAppendTime"},
        {"retention.ms": "3600000"},
        {"retention.ms": "-1"},
    ):
        yield replace(good, settings=settings_of({**week, **changed}), is_by_binlog=False)
    yield replace(good, has_others=True)
    times = settings_of({**week, "message.timestamp.type": "LogAppendTime"})
    yield replace(good, settings=times, is_by_binlog=True)


def postgres_table(**more: Any) -> PostgresTable:
    columns = (
        PostgresColumn("id", "int8", "bigint"),
        PostgresColumn("price", "numeric", "numeric", has_default=True),
        PostgresColumn("sum", "numeric", "numeric(10,2)", 655366, is_generated=True),
        PostgresColumn("odd", "xid", "xid"),
        PostgresColumn("note", "text", "text", may_be_toasted=True),
    )
    usual: dict[str, Any] = {"primary_key": (), "replica_identity": ReplicaIdentity.DEFAULT}
    return PostgresTable(columns, comment="", **{**usual, **more})


def facts_of_tables() -> Iterator[KnownTable]:
    json = {"value_converter": JSON}
    avro = {"value_converter": "a.b.AvroConverter"}
    odd = OddValues(("price",), ("price",))
    filtering = (Publication("cdc", filters_rows=True),)
    for table in (
        Table(postgres_table(is_unlogged=True)),
        Table(postgres_table(by_partition=("cdc",))),
        Table(postgres_table(), needs_publication=True, unreadable_by="cdc"),
        Table(postgres_table(publications=filtering)),
        Table(postgres_table(deferrable_key=True, primary_key=("id",)), odd=odd),
        Table(postgres_table(heirs=("heir",)), connector=connector("postgres"), odd=odd,
              mode=Mode.HISTORY),
        Table(postgres_table(), connector=connector("postgres", **json)),
        Table(postgres_table(), overrides=TableOverrides(where="body = 'x'"),
              described=Described((Column("id", Primitive.LONG, Wire.LONG),), (), "the catalog")),
        Table(postgres_table(), connector=connector("postgres", **avro), rejects_stop=False,
              odd=odd),
        Table(postgres_table(), odd=odd, connector=connector(
            "postgres", event_converting_failure_handling_mode="fail")),
        Table(MysqlTable((), (), binlog=BinlogSettings(row_image="minimal"))),
        *(Table(MysqlTable((), (), unsent=tuple(
            SilentChange(kind, "why", is_standing=True) for kind in SilentKind)), silent=policy)
          for policy in (SilentPolicy(), SilentPolicy(dict.fromkeys(SilentKind, OnSilent.MARK)))),
    ):  # fmt: skip
        found = table.found
        assert found is not None
        described = found.described(ConnectorModes())
        yield KnownTable(TABLE, replace(table, described=described), found)


def facts_of_spark() -> Iterator[Spark]:
    catalog = "org.apache.iceberg.spark.SparkCatalog"
    good = SparkFacts("4.1.1", EXTENSIONS, catalog, True, "1.12.0", True)
    needed = SparkRequirements(Driver("a.Driver", "a:driver"), "a.Login")
    yield Spark(replace(good, version="3.5.1", extensions="", catalog=""), needed)
    yield Spark(replace(good, opens_catalog=False, reads_kafka=False), needed)
    other = next(each for each in JarMatch if each is not JarMatch.SAME)
    lacking = frozenset({"a.Driver", "a.Login"})
    yield Spark(replace(good, iceberg="1.9.2", decoder=other, no_drivers=lacking), needed)


ERRORS: Final = (
    TerminalError("refused", where="db:1", remedy="allow it"),
    UnsetVariableError("DSN is not set", where="sources.shop", remedy="set it"),
)


def lake_of(warehouse: str) -> LakeConfig:
    return LakeConfig.model_validate(
        {"catalog": {"type": "rest", "uri": "https://c", "properties": {"warehouse": warehouse}},
         "warehouse": "s3://b"}
    )  # fmt: skip


CATALOGS: Final = (
    CatalogAbilities(3, False, False, None, None),
    CatalogAbilities(2, True, True, False, Together.ONE_BY_ONE),
)
FACTS: Final[dict[str, Sequence[Any]]] = {
    "look.CONFIGURED": [Tables(["public.order"], ["public.orders"])],
    "look.LOGINS": [[Plaintext("Kafka", "not encrypted", "encrypt it")]],
    "look.ACCESS": [
        SourceAccess(is_debezium=True, connect=None, has_connector=False, has_database=False),
        SourceAccess(is_debezium=False, connect=None, has_connector=False, has_database=True),
        SourceAccess(is_debezium=True, connect="http://c", has_connector=False, has_database=True),
    ],
    "look.UNSEARCHED": [False],
    "parts.AWAY": ERRORS,
    "parts.SPARK": [*facts_of_spark()],
    "parts.WAREHOUSE": ["s3://lake/left"],
    "lake.READ": [
        ReadTable(TABLE, 3, is_marked=True, readers=("athena", "clickhouse", "spark")),
        ReadTable(TABLE, 2, is_marked=False, readers=("athena", "without_deletes")),
    ],
    "lake.MAINTAINED": [lake_of("arn:aws:s3tables:eu-west-1:1:bucket/b"), lake_of("s3://b")],
    "writing.CATALOG": [TriedCatalog(each, 3, takes_cuts=True) for each in CATALOGS],
    "writing.NAMESPACES": [WriteRefusal(ERRORS[0], is_namespace=True)],
    "database.POSTGRES": [*facts_of_postgres()],
    "database.BINLOG": [
        BinlogServer(has_binlog=False),
        BinlogServer(row_metadata="minimal", kept_seconds=60, has_gtids=False, server_id=0),
    ],
    "database.USERS": [*facts_of_users()],
    "database.CLOCKS": [[Clock("Spark", 60.0)]],
    "connector_rules.RULES": [*facts_of_connectors()],
    "topics.RULES": [*facts_of_topics()],
    "tables.MISSING": [Table(None)],
    "tables.RULES": [*facts_of_tables()],
}
"""Facts for each tuple of rules. Each rule has to speak about one of them at least."""

ALL: Final = [(key, rule) for key, found in rules().items() for rule in found]

# ── tests ─────────────────────────────────────────────────────────────────────────────────


def test_the_page_is_that_of_the_rules() -> None:
    assert PAGE.read_text() == page(), "python -m cdc_assets_tests.pages"


def test_the_names_that_a_configuration_may_accept_are_those_of_the_rules() -> None:
    assert {rule.name for _, rule in ALL} == FINDINGS


@pytest.mark.parametrize(
    ("key", "rule"), ALL, ids=[f"{key}-{rule.name}-{rule.looks_at}" for key, rule in ALL]
)
def test_each_rule_speaks_and_says_all_of_it(key: str, rule: Rule[Any]) -> None:
    said = [found for facts in FACTS[key] for found in rule.judge(TABLE, facts)]
    assert said, f"no facts of {key} make {rule.name} speak: {rule.looks_at}"
    for found in said:
        assert (found.name, found.verdict, found.stops) == (rule.name, rule.verdict, rule.stops)
        assert found.problem
        assert found.impact
        assert found.remedy
        assert not re.search(r"\{\w+\}", found.impact + found.remedy)


def test_only_what_cannot_be_replicated_stops_a_first_batch() -> None:
    assert {rule.verdict.value for _, rule in ALL if rule.stops} == {"NO"}
