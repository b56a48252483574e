"""A second MariaDB, which follows the stack's: what a connector moves to when that one is lost."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from cdc_assets_devstack.mariadb import MariaDB, connect
from cdc_assets_devstack.ports import pick_free_ports
from cdc_assets_devstack.process import Command
from cdc_assets_devstack.stack import LocalStack
from pymysql.cursors import Cursor

from cdc_assets_tests.waiting import until

_SECRETS = ("mariadb", "mariadb-debezium")


class Replica(MariaDB):
    """Has the databases that were made since it follows, and writes them to its own binlog."""

    databases: tuple[str, ...] = ()

    def command(self) -> Command:
        """The server, with another number than the one it follows."""
        usual = super().command()
        own = ["--server-id=8", "--log-slave-updates", "--slave-net-timeout=10"]
        own += [f"--replicate-wild-do-table={each}.%" for each in self.databases]
        return replace(usual, argv=[*usual.argv, *own])

    def follow(self, primary: MariaDB) -> None:
        """From what is committed there now on."""
        with cursor_of(primary.dsn()) as there, cursor_of(self.dsn()) as here:
            (at,) = _row(there, "SELECT @@gtid_current_pos")
            here.execute("SET GLOBAL gtid_slave_pos = %s", (at,))
            here.execute(
                "CHANGE MASTER TO master_host = '127.0.0.1', master_port = %s, "
                "master_user = 'root', master_password = %s, master_ssl = 0, "
                "master_use_gtid = slave_pos",
                (primary.port, primary.password),
            )
            here.execute("START SLAVE")

    def wait_for(self, primary: MariaDB) -> None:
        """Until it has whatever was committed there before this call."""
        with cursor_of(primary.dsn()) as there, cursor_of(self.dsn()) as here:
            (at,) = _row(there, "SELECT @@gtid_binlog_pos")
            until(lambda: _has(here, at), f"the replica has {at}", within_seconds=120)

    def promote(self) -> None:
        """Let it follow nobody any more."""
        with cursor_of(self.dsn()) as here:
            here.execute("STOP SLAVE")
            here.execute("RESET SLAVE ALL")

    def let_capture(self, database: str) -> None:
        """Give Debezium's user the right to read a database; the binlog does not tell it."""
        with cursor_of(self.dsn()) as here:
            here.execute("SET SESSION sql_log_bin = 0")
            here.execute(f"GRANT SELECT ON `{database}`.* TO debezium@'127.0.0.1'")


@contextmanager
def replica_of(stack: LocalStack, home: Path, *databases: str) -> Iterator[Replica]:
    """A running one that follows the stack's, in a home of its own, with the same passwords."""
    (home / "secrets").mkdir(parents=True)
    home.chmod(0o755)
    for name in _SECRETS:
        shutil.copy(stack.layout.secret(name), home / "secrets")
    replica = Replica(replace(stack.layout, home=home, ports=pick_free_ports()))
    replica.databases = databases
    replica.bring_up(lambda _: None)
    try:
        replica.follow(stack.mariadb)
        yield replica
    finally:
        replica.stop()


@contextmanager
def cursor_of(dsn: str) -> Iterator[Cursor]:
    """Of a connection that commits each statement."""
    with connect(dsn, autocommit=True) as connection, connection.cursor() as cursor:
        yield cursor


def _row(cursor: Cursor, statement: str) -> tuple[object, ...]:
    cursor.execute(statement)
    found = cursor.fetchone()
    assert found is not None
    return found


def _has(here: Cursor, at: object) -> bool:
    here.execute("SHOW SLAVE STATUS")
    names = [column[0] for column in here.description or ()]
    told = dict(zip(names, here.fetchone() or (), strict=False))
    assert not told["Last_Error"], told["Last_Error"]
    assert not told["Last_IO_Error"], told["Last_IO_Error"]
    return _row(here, "SELECT @@gtid_slave_pos") == (at,)
