"""The rules of `assess`: facts in, findings out. Good facts give none."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cdc_assets.changes.mode import Mode
from cdc_assets.changes.names import TableName
from cdc_assets.changes.offsets import Coordinate, OffsetVector
from cdc_assets.changes.slo import SloTarget
from cdc_assets.config.assess import FINDINGS
from cdc_assets.config.column import ColumnOverrides
from cdc_assets.config.connector import ConnectorConfig
from cdc_assets.config.table import TableOverrides
from cdc_assets.databases.mysql.server import BinlogServer, grants_of
from cdc_assets.databases.mysql.table import BinlogSettings, ForeignKey, MysqlTable, cascades
from cdc_assets.databases.mysql.types import MysqlColumn
from cdc_assets.databases.postgres.columns import PostgresColumn
from cdc_assets.databases.postgres.server import (
    OddValues,
    PostgresServer,
    PublishedOperations,
    Slot,
)
from cdc_assets.databases.postgres.table import PostgresTable, ReplicaIdentity, RowIdentity
from cdc_assets.databases.rows import Driver
from cdc_assets.decode import JarMatch
from cdc_assets.log.settings import settings_of
from cdc_assets.log.values import RawRecord, Watermarks
from cdc_assets.operate.assess.connector import (
    Connector,
    Encoding,
    ExpectedConnector,
    configured_as,
    encoding_of,
)
from cdc_assets.operate.assess.connector_rules import judge_connector
from cdc_assets.operate.assess.database import (
    Clock,
    judge_binlog,
    judge_clocks,
    judge_postgres,
    judge_user,
)
from cdc_assets.operate.assess.finding import (
    Assessment,
    Finding,
    Subject,
    Verdict,
    accepted,
    ordered,
)
from cdc_assets.operate.assess.parts import EXTENSIONS, SparkFacts, SparkRequirements, judge_spark
from cdc_assets.operate.assess.table_facts import Table
from cdc_assets.operate.assess.tables import judge_table
from cdc_assets.operate.assess.topics import Topic, judge_topic
from cdc_assets.schema.modes import ConnectorModes
from cdc_assets.schema.silent import OnSilent, SilentKind, SilentPolicy

pytestmark = pytest.mark.unit

SOURCE = Subject("shop")
TABLE = Subject("shop", TableName("shop", "public", "orders"))
JSON = "org.apache.kafka.connect.json.JsonConverter"

POSTGRES = {
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "plugin.name": "pgoutput",
    "topic.prefix": "shop",
    "slot.name": "cdc_shop",
    "publication.name": "cdc",
    "publication.autocreate.mode": "disabled",
    "heartbeat.interval.ms": "5000",
    "event.converting.failure.handling.mode": "fail",
    "decimal.handling.mode": "string",
    "producer.override.max.request.size": "67108864",
    "skipped.operations": "none",
    "key.converter": JSON,
    "value.converter": JSON,
    "value.converter.schemas.enable": "true",
    "value.converter.replace.null.with.default": "false",
}
MARIADB = {
    **{k: v for k, v in POSTGRES.items() if not k.startswith(("slot", "publication", "plugin"))},
    "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
    "enable.time.adjuster": "false",
    "driver.yearIsDateType": "false",
    "bigint.unsigned.handling.mode": "precise",
}
UNWRAP = {
    "transforms": "flat",
    "transforms.flat.type": "io.debezium.transforms.ExtractNewRecordState",
}
FIELDS = {"transforms.flat.add.fields": "op,source.ts_ms,source.lsn"}
BARE = {"value.converter.schemas.enable": "false"}
TEXTS = ConnectorConfig(decimal_handling_mode="string")


PAGES = Path(__file__).parents[2] / "docs" / "how-to" / "sources"
FORMATS = {"yugabytedb": "yugabyte-debezium"}
DOCUMENTED = ("postgresql", "mysql", "sqlserver", "oracle", "mongodb", "yugabytedb")


def documented(page: str) -> dict[str, str]:
    """The connector's settings on a page of docs/how-to/sources."""
    text = (PAGES / f"{page}.md").read_text()
    return json.loads(text.partition("```json\n")[2].partition("```")[0])


def of_page(page: str, changed: Mapping[str, str]) -> dict[str, Verdict]:
    """The findings on a connector that a page documents, with some settings changed."""
    connector = Connector("shop", "", {**documented(page), **changed})
    form = FORMATS.get(page, "debezium-json")
    expected = ExpectedConnector(SOURCE, form, ConnectorConfig(), has_database=False)
    return verdicts(judge_connector(connector, expected))


def said(
    settings: Mapping[str, str], bad: str = "", *, database: bool = True, form: str = "json",
    modes: ConnectorConfig | None = None,
) -> dict[str, Verdict]:  # fmt: skip
    expected = ExpectedConnector(SOURCE, f"debezium-{form}", modes or ConnectorConfig(), database)
    return verdicts(judge_connector(Connector("shop", bad, settings), expected))


def unnamed(settings: Mapping[str, str]) -> dict[str, str]:
    """The same connector, whose converters are its worker's."""
    return {name: value for name, value in settings.items() if "converter" not in name}


def verdicts(found: Iterable[Finding]) -> dict[str, Verdict]:
    named = [*found]
    assert {each.name for each in named} <= FINDINGS
    assert all(each.verdict is Verdict.NO for each in named if each.stops)
    return {each.name: each.verdict for each in named}


@pytest.mark.parametrize("page", DOCUMENTED)
def test_the_settings_on_a_page_have_no_finding(page: str) -> None:
    assert of_page(page, {}) == {}


EVERY = {
    "event.processing.failure.handling.mode=warn": ("events_skipped", "NO"),
    "event.processing.failure.handling.mode=skip": ("events_skipped", "NO"),
    "skipped.operations=d": ("changes_skipped", "NO"),
    "skipped.operations=d,u": ("changes_skipped", "NO"),
    "snapshot.mode=never": ("snapshot_mode", "PARTIAL"),
    "errors.tolerance=all": ("errors_tolerated", "NO"),
    "snapshot.select.statement.overrides=public.orders": ("snapshot_filtered", "PARTIAL"),
    "snapshot.include.collection.list=public.orders": ("snapshot_filtered", "PARTIAL"),
    "signal.enabled.channels=kafka": ("signals_unanswered", "PARTIAL"),
    "producer.override.max.request.size=1048576": ("large_records_stop", "PARTIAL"),
    "producer.override.max.request.size=20000000": None,
}
LOSING = {
    "postgresql": {
        "decimal.handling.mode=precise": ("numbers_stop", "PARTIAL"),
        "event.converting.failure.handling.mode=warn": ("conversion_failures", "PARTIAL"),
    },
    "mysql": {
        "inconsistent.schema.handling.mode=warn": ("events_skipped", "NO"),
        "unavailable.value.placeholder=…": None,
        "skipped.operations=t": ("truncates_skipped", "PARTIAL"),
        "gtid.source.includes=server": ("changes_filtered", "NO"),
        "gtid.source.excludes=server": ("changes_filtered", "NO"),
        "schema.history.internal.skip.unparseable.ddl=true": ("statements_skipped", "PARTIAL"),
    },
    "sqlserver": {
        "unavailable.value.placeholder=…": ("placeholder_differs", "NO"),
        "event.converting.failure.handling.mode=warn": ("conversion_failures", "PARTIAL"),
        "snapshot.isolation.mode=read_uncommitted": ("dirty_snapshot", "NO"),
        "snapshot.isolation.mode=exclusive": None,
        "decimal.handling.mode=double": ("decimals_as_double", "PARTIAL"),
        "time.precision.mode=connect": ("times_cut", "PARTIAL"),
        "skipped.operations=t": None,
    },
    "oracle": {
        "unavailable.value.placeholder=…": ("placeholder_differs", "NO"),
        "event.converting.failure.handling.mode=skip": ("conversion_failures", "PARTIAL"),
        "lob.enabled=false": ("lobs_left_out", "PARTIAL"),
        "log.mining.transaction.retention.ms=3600000": ("transactions_dropped", "NO"),
        "log.mining.transaction.retention.ms=0": None,
        "log.mining.username.exclude.list=batch": ("changes_filtered", "NO"),
        "log.mining.clientid.include.list=shop": ("changes_filtered", "NO"),
        "skipped.operations=t": ("truncates_skipped", "PARTIAL"),
    },
    "mongodb": {
        "event.converting.failure.handling.mode=warn": None,
        "capture.mode=change_streams": ("partial_updates", "PARTIAL"),
        "capture.mode.full.update.type=lookup": ("updates_looked_up", "PARTIAL"),
        "field.renames=a.b.c:d": ("columns_left_out", "PARTIAL"),
    },
    "yugabytedb": {
        "ignore.exceptions=true": ("events_skipped", "NO"),
        "decimal.handling.mode=double": ("decimals_as_double", "PARTIAL"),
        "value.converter=io.confluent.connect.avro.AvroConverter": ("converter_differs", "NO"),
    },
}
"""What settings of each page's connector are found to lose; None: nothing."""


@pytest.mark.parametrize(
    ("page", "setting", "found"),
    [
        *((page, setting, found) for page in DOCUMENTED for setting, found in EVERY.items()),
        *(
            (page, setting, found)
            for page, each in LOSING.items()
            for setting, found in each.items()
        ),
    ],
)
def test_what_a_setting_loses_is_named_for_each_connector_that_has_it(
    page: str, setting: str, found: tuple[str, str] | None
) -> None:
    name, _, value = setting.partition("=")
    assert of_page(page, {name: value}) == ({found[0]: Verdict(found[1])} if found else {})


def test_servers_that_are_left_out_lose_no_rows_where_these_are_not_filtered() -> None:
    given = {"gtid.source.excludes": "server", "gtid.source.filter.dml.events": "false"}
    assert of_page("mysql", given) == {}


def test_yugabyte_s_connector_loses_digits_unless_told_not_to() -> None:
    settings = documented("yugabytedb")
    del settings["decimal.handling.mode"]
    connector = Connector("shop", "", settings)
    expected = ExpectedConnector(
        SOURCE, FORMATS["yugabytedb"], ConnectorConfig(), has_database=False
    )
    assert verdicts(judge_connector(connector, expected)) == {"decimals_as_double": Verdict.PARTIAL}


@pytest.mark.parametrize("settings", [POSTGRES, MARIADB], ids=["postgres", "mariadb"])
def test_a_connector_as_it_is_documented_has_no_finding(settings: dict[str, str]) -> None:
    assert said(settings) == {}
    assert said(settings, database=False) == {}


@pytest.mark.parametrize(
    ("base", "changed", "name", "verdict"),
    [
        (
            POSTGRES,
            {"event.converting.failure.handling.mode": "warn"},
            "conversion_failures",
            "PARTIAL",
        ),
        (POSTGRES, {"errors.tolerance": "all"}, "errors_tolerated", "NO"),
        (POSTGRES, {"decimal.handling.mode": "double"}, "decimals_as_double", "PARTIAL"),
        (POSTGRES, {"time.precision.mode": "connect"}, "times_cut", "PARTIAL"),
        (POSTGRES, {**BARE, "binary.handling.mode": "hex"}, "modes_differ", "NO"),
        (POSTGRES, {**BARE, "include.unknown.datatypes": "true"}, "modes_differ", "NO"),
        (POSTGRES, {"unavailable.value.placeholder": "…"}, "placeholder_differs", "NO"),
        (POSTGRES, {"skipped.operations": "t"}, "truncates_skipped", "PARTIAL"),
        (POSTGRES, {"skipped.operations": "t,d"}, "changes_skipped", "NO"),
        (POSTGRES, {"snapshot.mode": "never"}, "snapshot_mode", "PARTIAL"),
        (POSTGRES, {"signal.enabled.channels": "kafka"}, "signals_unanswered", "PARTIAL"),
        (MARIADB, {"signal.kafka.topic": "asked"}, "signals_unanswered", "PARTIAL"),
        (
            POSTGRES,
            {"transforms": "r", "transforms.r.type": "x.RegexRouter"},
            "transformations",
            "PARTIAL",
        ),
        (POSTGRES, UNWRAP, "transformations", "PARTIAL"),
        (
            MARIADB,
            {"converters": "b", "b.type": "x.TinyIntOneToBooleanConverter"},
            "transformations",
            "PARTIAL",
        ),
        (
            POSTGRES,
            {"post.processors": "p", "p.type": "x.S3LargeMessagePostProcessor"},
            "transformations",
            "PARTIAL",
        ),
        (
            POSTGRES,
            {**UNWRAP, **FIELDS, "transforms.flat.delete.tombstone.handling.mode": "drop"},
            "deletes_dropped",
            "NO",
        ),
        (
            POSTGRES,
            {**UNWRAP, **FIELDS, "transforms.flat.delete.tombstone.handling.mode": "rewrite"},
            "nulls_replaced",
            "PARTIAL",
        ),
        (
            POSTGRES,
            {**UNWRAP, **FIELDS, "transforms.flat.delete.handling.mode": "rewrite"},
            "nulls_replaced",
            "PARTIAL",
        ),
        (
            POSTGRES,
            {"column.mask.hash.SHA-256.with.salt.x": "a.b.c"},
            "columns_left_out",
            "PARTIAL",
        ),
        (
            POSTGRES,
            {"value.converter": "io.confluent.connect.avro.AvroConverter"},
            "converter_differs",
            "NO",
        ),
        (POSTGRES, {"slot.drop.on.stop": "true"}, "slot_dropped", "NO"),
        (
            POSTGRES,
            {"publication.autocreate.mode": "filtered"},
            "publication_autocreate",
            "PARTIAL",
        ),
        (POSTGRES, {"heartbeat.interval.ms": "0"}, "heartbeat", "PARTIAL"),
        (MARIADB, {"enable.time.adjuster": "true"}, "years_moved", "PARTIAL"),
        (MARIADB, {"driver.yearIsDateType": "true"}, "years_stop", "PARTIAL"),
        (MARIADB, {"include.schema.changes": "false"}, "schema_changes_off", "PARTIAL"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_setting_that_exactness_needs_otherwise_is_named(
    base: dict[str, str], changed: dict[str, str], name: str, verdict: str
) -> None:
    assert said({**base, **changed}) == {name: Verdict(verdict)}


def test_rows_that_are_rewritten_keep_null_if_that_is_asked_for() -> None:
    mode = {"transforms.flat.delete.tombstone.handling.mode": "rewrite-with-tombstone"}
    kept = {"transforms.flat.replace.null.with.default": "false"}
    assert said({**POSTGRES, **UNWRAP, **FIELDS, **mode, **kept}) == {}


def test_settings_that_matter_without_a_database_only() -> None:
    nulls = {**POSTGRES, "value.converter.replace.null.with.default": "true"}
    assert said(nulls) == {}
    assert said(nulls, database=False) == {"nulls_replaced": Verdict.PARTIAL}
    bare = said({**POSTGRES, **BARE}, database=False, modes=TEXTS)
    assert bare == {"types_guessed": Verdict.PARTIAL}
    unsigned = {**MARIADB, "bigint.unsigned.handling.mode": "long"}
    assert said(unsigned, database=False) == {"unsigned_as_long": Verdict.PARTIAL}


def test_cloud_events_have_their_own_settings_of_json() -> None:
    converter = {"value.converter": "io.debezium.converters.CloudEventsConverter"}
    kept = {"value.converter.json.replace.null.with.default": "false"}
    bare = {"value.converter.json.schemas.enable": "false"}
    assert said({**POSTGRES, **converter}, database=False) == {"nulls_replaced": Verdict.PARTIAL}
    assert said({**POSTGRES, **converter, **kept}, database=False) == {}
    assert said({**POSTGRES, **converter, **kept, **bare}) == {"modes_differ": Verdict.NO}


def test_modes_that_are_repeated_in_the_configuration_are_right() -> None:
    modes = ConnectorConfig(binary_handling_mode="hex", decimal_handling_mode="string")
    assert said({**POSTGRES, **BARE, "binary.handling.mode": "hex"}, modes=modes) == {}


def test_of_a_worker_s_converter_only_what_it_does_with_null_is_asked() -> None:
    without = unnamed(POSTGRES)
    assert said(without) == {}
    assert said(without, database=False) == {"nulls_unseen": Verdict.PARTIAL}


def test_a_connector_that_does_not_run_is_named() -> None:
    assert said(POSTGRES, "task 0 is FAILED") == {"connector_state": Verdict.NO}


def test_modes_of_a_newer_connector_are_not_known() -> None:
    newer = {**POSTGRES, **BARE, "time.precision.mode": "structured"}
    assert configured_as(Connector("shop", "", newer), ConnectorConfig()) is None
    assert said(newer, modes=TEXTS) == {"modes_differ": Verdict.NO}


def test_modes_are_read_in_any_case_as_by_the_connector() -> None:
    settings = {**POSTGRES, **BARE, "binary.handling.mode": " HEX"}
    assert said(settings, modes=TEXTS) == {"modes_differ": Verdict.NO}
    modes = ConnectorConfig(binary_handling_mode="hex", decimal_handling_mode="string")
    assert said(settings, modes=modes) == {}


def test_a_placeholder_in_hexadecimal_is_the_text_that_it_stands_for() -> None:
    """PostgreSQL's connector writes that; Oracle's takes the setting as it is."""
    modes = ConnectorConfig(unavailable_value_placeholder="hex:e28885")
    assert modes.unavailable_value_placeholder == "\u2205"
    for setting in ("hex:e28885", "\u2205"):
        settings = {**POSTGRES, "unavailable.value.placeholder": setting}
        assert said(settings, modes=modes) == {}
    for setting in ("hex:e28886", "hex:ff", "hex:_"):
        settings = {**POSTGRES, "unavailable.value.placeholder": setting}
        assert said(settings, modes=modes) == {"placeholder_differs": Verdict.NO}


SERVER = PostgresServer(
    wal_level="logical",
    keep_bytes=10 << 30,
    slots={"cdc_shop": Slot("cdc_shop", True, 1 << 20, 0, "reserved")},
    publications={"cdc": PublishedOperations("cdc")},
)


def slots(**changed: object) -> dict[str, Slot]:
    return {"cdc_shop": replace(SERVER.slots["cdc_shop"], **changed)}


def on_server(server: PostgresServer) -> dict[str, Verdict]:
    return verdicts(judge_postgres(SOURCE, server, [Connector("shop", "", POSTGRES)], None))


def test_a_server_as_it_is_documented_has_no_finding() -> None:
    assert on_server(SERVER) == {}


@pytest.mark.parametrize(
    ("changed", "name", "verdict"),
    [
        ({"wal_level": "replica"}, "wal_level", "NO"),
        ({"slots": {}}, "slot_missing", "NO"),
        ({"slots": slots(active=False)}, "slot_idle", "PARTIAL"),
        ({"slots": slots(wal_status="lost")}, "slot_lost", "NO"),
        ({"slots": slots(retained_bytes=6 << 30)}, "slot_holds_wal", "PARTIAL"),
        ({"slots": slots(wal_status="unreserved")}, "slot_holds_wal", "PARTIAL"),
        (
            {"slots": slots(retained_bytes=11 << 30), "keep_bytes": None},
            "slot_holds_wal",
            "PARTIAL",
        ),
        ({"publications": {}}, "publication_missing", "NO"),
        (
            {"publications": {"cdc": PublishedOperations("cdc", delete=False)}},
            "publication_operations",
            "NO",
        ),
        (
            {"publications": {"cdc": PublishedOperations("cdc", truncate=False)}},
            "publication_operations",
            "PARTIAL",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_wrong_with_a_server_is_named(
    changed: dict[str, object], name: str, verdict: str
) -> None:
    assert on_server(replace(SERVER, **changed)) == {name: Verdict(verdict)}


def test_somebody_else_s_slot_counts_only_if_it_holds_wal_back() -> None:
    other = Slot("other", False, 0, 0, "lost")
    assert on_server(replace(SERVER, slots={**SERVER.slots, "other": other})) == {}
    full = replace(other, wal_status="extended", retained_bytes=9 << 30)
    found = on_server(replace(SERVER, slots={**SERVER.slots, "other": full}))
    assert found == {"slot_holds_wal": Verdict.PARTIAL}


@pytest.mark.parametrize(
    ("changed", "name", "verdict"),
    [
        ({"has_binlog": False}, "binlog_off", "PARTIAL"),
        ({"server_id": 0}, "server_id", "NO"),
        ({"row_metadata": "minimal"}, "binlog_row_metadata", "PARTIAL"),
        ({"has_gtids": False}, "gtid", "PARTIAL"),
        ({"kept_seconds": 3600}, "binlog_retention", "PARTIAL"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_wrong_with_a_binlog_is_named(
    changed: dict[str, object], name: str, verdict: str
) -> None:
    assert verdicts(judge_binlog(SOURCE, BinlogServer())) == {}
    found = verdicts(judge_binlog(SOURCE, replace(BinlogServer(), **changed)))
    assert found == {name: Verdict(verdict)}


ALL = "GRANT SELECT, RELOAD, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO `cdc`@`%`"


@pytest.mark.parametrize(
    ("settings", "lines", "found"),
    [
        ({}, [ALL], {}),
        ({}, [ALL.replace("REPLICATION CLIENT", "BINLOG MONITOR")], {}),
        ({}, [ALL.replace("REPLICATION SLAVE, ", "")], {"connector_user": Verdict.NO}),
        ({}, [ALL.replace(", REPLICATION CLIENT", "")], {"connector_user": Verdict.NO}),
        ({}, [ALL.replace("RELOAD", "LOCK TABLES")], {}),
        ({}, [ALL.replace("RELOAD, ", "")], {"connector_user": Verdict.NO}),
        ({"snapshot.locking.mode": "none"}, [ALL.replace("RELOAD, ", "")], {}),
        ({"snapshot.mode": "never"}, [ALL.replace("RELOAD, ", "")], {}),
        ({}, ["GRANT `cdc_role` TO `cdc`@`%`"], {"connector_user_unseen": Verdict.PARTIAL}),
        ({}, [ALL, "GRANT `cdc_role` TO `cdc`@`%`"], {}),
        ({}, None, {"connector_user_unseen": Verdict.PARTIAL}),
    ],
)
def test_a_right_that_a_binlog_s_reader_lacks_is_named(
    settings: dict[str, str], lines: list[str] | None, found: dict[str, Verdict]
) -> None:
    connector = Connector("shop", "", {**MARIADB, "database.user": "cdc", **settings})
    server = BinlogServer(grants={"cdc": grants_of(lines) if lines is not None else None})
    assert verdicts(judge_user(SOURCE, connector, server)) == found


def test_a_table_of_mysql_needs_whole_rows_and_no_versions() -> None:
    columns = (MysqlColumn("id", "bigint", not_null=True), MysqlColumn("name", "text"))
    table = MysqlTable(columns, ("id",))
    assert verdicts(judge_table(TABLE, Table(table))) == {}
    key = next(cascades([ForeignKey("fk", ("shop", "p"), "CASCADE", "RESTRICT")]))
    cascading = replace(table, unsent=(key,))
    assert verdicts(judge_table(TABLE, Table(cascading))) == {"silent_cascades": Verdict.NO}
    for reaction, told in ((OnSilent.MARK, Verdict.PARTIAL), (OnSilent.IGNORE, None)):
        policy = SilentPolicy(dict.fromkeys(SilentKind, reaction))
        found = verdicts(judge_table(TABLE, Table(cascading, silent=policy)))
        assert found == ({"silent_cascades": told} if told else {})
    minimal = replace(table, binlog=BinlogSettings(row_image="minimal"))
    assert verdicts(judge_table(TABLE, Table(minimal))) == {"binlog_rows": Verdict.NO}
    versioned = replace(table, is_versioned=True)
    assert verdicts(judge_table(TABLE, Table(versioned))) == {"refused_table": Verdict.NO}


@pytest.mark.parametrize(
    ("settings", "is_named"),
    [
        ({}, True),
        ({"provide.transaction.metadata": "true"}, False),
        ({"provide.transaction.metadata": "true", "topic.creation.default.partitions": "4"}, True),
        (
            {"provide.transaction.metadata": "true", "topic.creation.default.partitions": "4",
             "topic.creation.groups": "t", "topic.creation.t.partitions": "1"},
            False,
        ),
    ],
    ids=["none", "one partition", "four", "a group of its own"],
)  # fmt: skip
def test_cuts_need_transactions_in_one_partition(settings: dict[str, str], is_named: bool) -> None:
    expected = ExpectedConnector(
        SOURCE, "debezium-json", ConnectorConfig(), has_database=False, takes_cuts=True
    )
    connector = Connector("shop", "", {**MARIADB, **settings})
    found = {each.name for each in judge_connector(connector, expected)}
    assert ("no_cuts" in found) is is_named
    without = replace(expected, takes_cuts=False)
    assert "no_cuts" not in {each.name for each in judge_connector(connector, without)}


def test_a_history_needs_a_key() -> None:
    keyless = MysqlTable((MysqlColumn("name", "text"),), ())
    connector = Connector("shop", "", {**MARIADB, "provide.transaction.metadata": "true"})
    table = Table(keyless, connector=connector, mode=Mode.HISTORY)
    assert verdicts(judge_table(TABLE, table)) == {"history_without_key": Verdict.NO}
    named = replace(table, overrides=TableOverrides(primary_key=("name",)))
    assert verdicts(judge_table(TABLE, named)) == {}
    keys = {**connector.settings, "message.key.columns": "public.orders:name"}
    sent = replace(table, connector=Connector("shop", "", keys))
    assert verdicts(judge_table(TABLE, sent)) == {}
    assert verdicts(judge_table(TABLE, replace(table, mode=Mode.CHANGELOG))) == {}


@pytest.mark.parametrize(
    ("settings", "key", "mode", "is_named"),
    [
        (MARIADB, (), Mode.MIRROR, True),
        (MARIADB, ("id",), Mode.MIRROR, False),
        (MARIADB, ("id",), Mode.CHANGELOG, True),
        ({**MARIADB, "provide.transaction.metadata": "true"}, (), Mode.CHANGELOG, False),
        ({**MARIADB, "message.key.columns": "x:id"}, (), Mode.MIRROR, False),
        ({**MARIADB, "connector.class": "io.debezium.connector.mysql.MySqlConnector"}, (),
         Mode.MIRROR, False),
    ],
    ids=["keyless", "key", "changelog", "told", "key of the connector", "MySQL"],
)  # fmt: skip
def test_changes_that_only_their_place_in_a_transaction_tells_apart_need_it(
    settings: dict[str, str], key: tuple[str, ...], mode: Mode, is_named: bool
) -> None:
    table = MysqlTable((MysqlColumn("id", "int"),), key)
    found = judge_table(TABLE, Table(table, connector=Connector("shop", "", settings), mode=mode))
    assert ("no_transactions" in {each.name for each in found}) is is_named


def test_a_column_whose_null_becomes_its_default_is_named() -> None:
    table = MysqlTable((MysqlColumn("name", "text", has_default=True),), ())
    whole = {**MARIADB, "provide.transaction.metadata": "true"}
    replacing = {**whole, "value.converter.replace.null.with.default": "true"}
    connector = Connector("shop", "", replacing)
    (found,) = judge_table(TABLE, Table(table, connector=connector))
    assert (found.name, found.at.column, found.stops) == ("nulls_replaced", "name", True)
    keeping = Connector("shop", "", whole)
    assert [*judge_table(TABLE, Table(table, connector=keeping))] == []
    avro = {**replacing, "value.converter": "io.apicurio.registry.utils.converter.AvroConverter"}
    (found,) = judge_table(TABLE, Table(table, connector=Connector("shop", "", avro)))
    assert (found.verdict, found.stops) == (Verdict.PARTIAL, False)
    unseen = Connector("shop", "", unnamed(whole), Encoding.JSON_WITH_SCHEMA)
    (found,) = judge_table(TABLE, Table(table, connector=unseen))
    assert (found.name, found.verdict, found.stops) == ("nulls_unseen", Verdict.PARTIAL, False)


@pytest.mark.parametrize(
    ("own", "partitions", "words"),
    [
        (
            ReplicaIdentity.NOTHING,
            (),
            "it has replica identity NOTHING and no primary key",
        ),
        (ReplicaIdentity.FULL, (), None),
        (ReplicaIdentity.NOTHING, (ReplicaIdentity.FULL,), None),
        (
            ReplicaIdentity.FULL,
            (ReplicaIdentity.FULL, ReplicaIdentity.DEFAULT),
            "one of its partitions has replica identity DEFAULT and no primary key",
        ),
    ],
)
def test_replica_identities_of_partitions_count_and_not_their_tables(
    own: ReplicaIdentity, partitions: tuple[ReplicaIdentity, ...], words: str | None
) -> None:
    column = PostgresColumn("id", "int8", "bigint")
    found = PostgresTable(
        (column,), (), own, "",
        partitions=tuple(("public", each) for each in partitions),
        partition_identities=tuple(RowIdentity(each) for each in partitions),
    )  # fmt: skip
    named = [each for each in judge_table(TABLE, Table(found)) if each.name == "no_row_identity"]
    assert [each.problem for each in named] == ([words] if words else [])
    assert all(("each partition" in each.remedy) is bool(partitions) for each in named)


def test_a_table_with_an_unlogged_partition_stands_still() -> None:
    column = PostgresColumn("id", "int8", "bigint")
    whole = PostgresTable((column,), (), ReplicaIdentity.FULL, "", is_unlogged=True)
    parts = replace(whole, partitions=(("public", "low"),))
    problems = [next(iter(judge_table(TABLE, Table(each)))).problem for each in (whole, parts)]
    assert problems == [
        "it is UNLOGGED: such changes are in no WAL",
        "it or one of its partitions is UNLOGGED: such changes are in no WAL",
    ]


ID, PRICE = r"public\.orders\.ID", r".*\.pri[a-z]{1\,2}"
PRECISE = {**POSTGRES, "decimal.handling.mode": "precise"}
WARN = {"event.converting.failure.handling.mode": "warn"}
TEXT = {"decimal.handling.mode": "string"}


@pytest.mark.parametrize(
    ("settings", "excluded", "name", "stops"),
    [
        (PRECISE, (), "values_not_convertible", False),
        ({**PRECISE, **WARN}, (), "values_not_convertible", True),
        (None, (), "values_not_convertible", False),
        ({**PRECISE, **WARN, **TEXT}, (), "values_out_of_range", False),
        ({**PRECISE, **WARN}, ("price",), None, False),
        ({**PRECISE, **WARN, "column.exclude.list": f"x,{PRICE}"}, (), None, False),
        ({**PRECISE, **WARN, "column.include.list": ID}, (), None, False),
        (
            {**PRECISE, **WARN, "column.include.list": f"{ID}, {PRICE}"},
            (),
            "values_not_convertible",
            True,
        ),
        (
            {**PRECISE, **WARN, "column.include.list": r"\p{Lower}*"},
            (),
            "values_not_convertible",
            True,
        ),
    ],
    ids=[
        "stops at them",
        "sends NULL",
        "unknown connector",
        "sends text",
        "excluded",
        "left out",
        "not let in",
        "let in",
        "by Java's expression",
    ],
)
def test_a_value_that_would_become_null_stops_a_first_batch(
    settings: dict[str, str] | None, excluded: tuple[str, ...], name: str | None, *, stops: bool
) -> None:
    key = PostgresColumn("id", "int8", "bigint", not_null=True)
    column = PostgresColumn("price", "numeric", "numeric(12,2)", modifier=((12 << 16) | 2) + 4)
    found = PostgresTable((key, column), ("id",), ReplicaIdentity.DEFAULT, "")
    overrides = TableOverrides(columns={each: ColumnOverrides(exclude=True) for each in excluded})
    connector = Connector("shop", "", settings) if settings is not None else None
    facts = Table(
        found, found.described(ConnectorModes()), overrides=overrides, connector=connector,
        odd=OddValues(("price",)),
    )  # fmt: skip
    named = [(each.name, each.stops) for each in judge_table(TABLE, facts) if each.at.column]
    assert named == ([(name, stops)] if name else [])


@pytest.mark.parametrize(
    ("values", "is_read_as"),
    [
        ([b'{"schema": {}, "payload": {}}', None], Encoding.JSON_WITH_SCHEMA),
        ([b'{"before": null, "after": {}}', b""], Encoding.JSON),
        ([b"\x00\x00\x00\x00\x07\x02"], Encoding.FRAMED),
        ([b'{"schema": {}, "payload": {}}', b'{"before": null, "after": {}}'], None),
        ([b"Obj\x01"], None),
        ([b"[1]"], None),
        ([b'{"a":' + b"[" * 5_000 + b"]" * 5_000 + b"}"], None),
        ([None], None),
        ([], None),
    ],
)  # fmt: skip
def test_records_tell_how_a_converter_writes_that_nobody_names(
    values: list[bytes | None], is_read_as: Encoding | None
) -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    records = [
        RawRecord(Coordinate("shop.public.orders", 0, offset), at, None, value)
        for offset, value in enumerate(values)
    ]
    assert encoding_of(records) is is_read_as


@pytest.mark.parametrize(
    ("seen", "form", "verdicts_of"),
    [
        (Encoding.JSON_WITH_SCHEMA, "json", {}),
        (Encoding.JSON, "json", {"modes_differ": Verdict.NO}),
        (Encoding.FRAMED, "json", {"converter_differs": Verdict.NO}),
        (Encoding.FRAMED, "avro", {}),
        (Encoding.JSON, "avro", {"converter_differs": Verdict.NO, "modes_differ": Verdict.NO}),
        (None, "json", {}),
        (None, "avro", {}),
    ],
)
def test_a_workers_converter_is_judged_by_what_it_wrote(
    seen: Encoding | None, form: str, verdicts_of: dict[str, Verdict]
) -> None:
    settings = {**unnamed(POSTGRES), "binary.handling.mode": "hex"}
    connector = Connector("shop", "", settings, seen)
    expected = ExpectedConnector(SOURCE, f"debezium-{form}", ConnectorConfig(), has_database=True)
    assert verdicts(judge_connector(connector, expected)) == verdicts_of
    alone = ExpectedConnector(SOURCE, f"debezium-{form}", ConnectorConfig(), has_database=False)
    guessed = {"types_guessed": Verdict.PARTIAL} if seen is Encoding.JSON else {}
    assert verdicts(judge_connector(connector, alone)) == {
        **verdicts_of, **guessed, "nulls_unseen": Verdict.PARTIAL,
    }  # fmt: skip


WEEK = {"cleanup.policy": "delete", "retention.ms": "604800000", "retention.bytes": "-1"}
APPEND_TIME = {**WEEK, "message.timestamp.type": "LogAppendTime"}
MARKS = Watermarks(OffsetVector.of({0: 0, 1: 0}), OffsetVector.of({0: 5, 1: 5}))
TOPIC = Topic("shop.public.orders", MARKS, settings_of(WEEK), SloTarget(95, 300, 24), (True,), True)


@pytest.mark.parametrize(
    ("changed", "name", "verdict"),
    [
        ({"marks": None}, "topic_missing", "NO"),
        ({"settings": None}, "topic_settings", "PARTIAL"),
        (
            {"settings": settings_of({**WEEK, "cleanup.policy": "compact,delete"})},
            "compacted",
            "NO",
        ),
        ({"settings": settings_of({**WEEK, "retention.ms": "299000"})}, "retention", "NO"),
        ({"settings": settings_of({**WEEK, "retention.ms": "3600000"})}, "retention", "PARTIAL"),
        (
            {"settings": settings_of({**WEEK, "retention.ms": "-1"})},
            "remembered_deletes",
            "PARTIAL",
        ),
        (
            {"settings": settings_of({**WEEK, "retention.ms": str(2**63 - 1)})},
            "remembered_deletes",
            "PARTIAL",
        ),
        ({"settings": settings_of({**WEEK, "retention.bytes": "9"})}, "retention_bytes", "PARTIAL"),
        ({"settings": settings_of(APPEND_TIME)}, "append_time", "PARTIAL"),
        (
            {
                "settings": settings_of(APPEND_TIME),
                "is_by_binlog": True,
                "marks": Watermarks(OffsetVector.of({0: 0}), OffsetVector.of({0: 5})),
            },
            "append_time",
            "PARTIAL",
        ),
        ({"settings": settings_of(APPEND_TIME), "is_by_binlog": True}, "append_time", "NO"),
        ({"keys": (False, False)}, "records_without_key", "PARTIAL"),
        (
            {"marks": Watermarks(OffsetVector.of({0: 3, 1: 0}), MARKS.end)},
            "log_begins_late",
            "NO",
        ),
        ({"partitions": 1}, "partitions_added", "NO"),
        (
            {"partitions": 1, "marks": Watermarks(MARKS.begin, OffsetVector.of({0: 5, 1: 0}))},
            "partitions_added",
            "PARTIAL",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_wrong_with_a_topic_is_named(
    changed: dict[str, object], name: str, verdict: str
) -> None:
    assert verdicts(judge_topic(TABLE, TOPIC)) == {}
    assert verdicts(judge_topic(TABLE, replace(TOPIC, partitions=2))) == {}
    found = verdicts(judge_topic(TABLE, replace(TOPIC, **changed)))
    assert found == {name: Verdict(verdict)}


@pytest.mark.parametrize(
    "changed",
    [{"is_new": False}, {"accepts_lost_start": True}, {"begin": OffsetVector.of({0: 3})}],
    ids=["not new", "accepted", "begun anew"],
)
def test_a_log_that_begins_late_is_right_where_nothing_is_missed(
    changed: dict[str, object],
) -> None:
    late = replace(TOPIC, marks=Watermarks(OffsetVector.of({0: 3, 1: 0}), MARKS.end))
    assert verdicts(judge_topic(TABLE, replace(late, **changed))) == {}


def test_clocks_that_differ_by_seconds_are_named() -> None:
    now = datetime(2026, 3, 4, tzinfo=UTC)
    second = timedelta(seconds=1)
    right = Clock.of("a", now + second, now, now + 2 * second)
    late = Clock.of("b", now - 60 * second, now, now + second)
    early = Clock.of("c", now + 61 * second, now, now + second)
    found = [*judge_clocks(SOURCE, [right, late, early])]
    assert [each.problem for each in found] == [
        "the clock of b is 60 s behind this machine's",
        "the clock of c is 60 s ahead of this machine's",
    ]


SPARK = SparkFacts(
    version="4.1.1",
    extensions=EXTENSIONS,
    catalog="org.apache.iceberg.spark.SparkCatalog",
    opens_catalog=True,
    iceberg="1.12.0",
    reads_kafka=True,
)
NEEDED = SparkRequirements(driver=Driver("a.Driver", "a:driver"))


@pytest.mark.parametrize(
    "changed",
    [
        {"version": "3.5.4"}, {"extensions": ""}, {"catalog": ""}, {"opens_catalog": False},
        {"reads_kafka": False},
        *({"decoder": found} for found in JarMatch if found is not JarMatch.SAME),
    ],
    ids=str,
)  # fmt: skip
def test_what_a_spark_server_lacks_is_named(changed: dict[str, object]) -> None:
    assert [*judge_spark(SOURCE, SPARK, NEEDED)] == []
    found = verdicts(judge_spark(SOURCE, replace(SPARK, **changed), NEEDED))
    assert found == {"spark": Verdict.NO}


@pytest.mark.parametrize(
    ("changed", "name", "verdict"),
    [
        ({"iceberg": "1.9.2"}, "iceberg", Verdict.NO),
        ({"no_drivers": frozenset({"a.Driver"})}, "jdbc_driver", Verdict.PARTIAL),
    ],
    ids=["iceberg", "driver"],
)
def test_what_a_spark_server_could_do_better_is_named(
    changed: dict[str, object], name: str, verdict: Verdict
) -> None:
    found = verdicts(judge_spark(SOURCE, replace(SPARK, **changed), NEEDED))
    assert found == {name: verdict}


@pytest.mark.parametrize("found", [each for each in JarMatch if each is not JarMatch.SAME])
def test_the_command_that_prints_the_jar_is_named(found: JarMatch) -> None:
    (told,) = judge_spark(SOURCE, replace(SPARK, decoder=found), NEEDED)
    assert told.problem == found.value
    assert "`cdc-assets jars`" in told.remedy


def test_a_table_is_as_good_as_its_worst_column() -> None:
    column = Subject("shop", TABLE.table, "price")
    text = Finding("stored_as_text", column, Verdict.PARTIAL, "p", "i", "r")
    found = ordered([text, Finding("compacted", TABLE, Verdict.NO, "p", "i", "r", stops=True)])
    assert TABLE.table is not None
    whole = Assessment(datetime.now(UTC), ("shop",), (TABLE.table,), found)
    assert [(at.scope, verdict.value) for at, verdict in whole.lines()] == [
        ("source", "YES"), ("table", "NO"), ("column", "PARTIAL"),
    ]  # fmt: skip
    assert whole.failing == (TABLE,)
    assert '"stops_first_batch": true' in whole.to_json()
    assert accepted(found, ["compacted", "stored_as_text"]) == ()
