"""Small documents under a folder path or fsspec URL, replaced as a whole."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

from fsspec import AbstractFileSystem
from fsspec.implementations.local import LocalFileSystem


def replace_file(files: AbstractFileSystem, path: str, content: bytes) -> None:
    """Write a document: a reader, or a crash, finds the old one or the new one.

    On a local disk its folder is made, and it is on the disk when this returns. Object stores
    put whole objects anyway.

    Raises:
        OSError: if the place does not answer, or may not be written.
    """
    if isinstance(files, LocalFileSystem):
        _replace_local(Path(path), content)
    else:
        files.pipe_file(path, content)


def _replace_local(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{uuid.uuid4().hex}")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
