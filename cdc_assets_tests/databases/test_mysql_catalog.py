"""Reading a real MariaDB's catalog, and failing to."""

import ssl
import uuid
from dataclasses import replace

import pymysql
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_assets.changes.names import TableName
from cdc_assets.databases.catalog import ColumnFacts
from cdc_assets.databases.mysql.catalog import read_tables
from cdc_assets.databases.mysql.connection import Dsn, Tls, TlsMode, parse_dsn
from cdc_assets.databases.mysql.rows import reader_options
from cdc_assets.databases.mysql.table import BinlogSettings, MysqlTable
from cdc_assets.databases.mysql.text_types import describe_text_table
from cdc_assets.databases.mysql.types import MysqlColumn
from cdc_assets.errors import ConfigError, LoginRefusedError, TerminalError, UnreachableError
from cdc_assets.schema.existing import implied
from cdc_assets.schema.modes import ConnectorModes, TimeMode
from cdc_assets.schema.types import Decimal, Primitive, Wire

SECRET = "hunter2"
MODES = ConnectorModes(time=TimeMode.ADAPTIVE_TIME_MICROSECONDS)


@pytest.fixture
def server(mariadb_dsn):
    given = parse_dsn(mariadb_dsn)
    with pymysql.connect(
        host=given.host, port=given.port, user=given.user, password=given.password, autocommit=True
    ) as connection:
        yield connection.cursor()


@pytest.fixture
def database(server):
    name = f"Odd `name {uuid.uuid4().hex}"
    quoted = f"`{name.replace('`', '``')}`"
    server.execute(f"CREATE DATABASE {quoted} CHARACTER SET utf8mb4")
    server.execute(f"USE {quoted}")
    for statement in (
        """CREATE TABLE `Orders` (
            id bigint unsigned, gone int, region varchar(9), total decimal(12,2) COMMENT 'with tax',
            state enum('gl''ad','s\\\\ad') NOT NULL, at timestamp(3) NULL, made datetime(6),
            took time, doubled int AS (1 + 1) STORED, tripled int AS (1 + 2) VIRTUAL,
            hidden int INVISIBLE DEFAULT 5, what varchar(9) DEFAULT (concat('a', 'b')),
            PRIMARY KEY (region, id), KEY (total, id)
        ) COMMENT 'what was bought' PARTITION BY KEY (region) PARTITIONS 3""",
        "ALTER TABLE `Orders` DROP COLUMN gone",
        "CREATE TABLE keyless (a int, UNIQUE (a))",
        "CREATE TABLE versioned (id int PRIMARY KEY) WITH SYSTEM VERSIONING",
        "CREATE VIEW no_table AS SELECT 1",
    ):
        server.execute(statement)
    yield name
    server.execute(f"DROP DATABASE {quoted}")


def table_of(dsn, database, name):
    table = TableName("s", database, name)
    return read_tables(dsn, [table])[table]


@pytest.mark.stack
def test_one_query_describes_many_tables(mariadb_dsn, database):
    orders, keyless = TableName("s", database, "Orders"), TableName("s", database, "keyless")
    missing = [TableName("s", database, "no_table"), TableName("s", "elsewhere", "keyless")]
    found = read_tables(mariadb_dsn, [orders, keyless, *missing])
    assert set(found) == {orders, keyless}
    assert (found[orders].primary_key, found[keyless].primary_key) == (("region", "id"), ())
    assert read_tables(mariadb_dsn, []) == {}


@pytest.mark.stack
def test_a_table_becomes_an_exact_schema(mariadb_dsn, database):
    table = table_of(mariadb_dsn, database, "Orders")
    exact = table.described(MODES).without(table.unpublished(None)).exact()
    assert {c.name: (c.type, c.wire, c.required) for c in exact.columns} == {
        "id": (Decimal(20, 0), Wire.UNSIGNED_LONG, True),
        "region": (Primitive.STRING, Wire.STRING, True),
        "total": (Decimal(12, 2), Wire.DECIMAL_BYTES, False),
        "state": (Primitive.STRING, Wire.STRING, True),
        "at": (Primitive.TIMESTAMPTZ, Wire.ISO_ZONED, False),
        "made": (Primitive.TIMESTAMP, Wire.EPOCH_MICROS, False),
        "took": (Primitive.LONG, Wire.LONG, False),
        "doubled": (Primitive.INT, Wire.INT, False),
        "tripled": (Primitive.INT, Wire.INT, False),
        "hidden": (Primitive.INT, Wire.INT, False),
        "what": (Primitive.STRING, Wire.STRING, False),
    }
    assert (exact.key, exact.comment) == (("region", "id"), "what was bought")
    assert exact.column("total").comment == "with tax"


@pytest.mark.stack
def test_labels_come_back_as_they_were_declared(mariadb_dsn, database):
    table = table_of(mariadb_dsn, database, "Orders")
    described = describe_text_table(table.columns, table.primary_key, zone="UTC")
    state = described.exact().column("state")
    assert state.detail is not None
    assert state.detail.labels == ("gl'ad", "s\\ad")


@pytest.mark.stack
def test_a_table_of_a_server_that_writes_whole_rows_is_told(mariadb_dsn, database):
    table = table_of(mariadb_dsn, database, "Orders")
    assert table.binlog.is_written
    table.require_key_logged(("id",), "table=x")


@pytest.mark.stack
def test_a_server_that_leaves_columns_out_is_refused(mariadb_dsn, database, server):
    server.execute("SET GLOBAL binlog_row_image = MINIMAL")
    try:
        table = table_of(mariadb_dsn, database, "Orders")
    finally:
        server.execute("SET GLOBAL binlog_row_image = FULL")
    with pytest.raises(TerminalError, match="binlog_row_image is minimal") as caught:
        table.require_key_logged(("id",), "table=x")
    assert "binlog_row_image=FULL" in caught.value.remedy


@pytest.mark.stack
def test_a_system_versioned_table_is_refused(mariadb_dsn, database):
    with pytest.raises(TerminalError, match="system-versioned"):
        table_of(mariadb_dsn, database, "versioned").require_key_logged(("id",), "table=x")


@pytest.mark.stack
def test_a_database_that_does_not_exist_is_refused_by_its_server(mariadb_dsn):
    base = mariadb_dsn.partition("?")[0].rpartition("/")[0]
    with pytest.raises(TerminalError, match="error 1049"):
        read_tables(f"{base}/nowhere", [])


@pytest.mark.stack
def test_a_refused_login_is_told_without_the_password(mariadb_dsn):
    given = parse_dsn(mariadb_dsn)
    with pytest.raises(LoginRefusedError, match="error 1045") as caught:
        read_tables(f"mysql://nobody:{SECRET}@{given.host}:{given.port}/", [])
    assert f"database {given.address.rpartition('/')[0]}/" in str(caught.value)
    assert SECRET not in f"{caught.value} {caught.value.__cause__}"


@pytest.mark.stack
def test_a_server_whose_certificate_nobody_knows_is_refused(mariadb_dsn):
    base = mariadb_dsn.partition("?")[0]
    with pytest.raises(LoginRefusedError, match="no encrypted connection"):
        read_tables(f"{base}?ssl-mode=verify_identity", [])


@pytest.mark.unit
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (BinlogSettings(row_format="mixed"), "binlog_format is mixed"),
        (BinlogSettings(row_image="noblob"), "binlog_row_image is noblob"),
        (BinlogSettings(row_image="full_nodup"), "binlog_row_image is full_nodup"),
        (BinlogSettings(row_values="partial_json"), "PARTIAL_JSON"),
        (BinlogSettings(compression="on"), "binlog_transaction_compression"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_binlog_without_whole_rows_is_refused(settings, words):
    table = MysqlTable((MysqlColumn("id", "int"),), ("id",), binlog=settings)
    with pytest.raises(TerminalError, match=words):
        table.require_key_logged(("id",), "table=x")
    elsewhere = replace(table, binlog=replace(settings, is_written=False))
    elsewhere.require_key_logged(("id",), "table=x")


@pytest.mark.unit
def test_a_table_that_becomes_system_versioned_is_refused_from_then_on():
    table = MysqlTable((MysqlColumn("id", "int"),), ("id",))
    table.require_whole("table=x")
    with pytest.raises(TerminalError, match="system-versioned"):
        replace(table, is_versioned=True).require_whole("table=x")


@pytest.mark.unit
@pytest.mark.parametrize(
    ("dsn", "expected"),
    [
        ("mysql://u:p@h/db", Dsn("h", 3306, "db", "u", "p")),
        ("mariadb://u@h:1234", Dsn("h", 1234, "", "u", "")),
        ("mysql://%40u:p%2F%3A%C3%A9@[::1]:1/d%20b", Dsn("::1", 1, "d b", "@u", "p/:é")),
        (
            "mysql://h/?ssl-mode=VERIFY_IDENTITY&ssl-ca=/ca.pem",
            Dsn("h", 3306, "", "", "", Tls(TlsMode.VERIFY_IDENTITY, "/ca.pem")),
        ),
        (
            "mysql://h/?ssl-ca=/ca.pem",
            Dsn("h", 3306, "", "", "", Tls(TlsMode.VERIFY_CA, "/ca.pem")),
        ),
    ],
)
def test_a_dsn_is_read(dsn, expected):
    assert parse_dsn(dsn) == expected


@pytest.mark.unit
@pytest.mark.parametrize(
    "dsn",
    [
        f"mysql://u:{SECRET}@:1/db",
        f"postgresql://u:{SECRET}@h/db",
        f"mysql://u:{SECRET}@h:port/db",
        f"mysql://u:{SECRET}@h:99999/db",
        f"host=h password={SECRET}",
        f"mysql://u:{SECRET}@h/db#x",
        f"mysql://u:{SECRET}@h/db?{SECRET}",
        f"mysql://u:x@h/db?{SECRET}=1",
        f"mysql://u:{SECRET}@h/db?ssl-mode={SECRET}",
        f"mysql://u:{SECRET}@h/db?ssl-ca=/{SECRET}/ca.pem",
    ],
)
def test_a_broken_dsn_is_not_repeated(dsn):
    with pytest.raises(ConfigError) as caught:
        read_tables(dsn, [])
    assert SECRET not in str(caught.value)
    assert SECRET not in repr(caught.value)


@pytest.mark.property
@given(st.text() | st.text().map("mysql://u:p@h/".__add__))
def test_any_dsn_is_read_or_refused(dsn):
    try:
        assert parse_dsn(dsn).host
    except ConfigError:
        pass


@pytest.mark.unit
def test_a_certificate_of_the_user_is_refused_where_executors_would_need_its_key():
    dsn = f"mysql://u:{SECRET}@h/db?ssl-mode=required&ssl-cert=/me.pem&ssl-key=/me.key"
    with pytest.raises(ConfigError) as caught:
        reader_options(parse_dsn(dsn), "table=t", is_encrypted=True)
    assert "keystore file" in caught.value.what
    assert "by a password" in caught.value.remedy
    assert "--via signal" in caught.value.remedy
    assert SECRET not in str(caught.value)


@pytest.mark.unit
def test_a_dsn_does_not_show_who_logs_in():
    assert SECRET not in repr(parse_dsn(f"mysql://{SECRET}:{SECRET}@h/db"))


@pytest.mark.unit
@pytest.mark.parametrize(
    ("mode", "checks_host", "verifies"),
    [
        (TlsMode.REQUIRED, False, ssl.CERT_NONE),
        (TlsMode.VERIFY_CA, False, ssl.CERT_REQUIRED),
        (TlsMode.VERIFY_IDENTITY, True, ssl.CERT_REQUIRED),
    ],
)
def test_a_tls_mode_checks_what_it_says(mode, checks_host, verifies):
    context = Tls(mode).arguments()["ssl"]
    assert (context.check_hostname, context.verify_mode) == (checks_host, verifies)


@pytest.mark.unit
def test_an_unreachable_database_is_named_without_its_password():
    with pytest.raises(UnreachableError) as caught:
        read_tables(f"mysql://me:{SECRET}@127.0.0.1:1/shop", [])
    assert "database 127.0.0.1:1/shop" in str(caught.value)
    assert SECRET not in f"{caught.value} {caught.value.__cause__}"


FACTS = {
    "five": ("int DEFAULT 5", ColumnFacts(existing="5")),
    "quoted": ("varchar(9) DEFAULT 'it''s'", ColumnFacts(existing="it's")),
    "backslash": (r"varchar(9) DEFAULT 'a\\b'", ColumnFacts(is_unknown=True)),
    "word": ("varchar(9) DEFAULT 'NULL'", ColumnFacts(existing="NULL")),
    "nothing": ("varchar(9) DEFAULT NULL", ColumnFacts()),
    "computed": ("varchar(36) DEFAULT (uuid())", ColumnFacts(is_unknown=True)),
    "stamped": ("timestamp(3) DEFAULT current_timestamp(3)", ColumnFacts(is_unknown=True)),
    "generated": ("int AS (1) STORED", ColumnFacts(is_unknown=True)),
    "small": ("float DEFAULT 0.25", ColumnFacts(existing="0.25")),
    "exact": ("float DEFAULT 1.2345678", ColumnFacts(is_unknown=True)),
    "huge": ("double DEFAULT -1e300", ColumnFacts(existing="-1e300")),
    "number": ("int NOT NULL", ColumnFacts(is_implied=True)),
    "text": ("text NOT NULL", ColumnFacts(is_implied=True)),
    "label": ("enum('b','a') NOT NULL", ColumnFacts(is_unknown=True)),
    "digits": ("decimal(12,2) NOT NULL", ColumnFacts(is_implied=True)),
    "long_digits": ("decimal(45,2) NOT NULL", ColumnFacts(is_unknown=True)),
}


@pytest.mark.stack
def test_what_older_rows_have_is_told_where_it_is_certain(mariadb_dsn, server, database):
    server.execute("CREATE TABLE grown (id int PRIMARY KEY)")
    server.execute("INSERT INTO grown VALUES (1)")
    for name, (words, _) in FACTS.items():
        server.execute(f"ALTER TABLE grown ADD COLUMN {name} {words}")
    table = table_of(mariadb_dsn, database, "grown")
    found = {name: table.facts[name] for name in FACTS}
    assert found == {name: facts for name, (_, facts) in FACTS.items()}
    known = [name for name, facts in found.items() if not facts.is_unknown]
    server.execute(f"SELECT {', '.join(known)} FROM grown")
    row = dict(zip(known, server.fetchone(), strict=True))
    exact = table.described(MODES).exact()
    for name, value in row.items():
        facts = found[name]
        told = implied(exact.column(name)).text if facts.is_implied else facts.existing
        assert type(value)(told) == value if value is not None else told is None
