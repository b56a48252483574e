"""Where a secret, or a row's value, is to be found though it must not: in files and processes.

Dagster keeps its runs in SQLite, the snapshots of their jobs compressed: a file's raw bytes do not
tell what is in it.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

from cdc_assets_tests.processes import command_lines

_SQLITE: Final = b"SQLite format 3\0"


def shown_in(folder: Path, canaries: Iterable[str]) -> list[str]:
    """The files below a folder, and the rows of databases among them, that hold one of these."""
    sought = [each.encode() for each in canaries]
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return [
        name
        for path in files
        for name, content in _contents(path)
        if any(each in content for each in sought)
    ]


def shown_by(pids: Iterable[int], canaries: Iterable[str]) -> list[str]:
    """Those of the canaries that a list of these processes and of their children shows."""
    lines = "\n".join(map(command_lines, pids))
    return [each for each in canaries if each in lines]


def _contents(path: Path) -> Iterator[tuple[str, bytes]]:
    content = path.read_bytes()
    yield str(path), _inflated(content)
    if content.startswith(_SQLITE):
        yield from _cells(path)


def _cells(path: Path) -> Iterator[tuple[str, bytes]]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30)) as database:
        database.text_factory = bytes
        found = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        for (table,) in found.fetchall():
            for row in database.execute(f'SELECT * FROM "{table.decode()}"'):
                for cell in row:
                    if isinstance(cell, bytes):
                        yield f"{path}: {table.decode()}", _inflated(cell)


def _inflated(content: bytes) -> bytes:
    """What was compressed, as Dagster does or as gzip does; else the content itself."""
    for window in (zlib.MAX_WBITS, zlib.MAX_WBITS | 16):
        with suppress(zlib.error):
            return zlib.decompressobj(window).decompress(content)
    return content
