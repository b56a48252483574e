"""Installs the JVM pieces of the stack: resolves them once, and checks them.

Each part has a manifest (``jvm/<part>.xml``; those of the Spark server are
`cdc_assets.decode.SERVER_MANIFESTS`) and its jars' expected checksums (``jvm/checksums.json``).
``<jars>/<part>.lock.json`` records the installed jars and their manifest. Nothing is resolved again
while manifest, names and sizes agree with that record; a part with a changed manifest, or a changed
or missing jar, is resolved again.

A part may come as one archive (``.tar.gz``): it is checked, unpacked before the folder gets its
name, and removed; the record then lists its contents.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cdc_assets.decode import SERVER_MANIFESTS
from cdc_assets.errors import TerminalError, TransientError, UnreachableError
from cdc_assets.files import take_lock
from cdc_assets_devstack import ivy
from cdc_assets_devstack.layout import StackLayout

MANIFESTS = Path(__file__).with_name("jvm")
CHECKSUMS = MANIFESTS / "checksums.json"
PARTS = ("kafka", "connect", "connect-postgres", "connect-mariadb", "spark")
# Large, and started only on request: installed only if named.
OPTIONAL_PARTS = ("mariadb", "registry", "spark-s3", "rest-catalog", "nessie", "junit")
_ARCHIVE = ".tar.gz"
_ATTEMPTS = 2
LOCK_SECONDS: Final = 1800.0
"""How long another process may take to download a part."""


@dataclass(frozen=True, slots=True)
class JarProgress:
    """The progress of one part: ``done`` of ``total`` steps, two steps for each jar."""

    part: str
    done: int
    total: int


OnProgress = Callable[[JarProgress], None]


def install(
    layout: StackLayout,
    parts: Sequence[str] = PARTS,
    *,
    verify: bool = False,
    on_progress: OnProgress = lambda _: None,
) -> tuple[str, ...]:
    """Installs the jars of all parts that lack them.

    Args:
        layout: the paths to install to.
        parts: the parts, each with a manifest.
        verify: whether to read every installed jar and compare its checksum, not only its size.
        on_progress: receives progress; called from several threads.

    Returns:
        The parts that had to be resolved.

    Raises:
        TransientError: a download failed; names the artifacts.
        TerminalError: a jar is not the expected one, or there is no such part; names it.
    """
    if unknown := [part for part in parts if not _manifest(part).exists()]:
        msg = f"nothing is to be installed for {', '.join(unknown)}"
        known = ", ".join((*PARTS, *OPTIONAL_PARTS))
        raise TerminalError(msg, where=str(MANIFESTS), remedy=f"choose from: {known}")
    stale = [part for part in parts if not is_installed(layout, part, verify=verify)]
    if not stale:
        return ()
    with ThreadPoolExecutor(len(stale)) as pool:
        list(pool.map(lambda part: _install_part(layout, part, on_progress), stale))
    return tuple(stale)


def is_installed(layout: StackLayout, part: str, *, verify: bool = False) -> bool:
    """Whether a part's jars match its manifest and the record."""
    record = _read(_record_file(layout, part))
    if record.get("manifest_sha256") != sha256(_manifest(part)):
        return False
    folder, recorded = layout.jars_of(part), record["jars"]
    if _sizes(folder) != {name: jar["bytes"] for name, jar in recorded.items()}:
        return False
    return not verify or all(sha256(folder / n) == jar["sha256"] for n, jar in recorded.items())


def require_installed(layout: StackLayout, part: str) -> None:
    """Refuses to start a part without its jars: nothing is downloaded at run time.

    Raises:
        TerminalError: names the command that installs them.
    """
    if part in (*PARTS, *OPTIONAL_PARTS) and not is_installed(layout, part):
        msg = f"the JVM pieces of {part} are not installed, or not those of its manifest"
        command = f"cdc-assets stack install{f' {part}' if part in OPTIONAL_PARTS else ''}"
        raise TerminalError(
            msg, where=str(layout.jars_of(part)), remedy=f"run `{command}`", page="pieces-missing"
        )


def record_checksums(layout: StackLayout) -> None:
    """Resolves without expected checksums, and records those found, after a manifest's change."""
    found = {part: _downloaded(layout, part) for part in (*PARTS, *OPTIONAL_PARTS)}
    CHECKSUMS.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


def sha256(file: Path) -> str:
    """Returns the checksum of a file; empty if the file is missing."""
    try:
        with file.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
    except FileNotFoundError:
        return ""


def require_expected(part: str, found: Mapping[str, str], expected: Mapping[str, str]) -> None:
    """Compares checksums of downloaded jars with the checked-in ones.

    Raises:
        TerminalError: names each jar that differs or is not expected.
    """
    wrong = sorted(name for name, checksum in found.items() if expected.get(name) != checksum)
    if wrong:
        msg = f"checksum of {', '.join(wrong)} for {part} is not the expected one"
        raise TerminalError(
            msg,
            where=str(CHECKSUMS),
            remedy="do not use them: find out what the repository or proxy delivered; after a "
            "deliberate change of a manifest run `cdc-assets stack install --record-checksums`",
        )


def _install_part(
    layout: StackLayout, part: str, on_progress: OnProgress, *, check: bool = True
) -> None:
    """Resolves a part's jars in a new folder, checks them, replaces the old ones, records them."""
    folder, record = layout.jars_of(part), _record_file(layout, part)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f".{part}.lock").open("w") as lock:
        if not take_lock(lock, LOCK_SECONDS):
            what = f"another process has been installing {part} for {LOCK_SECONDS:g} s"
            raise UnreachableError(what, where=str(folder), remedy="end it (lsof names it)")
        if is_installed(layout, part, verify=True):
            return
        staging = folder.with_name(f".{part}.partial")
        shutil.rmtree(staging, ignore_errors=True)
        _retrieve(layout, part, staging, on_progress)
        downloaded = _checksums(staging)
        if check:
            require_expected(part, downloaded, _expected(part))
        for archive in staging.glob(f"*{_ARCHIVE}"):
            _unpack(archive)
        record.unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
        staging.rename(folder)
        _write_record(record, part, folder, downloaded)


def _unpack(archive: Path) -> None:
    """Replaces an archive with a folder of its name; ``data`` refuses files outside of it.

    Debian 12's Python 3.11.2 has no such filter: there the checksum has to suffice.
    """
    folder = archive.with_name(archive.name.removesuffix(_ARCHIVE))
    with tarfile.open(archive) as opened:
        if hasattr(tarfile, "data_filter"):
            opened.extractall(folder, filter="data")
        else:
            opened.extractall(folder)  # noqa: S202
    archive.unlink()


def _downloaded(layout: StackLayout, part: str) -> dict[str, str]:
    """Installs a part, and returns the checksums of the downloaded files."""
    _install_part(layout, part, lambda _: None, check=False)
    record = _read(_record_file(layout, part))
    return record.get("archives") or {name: jar["sha256"] for name, jar in record["jars"].items()}


def _retrieve(layout: StackLayout, part: str, staging: Path, on_progress: OnProgress) -> None:
    cache = Path(os.environ.get(ivy.CACHE_VARIABLE, layout.home / "ivy")) / part
    cache.mkdir(parents=True, exist_ok=True)
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            ivy.retrieve(_manifest(part), staging, cache, _counter(part, on_progress))
        except TransientError:
            if attempt == _ATTEMPTS:
                raise
        else:
            return


def _counter(part: str, on_progress: OnProgress) -> Callable[[str], None]:
    """Counts Ivy's lines: one when it finds a jar, one when it has downloaded it."""
    total = 2 * len(_expected(part))
    done = 0

    def count(line: str) -> None:
        nonlocal done
        done += "\tfound " in line or ("[SUCCESSFUL" in line and ".pom " not in line)
        if ":: retrieving ::" in line:
            done = total
        on_progress(JarProgress(part, min(done, total), total))

    return count


def _write_record(record: Path, part: str, folder: Path, downloaded: Mapping[str, str]) -> None:
    """Records the folder's files; for archives, which are gone, also their checksums."""
    sizes = _sizes(folder)
    found = _checksums(folder)
    jars = {name: {"sha256": checksum, "bytes": sizes[name]} for name, checksum in found.items()}
    archives = {name: checksum for name, checksum in downloaded.items() if name not in found}
    content = {"manifest_sha256": sha256(_manifest(part)), "archives": archives, "jars": jars}
    record.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n")


def _manifest(part: str) -> Path:
    return SERVER_MANIFESTS.get(part) or MANIFESTS / f"{part}.xml"


def _record_file(layout: StackLayout, part: str) -> Path:
    return layout.jars_of(part).with_name(f"{part}.lock.json")


def _checksums(folder: Path) -> dict[str, str]:
    return {name: sha256(file) for name, file in _files(folder)}


def _sizes(folder: Path) -> dict[str, int]:
    return {name: file.stat().st_size for name, file in _files(folder)}


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yields the files at any depth, by their paths below the folder."""
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            yield file.relative_to(folder).as_posix(), file


def _expected(part: str) -> dict[str, str]:
    return _read(CHECKSUMS).get(part, {})


def _read(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text())
    except (FileNotFoundError, ValueError):
        return {}  # absent or invalid, so resolved again
    return found if isinstance(found, dict) else {}
