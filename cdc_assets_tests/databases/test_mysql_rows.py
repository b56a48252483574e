"""Rows of a real MariaDB as canonical text, and how far its readers are."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import pymysql
import pytest
from cdc_assets_devstack.mariadb import connect
from cdc_assets_devstack.stack import LocalStack

from cdc_assets.changes.names import TableName
from cdc_assets.databases.mysql.catalog import read_tables
from cdc_assets.databases.mysql.rows import MysqlRows
from cdc_assets.databases.rows import Access
from cdc_assets.databases.statements import Range, Statements
from cdc_assets.errors import CdcError, ConfigError, TerminalError
from cdc_assets.schema.modes import ConnectorModes
from cdc_assets.schema.types import Column, TableSchema
from cdc_assets_tests.stack.replicated import new_mariadb_database
from cdc_assets_tests.waiting import until

pytestmark = pytest.mark.stack

NAME = "rowsmy"
MADE = (
    "CREATE TABLE numbers (id int PRIMARY KEY, d double, f float)",
    "CREATE TABLE long_ones (id varchar(20) PRIMARY KEY, body longtext)",
    "INSERT INTO long_ones SELECT seq, 'x' FROM seq_1_to_100",
)


@pytest.fixture(scope="module")
def dsn(stack_parts: Callable[..., LocalStack]) -> str:
    return new_mariadb_database(stack_parts("mariadb"), NAME, *MADE)


@pytest.fixture
def cursor(dsn: str) -> Iterator[pymysql.cursors.Cursor]:
    with connect(dsn, autocommit=True) as connection, connection.cursor() as found:
        yield found


def opened(dsn: str, table: str, **more: object) -> MysqlRows:
    name = TableName("", NAME, table)
    told = read_tables(dsn, [name])[name].described(ConnectorModes())
    schema = TableSchema(tuple(c for c in told.columns if isinstance(c, Column)), told.key)
    return MysqlRows.of(Access(dsn, (NAME, table), schema, f"table={table}", **more))  # pyright: ignore[reportArgumentType]


def test_doubles_are_written_by_their_bits(dsn: str, cursor: pymysql.cursors.Cursor) -> None:
    rng = random.Random(5)
    bits = (struct.unpack(">d", struct.pack(">Q", rng.getrandbits(64)))[0] for _ in range(500))
    powers = [math.ldexp(1.0, each) for each in range(-1074, 1024, 7)]
    beside = [math.nextafter(each, to) for each in powers for to in (0, math.inf)]
    values = [each for each in (*bits, *powers, *beside, 0.0, 1.7976931348623157e308)
              if math.isfinite(each)]  # fmt: skip
    values += [-each for each in values]
    cursor.executemany("INSERT INTO numbers VALUES (%s, %s, NULL)", [*enumerate(values)])
    rows = opened(dsn, "numbers")
    for n in range(0, len(values), 1_000):
        keys = [(str(each),) for each in range(n, min(n + 1_000, len(values)))]
        found = rows.found(keys)
        for key in keys:
            value = values[int(key[0])]
            assert found.rows[key][1] == struct.pack(">d", value).hex(), value
            assert float(found.lake_texts[key][1] or "") == value
    rows.close()


@pytest.mark.parametrize(
    "kind",
    [
        "varchar(40) COLLATE utf8mb4_unicode_ci",
        "varchar(40) CHARACTER SET latin1",
        "char(40)",
    ],
)
def test_an_index_finds_rows_by_texts_and_one_reading_those_of_many_ranges(
    dsn: str, cursor: pymysql.cursors.Cursor, kind: str
) -> None:
    cursor.execute(f"CREATE OR REPLACE TABLE codes (code {kind} PRIMARY KEY, n int)")
    cursor.execute("INSERT INTO codes SELECT concat(lpad(hex(seq), 8, '0'),"
                   " '-0a00-4000-8000-000000000000'), seq FROM seq_1_to_5000")  # fmt: skip
    rows = opened(dsn, "codes")
    assert (rows.is_ordered, rows.finds_keys) == (False, True)
    codes = [f"{n:08X}-0a00-4000-8000-000000000000" for n in range(1, 5_001)]
    same, other = codes[2_745], codes[2_746]
    asked = [(same,), (other.lower(),), (same + " ",), ("none of them, and longer than any is",)]
    cursor.execute("SET GLOBAL userstat = 1")
    cursor.execute("FLUSH TABLE_STATISTICS")
    try:
        found = rows.found(asked)
        cursor.execute("SELECT ROWS_READ FROM information_schema.TABLE_STATISTICS"
                       f" WHERE TABLE_SCHEMA = '{NAME}' AND TABLE_NAME = 'codes'")  # fmt: skip
        (count,) = cursor.fetchone() or (0,)
    finally:
        cursor.execute("SET GLOBAL userstat = 0")
    assert found.rows == {(same,): (same, "2746")}
    assert 0 < count <= 10, f"{count} rows were read"
    a, b, c = ((codes[n],) for n in (1_000, 2_000, 4_000))
    within = [Range(None, a), Range(b, c), Range(c, None)]
    read = sorted(key for (key,), _ in rows.digests(within))
    assert read == [*codes[:1_000], *codes[2_000:]]
    rows.close()


def test_what_is_committed_and_not_seen_yet_is_waited_for(
    dsn: str, cursor: pymysql.cursors.Cursor
) -> None:
    rows = opened(dsn, "numbers")
    cursor.execute("REPLACE INTO numbers VALUES (-1, 1, 1)")
    cursor.execute("FLUSH BINARY LOGS")
    cursor.execute("REPLACE INTO numbers VALUES (-2, 1, 1)")
    assert rows.is_over(rows.moment())
    file, _, rest = rows.moment().partition(":")
    position, _, gtids = rest.partition(" ")
    assert not rows.is_over(f"{file}:{int(position) + 1} {gtids}")
    rows.close()


@dataclass(frozen=True)
class Committed:
    """What Kafka Connect says of a connector."""

    offset: Mapping[str, object]
    name: str = "shop"

    def offsets(self) -> list[Mapping[str, object]]:
        return [self.offset]


def test_a_connector_of_another_server_is_named_though_its_files_have_the_same_names(
    dsn: str, cursor: pymysql.cursors.Cursor
) -> None:
    cursor.execute("REPLACE INTO numbers VALUES (-5, 1, 1)")
    cursor.execute("SHOW BINLOG STATUS")
    file, position, *_ = cursor.fetchone() or ("", 0)
    cursor.execute("SELECT @@global.gtid_binlog_pos")
    (gtids,) = cursor.fetchone() or ("",)
    domain, server, number = gtids.split("-")
    here = {"file": file, "pos": position, "gtids": gtids}
    there = here | {"gtids": f"{domain}-{server}-{int(number) + 7}"}
    elsewhere = here | {"pos": position - 1}
    for offset, is_read in ((here, True), (there, False), (elsewhere, False)):
        rows = opened(dsn, "numbers", connector=partial(Committed, offset))
        told = rows.delivery(f"{file}:4")
        assert told.is_done is is_read, told
        assert ("reads another server" in told.who) is not is_read
        rows.close()


def test_mysql_waits_for_transactions_that_write(
    dsn: str, cursor: pymysql.cursors.Cursor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The way of MySQL, which MariaDB's own tables can be asked in, too."""
    rows = opened(dsn, "numbers")
    monkeypatch.setattr(rows, "_is_mariadb", False)
    cursor.execute("START TRANSACTION")
    cursor.execute("SELECT COUNT(*) FROM numbers")
    until(lambda: rows.is_over(rows.moment()), "one that only reads is not waited for")
    cursor.execute("INSERT INTO numbers VALUES (-3, 1, 1)")
    until(lambda: not rows.is_over(rows.moment()), "one that writes is seen")
    moment = rows.moment()
    cursor.execute("COMMIT")
    until(lambda: rows.is_over(moment), "it is over")
    rows.close()


def test_a_statement_that_takes_too_long_ends(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = opened(dsn, "long_ones", statement_seconds=0.2)
    monkeypatch.setattr(Statements, "digest", "SLEEP(1)")
    with pytest.raises(TerminalError, match=r"longer than 0\.2 s"):
        rows.sums(Range(None, None))
    rows.close()


def test_a_row_that_is_too_long_to_be_digested_is_an_error_and_not_passed_over(
    dsn: str, cursor: pymysql.cursors.Cursor
) -> None:
    cursor.execute("SELECT @@global.max_allowed_packet")
    (usual,) = cursor.fetchone() or (0,)
    cursor.execute("REPLACE INTO long_ones VALUES ('long', repeat('x', 3000000))")
    try:
        cursor.execute("SET GLOBAL max_allowed_packet = 1048576")
        rows = opened(dsn, "long_ones")
        with pytest.raises(CdcError, match="max_allowed_packet"):
            rows.sums(Range(None, None))
        found = rows.found([("long",)])
        assert found.rows["long",] == ("long", "x" * 3_000_000)
        rows.close()
    finally:
        cursor.execute(f"SET GLOBAL max_allowed_packet = {usual}")
        cursor.execute("DELETE FROM long_ones WHERE id = 'long'")


def test_a_user_without_rights_is_told_which(dsn: str, cursor: pymysql.cursors.Cursor) -> None:
    cursor.execute("CREATE USER reader@'127.0.0.1' IDENTIFIED BY 'secret'")
    cursor.execute(f"GRANT SELECT ON {NAME}.* TO reader@'127.0.0.1'")
    _, _, address = dsn.rpartition("@")
    rows = opened(f"mysql://reader:secret@{address}", "long_ones")
    assert rows.sums(Range(None, None))[0].count == 100
    with pytest.raises(TerminalError, match="BINLOG MONITOR") as caught:
        rows.place()
    assert "secret" not in str(caught.value)
    rows.close()
    cursor.execute("DROP USER reader@'127.0.0.1'")


def test_without_a_statement_nothing_is_written(dsn: str) -> None:
    rows = opened(dsn, "long_ones", nudge=True)
    with pytest.raises(ConfigError, match="REPLACE INTO"):
        rows.nudge()
    assert rows.delivery(rows.place()).is_hopeless
    rows.close()
