"""Programs that come packed in a jar, unpacked once."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Collection
from pathlib import Path, PurePosixPath

from cdc_assets.errors import TerminalError


def place(jar: Path, into: Path) -> Path:
    """The folder in ``into`` that has, or will have, the programs of a jar."""
    return into / jar.stem


def unpack_once(jar: Path, into: Path, *, runnable: Collection[str]) -> None:
    """Have the programs of a jar at their `place`; those of its other versions go.

    The folder is made beside its place and renamed, so that an interrupted call leaves nothing
    there. No other process may do the same at the same time.

    Args:
        jar: of programs that lie in one folder ``…/bin``, beside others.
        into: a folder that holds nothing but what this function made: all else is removed.
        runnable: the names of those whose files get their run bits.

    Raises:
        TerminalError: there is no such folder in the jar.
    """
    folder = place(jar, into)
    if folder.exists():
        return
    partial = folder.with_name(f"{folder.name}.partial")
    with zipfile.ZipFile(jar) as archive:
        top = _top(archive, jar)
        shutil.rmtree(into, ignore_errors=True)
        for each in archive.infolist():
            path = PurePosixPath(each.filename)
            if path.is_relative_to(top) and not each.is_dir():
                _extract(archive, each, partial / path.relative_to(top))
    for name in runnable:
        for program in (partial / name).iterdir():
            program.chmod(0o755)
    partial.rename(folder)


def _top(archive: zipfile.ZipFile, jar: Path) -> PurePosixPath:
    names = (PurePosixPath(name) for name in archive.namelist())
    tops = {name.parent.parent for name in names if name.parent.name == "bin"}
    if len(tops) != 1:
        msg = "not a jar of programs: it has no folder bin, or several"
        raise TerminalError(msg, where=str(jar), remedy="cdc-assets stack install --verify")
    return tops.pop()


def _extract(archive: zipfile.ZipFile, packed: zipfile.ZipInfo, file: Path) -> None:
    """Without what the archive says of rights: some of the programs' are wrong."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with archive.open(packed) as content, file.open("wb") as out:
        shutil.copyfileobj(content, out, 1 << 20)
    file.chmod(0o644)
