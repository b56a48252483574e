"""Runs database servers as an unprivileged user, because they refuse to run as root.

Root starts them as ``nobody``. If the home is below a folder that is closed to others (a checkout
under /root), they also get the capability to pass such folders, and no other rights of root.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pwd
import shutil
import signal
import stat
import subprocess
import tempfile
from pathlib import Path

from cdc_assets.errors import TerminalError
from cdc_assets_devstack.process import Command


def unprivileged(
    argv: list[str], home: Path, *, stop_signal: signal.Signals = signal.SIGTERM
) -> Command:
    """Returns a command that runs as an unprivileged user if root calls this; else as the caller.

    Raises:
        TerminalError: root's unprivileged user could not reach the home or the program.
    """
    cwd = Path("/")
    if os.geteuid() != 0:
        return Command(argv, cwd=cwd, stop_signal=stop_signal)
    if all(_open_to_all(path) for path in (home, Path(argv[0]).parent)):
        return Command(argv, cwd=cwd, run_as=_nobody(), stop_signal=stop_signal)
    return Command([*_setpriv(argv[0], home), *argv], cwd=cwd, stop_signal=stop_signal)


def reachable(*folders: Path) -> Path:
    """Returns the parent of folders, or of copies of them that root's unprivileged user may enter.

    PostgreSQL's programs ask with access(2) for each other, to which capabilities do not count. So
    programs in root's own folder, as those of `uvx`, are copied to the folder for temporary files.

    Raises:
        TerminalError: if somebody else could change the copies.
    """
    parent = folders[0].parent
    if os.geteuid() != 0 or all(map(_open_to_all, folders)):
        return parent
    digest = hashlib.sha256(str(parent).encode()).hexdigest()[:12]
    copy = Path(tempfile.gettempdir()) / f"cdc-assets-programs-{digest}"
    if not copy.exists():
        partial = Path(tempfile.mkdtemp(prefix=f"{copy.name}."))
        for each in folders:
            shutil.copytree(each, partial / each.name)
        partial.chmod(0o755)
        with contextlib.suppress(OSError):  # another process was faster
            partial.rename(copy)
        shutil.rmtree(partial, ignore_errors=True)
    about = copy.lstat()
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != 0 or about.st_mode & 0o022:
        what = "the copy of PostgreSQL's programs belongs to somebody else"
        raise TerminalError(what, where=str(copy), remedy="remove it, or set TMPDIR")
    return copy


def give_away(*paths: Path) -> None:
    """Changes the owner of files and folders to the unprivileged user if root calls this."""
    if os.geteuid() == 0:
        for path in paths:
            os.chown(path, *_nobody())


def run_once(command: Command, what: str) -> None:
    """Runs a program to its successful end.

    Raises:
        TerminalError: it failed; ``what`` names it, and the message ends with its output.
    """
    user, group = command.run_as or (None, None)
    done = subprocess.run(
        list(command.argv),
        check=False,
        capture_output=True,
        text=True,
        user=user,
        group=group,
        extra_groups=[] if command.run_as else None,
        cwd=command.cwd,
        env=dict(command.env),
    )
    if done.returncode:
        msg = f"{what} failed with exit code {done.returncode}"
        raise TerminalError(
            msg,
            where=what,
            remedy=(done.stderr or done.stdout)[-2000:],
        )


def _nobody() -> tuple[int, int]:
    entry = pwd.getpwnam("nobody")
    return entry.pw_uid, entry.pw_gid


def _open_to_all(path: Path) -> bool:
    """Returns whether everybody may pass each folder on the way to a path."""
    resolved = path.resolve()
    return all(each.stat().st_mode & 0o001 for each in (resolved, *resolved.parents))


def _setpriv(server: str, home: Path) -> list[str]:
    program = shutil.which("setpriv")
    if program is None:
        msg = (
            f"{Path(server).name} does not run as root, and its unprivileged user cannot reach "
            "this folder"
        )
        raise TerminalError(
            msg,
            where=f"home={home}",
            remedy="work as a normal user, install setpriv (util-linux), or choose a --home "
            "whose parent folders everybody may enter",
        )
    user, group = _nobody()
    # dac_read_search, not dac_override: it may pass and read, but writes only its own files.
    capability = "+dac_read_search"
    return [
        *(program, f"--reuid={user}", f"--regid={group}", "--clear-groups"),
        *(f"--inh-caps={capability}", f"--ambient-caps={capability}"),
    ]
