"""A database that takes a login, and then says nothing, is given up and named."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from cdc_assets.changes.names import LakeName, TableName
from cdc_assets.databases.mysql.catalog import read_tables as read_mysql
from cdc_assets.databases.mysql.connection import parse_dsn
from cdc_assets.databases.postgres.catalog import read_tables
from cdc_assets.databases.postgres.connection import LIMITS, Connection, SilenceError, connected
from cdc_assets.databases.postgres.server import read_server, read_slots
from cdc_assets.errors import LoginRefusedError, UnreachableError
from cdc_assets.lake import Lake
from cdc_assets_tests.configuration import platform, write
from cdc_assets_tests.databases.proxy import Proxy, proxy_to

pytestmark = pytest.mark.stack

ORDERS = TableName("shop", "public", "orders")


@pytest.fixture
def proxy(postgres_dsn: str) -> Iterator[Proxy]:
    said = conninfo_to_dict(postgres_dsn)
    with proxy_to(str(said["host"]), int(str(said["port"]))) as made:
        yield made


@pytest.fixture
def dsn(postgres_dsn: str, proxy: Proxy) -> str:
    return make_conninfo(postgres_dsn, host="127.0.0.1", port=proxy.port)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("connection", "server"):
        monkeypatch.setattr(f"cdc_assets.databases.postgres.{place}.SILENT_SECONDS", 0.5)
    monkeypatch.setattr("cdc_assets.databases.mysql.connection.READ_SECONDS", 0.5)
    monkeypatch.setattr("cdc_assets.lake.connection.LOOK_SECONDS", 0.5)


def silent_after_login(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop forwarding as soon as somebody has logged in."""
    connect = Connection.connect.__func__  # type: ignore[attr-defined]

    def logged_in(kind: type[Connection], *args: object, **given: object) -> Connection:
        made = connect(kind, *args, **given)
        proxy.silent.set()
        return made

    monkeypatch.setattr(Connection, "connect", classmethod(logged_in))


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize(
    "ask",
    [read_slots, lambda dsn: read_tables(dsn, [ORDERS]), lambda dsn: read_server(dsn, [], [])],
    ids=["slots", "catalog", "server"],
)
def test_a_silent_postgres_is_given_up_by_every_reader(
    dsn: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, ask: Callable[[str], object]
) -> None:
    silent_after_login(proxy, monkeypatch)
    began = time.monotonic()
    with pytest.raises(UnreachableError):
        ask(dsn)
    assert time.monotonic() - began < 5
    assert proxy.taken == 1


def test_silence_is_named_and_an_answer_that_comes_row_by_row_is_none(
    dsn: str, proxy: Proxy
) -> None:
    wide = "repeat('x', 20000)"  # more than the server keeps before it sends
    slow = f"SELECT n, {wide}, pg_sleep(0.2) FROM generate_series(1, 6) AS n"
    with connected(dsn, silent_seconds=0.7, autocommit=True) as connection:
        with connection.cursor() as cursor:
            rows = [row[0] for row in cursor.stream(slow.encode())]  # 1.2 s in all
        assert rows == [1, 2, 3, 4, 5, 6]
        proxy.silent.set()
        with pytest.raises(SilenceError, match=r"no answer for 0\.7 s"):
            connection.execute("SELECT 1")
        assert connection.closed


def test_what_a_dsn_says_of_a_limit_counts(dsn: str) -> None:
    with connected(make_conninfo(dsn, keepalives_idle=77)) as connection:
        said = connection.info.get_parameters()
    assert said["keepalives_idle"] == "77"
    assert said["tcp_user_timeout"] == str(LIMITS["tcp_user_timeout"])


@pytest.mark.usefixtures("hasty")
def test_a_silent_mysql_is_given_up(mariadb_dsn: str) -> None:
    given = parse_dsn(mariadb_dsn)
    with proxy_to(given.host, given.port) as proxy:
        dsn = mariadb_dsn.replace(f"{given.host}:{given.port}", f"127.0.0.1:{proxy.port}")
        proxy.silent.set()
        began = time.monotonic()
        with pytest.raises(UnreachableError, match=f"127.0.0.1:{proxy.port}"):
            read_mysql(dsn, [ORDERS])
    assert time.monotonic() - began < 15


@pytest.mark.usefixtures("hasty")
def test_a_sql_catalog_on_a_silent_postgres_is_given_up_and_comes_back(
    dsn: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    said = conninfo_to_dict(dsn)
    place = f"{said['user']}:{said.get('password', '')}@127.0.0.1:{proxy.port}/{said['dbname']}"
    place += "?connect_timeout=2"
    monkeypatch.setenv("CATALOG_URI", f"postgresql+psycopg://{place}")
    lake = {
        "catalog": {"type": "sql", "uri": {"env": "CATALOG_URI"}},
        "warehouse": (tmp_path / "warehouse").as_uri(),
    }
    config = write(tmp_path / "replication.yaml", platform(lake=lake, sources={}))
    found, name = Lake(config), LakeName("shop", "nowhere")
    assert found.state(name) is None
    proxy.silent.set()
    began = time.monotonic()
    with pytest.raises(UnreachableError, match="did not answer"):
        found.state(name)
    assert time.monotonic() - began < 10
    proxy.silent.clear()
    assert found.state(name) is None


@pytest.fixture
def user(postgres_dsn: str) -> Iterator[str]:
    name = "renewed"
    with psycopg.connect(postgres_dsn, autocommit=True) as admin:
        admin.execute(f"DROP ROLE IF EXISTS {name}")
        admin.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'first'")
        yield name
        admin.execute(f"DROP ROLE {name}")


def test_a_refused_login_ends_once_the_password_is_renewed(postgres_dsn: str, user: str) -> None:
    def ask(password: str) -> object:
        return read_tables(make_conninfo(postgres_dsn, user=user, password=password), [])

    assert ask("first") == {}
    with psycopg.connect(postgres_dsn, autocommit=True) as admin:
        admin.execute(f"ALTER ROLE {user} PASSWORD 'second'".encode())
    with pytest.raises(LoginRefusedError, match="authentication failed") as refused:
        ask("first")
    assert user not in str(refused.value)
    assert ask("second") == {}
