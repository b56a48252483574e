"""Stores small documents under a folder path or fsspec URL, replaced as a whole.

Several processes read, change and replace a document. One process at a time changes the document
(`one_at_a_time`), and replaces it only if the document is still the one that was read
(`replace_read`):

- On a local disk, processes wait for each other by a lock on a file in the document's folder.
- S3 replaces an object only if the object has the same ETag as before the document was read.
- In other stores, one process creates a lock object in the document's folder, which no other
  process can create then. A process that dies leaves its lock object behind: a lock object that has
  not changed for `ABANDONED_SECONDS` is removed.
"""

from __future__ import annotations

import fcntl
import os
import time
import uuid
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final, cast
from urllib.parse import urlsplit

from fsspec import AbstractFileSystem
from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from cdc_assets.errors import CdcError, ConfigError

_LOCK_LOOK_SECONDS: Final = 0.05
ABANDONED_SECONDS: Final = 20.0
"""Age at which a process that changes a document counts as dead: a change takes a second or two."""
_OTHER: Final = frozenset({"PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey"})
"""S3's codes for a document that has changed since the read, or is being replaced."""


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
    """Takes the lock of an open file, which ends with the file; returns whether in time.

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
    """Converts errors of object stores' clients into `OSError`, as some are not.

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


def registry_path(registry_url: str, what: str) -> str:
    """Returns the folder of a registry's documents of a kind; each registry has its own folder.

    For ``east.json`` the folder is ``east.failures``, for ``west.json`` ``west.failures``:
    replications with registries in one folder share nothing but the folder.
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


class ReplacedError(OSError):
    """Another process has replaced a document since it was read."""


class LockedError(OSError):
    """Another process that changes a document does not end; names the lock that it holds."""


def version_of(files: AbstractFileSystem, path: str) -> str:
    """Returns a value that identifies this version of a document; empty without a document.

    Call this before reading: the content that is read then is no older than the version.

    Raises:
        OSError: if the place does not answer.
    """
    try:
        with as_os_errors():
            return str(files.info(path)["ETag"]) if _is_s3(files) else ""
    except FileNotFoundError:
        return ""


def replace_read(files: AbstractFileSystem, path: str, content: bytes, version: str) -> None:
    """Replaces a document, as `replace_file` does, unless the document has changed since the read.

    Args:
        files: the file system.
        path: of the document.
        content: the new one.
        version: of the document that was read, by `version_of`.

    Raises:
        ReplacedError: if it is another one by now.
        OSError: if the place does not answer, or does not permit writing.
    """
    if not _is_s3(files):
        replace_file(files, path, content)
        return
    try:
        with as_os_errors():
            if version:
                files.pipe_file(path, content, IfMatch=version)
            else:
                files.pipe_file(path, content, mode="create")
    except OSError as error:
        if _is_other(error):
            raise ReplacedError(path) from error
        raise


@contextmanager
def one_at_a_time(files: AbstractFileSystem, path: str, seconds: float) -> Generator[None]:
    """Has processes that change a document wait for each other; with S3 `replace_read` does it.

    Args:
        files: the file system.
        path: of the document.
        seconds: to wait at most.

    Raises:
        LockedError: if another process does not end.
        OSError: if the place does not answer.
    """
    lock = f"{path}.lock"
    if isinstance(files, LocalFileSystem):
        Path(lock).parent.mkdir(parents=True, exist_ok=True)
        with Path(lock).open("w") as handle:
            if not take_lock(handle, seconds):
                raise LockedError(lock)
            yield
    elif _is_s3(files):
        yield
    else:
        mine = _created(files, lock, seconds)
        try:
            yield
        finally:
            _remove(files, lock, mine)


def _created(files: AbstractFileSystem, lock: str, seconds: float) -> bytes:
    """Creates a lock object, once no other process has one, and returns its content."""
    mine, seen, since = uuid.uuid4().hex.encode(), b"", time.monotonic()
    ends = since + seconds
    while time.monotonic() < ends:
        with suppress(FileExistsError), as_os_errors():
            files.pipe_file(lock, mine, mode="create")
            return mine
        theirs = _content(files, lock)
        if theirs != seen:
            seen, since = theirs, time.monotonic()
        elif theirs and time.monotonic() - since >= ABANDONED_SECONDS:
            _remove(files, lock, theirs)
        time.sleep(_LOCK_LOOK_SECONDS)
    raise LockedError(lock)


def _remove(files: AbstractFileSystem, lock: str, content: bytes) -> None:
    """Removes a lock object unless another process has created a new one of the same name."""
    with suppress(FileNotFoundError), as_os_errors():
        if _content(files, lock) == content:
            files.rm_file(lock)


def _content(files: AbstractFileSystem, path: str) -> bytes:
    try:
        with as_os_errors():
            return cast("bytes", files.cat_file(path))
    except FileNotFoundError:
        return b""


def _is_s3(files: AbstractFileSystem) -> bool:
    return "s3" in ((files.protocol,) if isinstance(files.protocol, str) else files.protocol)


def _is_other(error: OSError) -> bool:
    """Whether S3 refused to replace an object because it has changed since the read."""
    response = getattr(error.__cause__, "response", None) or {}
    gone = isinstance(error, FileExistsError | FileNotFoundError)
    return gone or response.get("Error", {}).get("Code") in _OTHER


def _replace_local(path: Path, content: bytes) -> None:
    _make_folder(path.parent)
    temporary = path.with_name(f".{uuid.uuid4().hex}")  # the document's name may be of full length
    try:
        with open_private(temporary) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    _flush_folder(path.parent)


def _flush_folder(folder: Path) -> None:
    """Has the names in a folder written to the disk, where its file system can do that."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            os.fsync(opened)
    finally:
        os.close(opened)


def open_private(path: Path) -> IO[bytes]:
    """Opens a new or emptied file that only its owner may read, as it may hold rows' keys."""
    return open(path, "wb", opener=lambda name, flags: os.open(name, flags, 0o600))


def _make_folder(folder: Path) -> None:
    """Makes the folder of a document, private if the folder is of `registry_path`.

    The registry's own may hold what others have to reach, such as a database that runs as another
    user.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700 if folder.suffix else 0o777, exist_ok=True)
