"""Unpacks programs from a jar, once."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Collection
from pathlib import Path, PurePosixPath

from cdc_assets.errors import TerminalError


def place(jar: Path, into: Path) -> Path:
    """Returns the folder in ``into`` for the programs of a jar, existing or not."""
    return into / jar.stem


def unpack_once(jar: Path, into: Path, *, runnable: Collection[str]) -> None:
    """Unpacks the programs of a jar to their `place`; removes those of its other versions.

    The folder is created under another name and renamed, so that an interrupted call leaves no
    folder. No other process may do the same at the same time.

    Args:
        jar: a jar with programs in exactly one folder ``…/bin``, which may have siblings.
        into: a folder for this function's results only: everything else in the folder is removed.
        runnable: the names of the folders whose files become executable.

    Raises:
        TerminalError: the jar has no such folder, or several.
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
    """Extracts a file without the archive's permissions, some of which are wrong."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with archive.open(packed) as content, file.open("wb") as out:
        shutil.copyfileobj(content, out, 1 << 20)
    file.chmod(0o644)
