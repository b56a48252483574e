"""Stores small documents under a folder path or fsspec URL, replaced as a whole."""

from __future__ import annotations

import fcntl
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final
from urllib.parse import urlsplit

from fsspec import AbstractFileSystem
from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from cdc_assets.errors import CdcError, ConfigError

_LOCK_LOOK_SECONDS: Final = 0.05


def files_at(url: str) -> tuple[AbstractFileSystem, str]:
    """Returns the file system of a folder path or fsspec URL, and the path in it.

    It does not cache listings: other processes write there, too, and a long-lived process would
    never see what they have written or removed.

    Raises:
        ConfigError: if the package that such URLs require is not installed.
    """
    try:
        return url_to_fs(url, use_listings_cache=False)
    except (ImportError, ValueError) as error:
        scheme = urlsplit(url).scheme
        what = f"{scheme}:// cannot be opened ({type(error).__name__})"
        extra = "'cdc-assets[s3]'" if scheme.startswith("s3") else "fsspec's package for it"
        raise ConfigError(what, where=url, remedy=f"pip install {extra}") from None


def take_lock(file: IO[Any], seconds: float) -> bool:
    """Takes the lock of an open file, which ends with it; returns whether it was had in time.

    The system's own wait has no end: a holder that hangs, perhaps on a network's disk, would keep
    all others waiting.
    """
    give_up_at = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= give_up_at:
                return False
            time.sleep(_LOCK_LOOK_SECONDS)
        else:
            return True


@contextmanager
def as_os_errors() -> Iterator[None]:
    """Converts errors of object stores' clients into `OSError`, which not all of them are.

    Raises:
        OSError: names the error, but does not quote it: it may show signed addresses.
    """
    try:
        yield
    except (OSError, CdcError):
        raise
    except Exception as error:
        msg = type(error).__name__
        raise OSError(msg) from None


def beside(registry_url: str, what: str) -> str:
    """Returns where a registry's documents of a kind are; other registries have other places.

    Beside ``east.json`` they are ``east.failures``, beside ``west.json`` ``west.failures``: the
    replications of one folder have nothing in common but the folder.
    """
    return f"{registry_url.removesuffix('.json')}.{what}"


def replace_file(files: AbstractFileSystem, path: str, content: bytes) -> None:
    """Writes a document atomically: a reader, also after a crash, finds the old one or the new one.

    On a local disk it creates the folder, and the document is on the disk when this returns. Object
    stores put whole objects anyway.

    Raises:
        OSError: if the place does not answer, or does not permit writing.
    """
    if isinstance(files, LocalFileSystem):
        _replace_local(Path(path), content)
    else:
        with as_os_errors():
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
