"""A table of MariaDB is read in waves by Spark: each row once, with the values of our own reads."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from cdc_assets_devstack.mariadb import MariaDB, connect, quote
from cdc_assets_devstack.ports import pick_free_ports
from cdc_assets_devstack.process import Command
from cdc_assets_devstack.stack import LocalStack
from pyspark.errors import PySparkException

from cdc_assets.changes.names import TableName
from cdc_assets.databases.mysql.catalog import read_tables
from cdc_assets.databases.mysql.rows import MysqlRows
from cdc_assets.databases.rows import Access
from cdc_assets.databases.statements import DIGEST, KEY, LAKE_TEXT, Range
from cdc_assets.errors import TerminalError
from cdc_assets.operations.resnapshot.reading import read, require_sound
from cdc_assets.schema.comparing import Key
from cdc_assets.schema.modes import ConnectorModes
from cdc_assets.schema.types import Column, TableSchema
from cdc_assets_tests.pipeline import Session
from cdc_assets_tests.stack.kinds import MARIADB, TABLE, create, rows
from cdc_assets_tests.stack.replicated import new_mariadb_database
from cdc_assets_tests.stack.test_verify_mariadb import KEYS, ZERO
from cdc_assets_tests.toy.profiles import in_soak

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]

NAME = "readmywaves"
ODD = "odd `%s` {0}? \"name\" {d '1'}"
"""A table, and a column."""

HOSTILE = ["it's", 'a "quote"', "back\\slash", "?", "%s %%", "$1", "{d '1'}", "", "ä", "𝄞", ";--",
           "/* */", "# not", "Ä", "it''s"]  # fmt: skip
NUMBERS = range(-3, 7)


@pytest.fixture(scope="module")
def dsn(stack_parts: Callable[..., LocalStack]) -> str:
    odd = quote(ODD)
    made = (
        f"CREATE TABLE {odd} ({odd} varchar(20) COLLATE utf8mb4_bin, n int, v text,"
        f" PRIMARY KEY ({odd}, n))",
        "CREATE TABLE empty (id int PRIMARY KEY)",
        create(MARIADB),
        *rows(MARIADB, 0),
        *ZERO,
        *KEYS,
    )
    dsn = new_mariadb_database(stack_parts("mariadb"), NAME, *made)
    with connect(dsn, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.executemany(
            f"INSERT INTO {odd.replace('%', '%%')} VALUES (%s, %s, %s)",
            [(text, n, f"{text} {n}") for text in HOSTILE for n in NUMBERS],
        )
    return dsn


def opened(dsn: str, table: str) -> MysqlRows:
    name = TableName("", NAME, table)
    told = read_tables(dsn, [name])[name].described(ConnectorModes())
    schema = TableSchema(tuple(c for c in told.columns if isinstance(c, Column)), told.key)
    return MysqlRows.of(Access(dsn, (NAME, table), schema, f"table={table}"))


def waves(source: MysqlRows, spark: Session, size: int, parts: int) -> list[list[dict[str, str]]]:
    """Rows by wave, to the last one."""
    reading, found = source.reading(), list[list[dict[str, str]]]()
    start: Key | None = None
    while True:
        with reading.wave(start, size, parts) as wave:
            frame = read(spark(), wave, "table=test")
        require_sound(frame, source.comparison, [Range(start, wave.end)], "table=test")
        found.append([row.asDict() for row in frame.collect()])
        start = wave.end
        if start is None:
            return found


def keys_of(source: MysqlRows, found: list[dict[str, str]]) -> list[Key]:
    width = len(source.comparison.key)
    return [tuple(row[f"{KEY}{n}"] for n in range(width)) for row in found]


@pytest.mark.parametrize(("size", "parts"), [(1000, 4), (40, 3)])
def test_each_row_is_read_once_whatever_its_key(
    dsn: str, spark: Session, size: int, parts: int
) -> None:
    source = opened(dsn, ODD)
    found = waves(source, spark, size, parts)
    keys = [key for wave in found for key in keys_of(source, wave)]
    source.close()
    assert sorted(keys) == sorted((text, str(n)) for text in HOSTILE for n in NUMBERS)
    assert all(len(wave) == size * parts for wave in found[:-1])
    assert {row[f"{LAKE_TEXT}2"] for wave in found for row in wave} == {
        " ".join(key) for key in keys
    }


@pytest.mark.parametrize("table", [TABLE, "zeros", "words", "pairs", "folded"])
def test_spark_is_told_what_our_own_connection_is(dsn: str, spark: Session, table: str) -> None:
    source = opened(dsn, table)
    expected = dict(source.digests([Range(None, None)]))
    found = [row for wave in waves(source, spark, 100, 2) for row in wave]
    keys = keys_of(source, found)
    lake_texts = source.found(keys).lake_texts
    source.close()
    assert len(keys) == len(expected)
    assert {key: row[DIGEST] for key, row in zip(keys, found, strict=True)} == expected
    columns = range(len(source.comparison.columns))
    for key, row in zip(keys, found, strict=True):
        assert tuple(row[f"{LAKE_TEXT}{n}"] for n in columns) == lake_texts[key]


def test_an_empty_table_is_one_wave_without_rows(dsn: str, spark: Session) -> None:
    source = opened(dsn, "empty")
    assert waves(source, spark, 10, 3) == [[]]
    source.close()


def test_no_secret_is_shown(dsn: str) -> None:
    source = opened(dsn, "empty")
    with source.reading().wave(None, 10, 1) as wave:
        part = dict(wave.parts[0])
        password = part.pop("password")
        assert password in dsn
        assert password not in repr(wave) + repr(part)
    source.close()


def test_a_key_with_a_date_without_a_day_is_refused(dsn: str) -> None:
    with connect(dsn, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE days (id int, day date, PRIMARY KEY (day, id))")
        cursor.execute("INSERT INTO days VALUES (1, '2024-01-02')")
        opened(dsn, "days").close()
        cursor.execute("SET SESSION sql_mode = ''")
        cursor.execute("INSERT INTO days VALUES (2, '2024-01-00')")
    with pytest.raises(TerminalError, match="without a month or a day"):
        opened(dsn, "days")


class Encrypting(MariaDB):
    """A server with a certificate of its own, made by an authority of its own."""

    certificates: Path = Path()

    def command(self) -> Command:
        usual = super().command()
        own = [
            f"--ssl-{name}={self.certificates / f'{name}.pem'}" for name in ("ca", "cert", "key")
        ]
        argv = [each for each in usual.argv if each != "--skip-ssl"]
        return replace(usual, argv=[*argv, *own])


@pytest.fixture
def encrypting(stack_parts: Callable[..., LocalStack], tmp_path: Path) -> Iterator[Encrypting]:
    stack, home = stack_parts("mariadb"), tmp_path / "encrypting"
    home.mkdir()
    for folder in (home, *home.parents[:3]):
        if folder == Path(tempfile.gettempdir()):  # everybody's
            break
        folder.chmod(0o755)
    made = (
        "req -x509 -newkey rsa:2048 -nodes -keyout ca-key.pem -out ca.pem -days 2 -subj /CN=ca",
        "req -newkey rsa:2048 -nodes -keyout key.pem -out request.pem -subj /CN=localhost"
        " -addext subjectAltName=IP:127.0.0.1",
        "x509 -req -in request.pem -CA ca.pem -CAkey ca-key.pem -CAcreateserial -days 2"
        " -copy_extensions copy -out cert.pem",
    )
    for words in made:
        subprocess.run(["openssl", *words.split()], cwd=home, check=True, capture_output=True)
    (home / "key.pem").chmod(0o644)
    server = Encrypting(replace(stack.layout, home=home, ports=pick_free_ports()))
    server.certificates = home
    server.bring_up(lambda _: None)
    yield server
    server.stop()


@in_soak
@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes certificates with openssl")
def test_spark_encrypts_and_checks_as_the_dsn_says(encrypting: Encrypting, spark: Session) -> None:
    with connect(encrypting.dsn(), autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {NAME}")
        cursor.execute(f"CREATE TABLE {NAME}.empty (id int PRIMARY KEY)")
    ca, base = encrypting.certificates / "ca.pem", encrypting.dsn(NAME)
    asked = (
        "SELECT VARIABLE_VALUE AS cipher FROM information_schema.SESSION_STATUS"
        " WHERE VARIABLE_NAME = 'Ssl_cipher'"
    )

    def cipher(parameters: str, **more: str) -> str:
        source = opened(f"{base}?{parameters}", "empty")
        with source.reading().wave(None, 10, 1) as wave:
            part = {**wave.parts[0], "query": asked, **more}
        source.close()
        ((found,),) = spark().read.format("jdbc").options(**part).load().collect()
        return found

    assert not cipher("ssl-mode=disabled")
    for parameters in ("", "ssl-mode=required", f"ssl-ca={ca}",
                       f"ssl-mode=verify_identity&ssl-ca={ca}"):  # fmt: skip
        assert cipher(parameters), parameters
    other = (encrypting.certificates / "cert.pem").read_text().replace("A", "B", 1)
    with pytest.raises(PySparkException):
        cipher(f"ssl-ca={ca}", serverSslCert=other)
