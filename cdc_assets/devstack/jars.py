"""The JVM pieces of the stack: resolved once, checked, and then left alone.

Each part has a manifest (``jvm/<part>.xml``) and its jars' expected checksums
(``jvm/checksums.json``). ``<jars>/<part>.lock.json`` records what was put there and from which
manifest. Resolving again does nothing while manifest, names and sizes agree with that record;
a changed manifest, or a changed or missing jar, has the part resolved again.

A part may come as one archive (``.tar.gz``): it is checked, unpacked before the folder gets its
name, and removed; the record then lists what was in it.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cdc_assets.devstack import ivy
from cdc_assets.devstack.layout import StackLayout
from cdc_assets.errors import TerminalError, TransientError

MANIFESTS = Path(__file__).with_name("jvm")
CHECKSUMS = MANIFESTS / "checksums.json"
PARTS = ("kafka", "connect", "connect-postgres", "connect-mariadb", "spark")
# Large, and started only where somebody asks for them: not installed unless named.
OPTIONAL_PARTS = ("mariadb", "registry", "spark-s3", "rest-catalog")
_ARCHIVE = ".tar.gz"
_ATTEMPTS = 2


@dataclass(frozen=True, slots=True)
class JarProgress:
    """How far one part is: ``done`` of ``total`` steps, two steps for each jar."""

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
    """Have the jars of all parts in place.

    Args:
        layout: where they go.
        parts: which manifests.
        verify: read every jar that is in place and compare its checksum, not only its size.
        on_progress: called from several threads.

    Returns:
        The parts that had to be resolved.

    Raises:
        TransientError: a download failed; names the artifacts.
        TerminalError: a jar is not the one that was expected, or there is no such part; names it.
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
    """Whether a part's jars are those that its manifest and the record ask for."""
    record = _read(_record_file(layout, part))
    if record.get("manifest_sha256") != sha256(_manifest(part)):
        return False
    folder, recorded = layout.jars_of(part), record["jars"]
    if _sizes(folder) != {name: jar["bytes"] for name, jar in recorded.items()}:
        return False
    return not verify or all(sha256(folder / n) == jar["sha256"] for n, jar in recorded.items())


def require_installed(layout: StackLayout, part: str) -> None:
    """Refuse to start a part whose jars are not there: nothing is downloaded at run time.

    Raises:
        TerminalError: says which command installs them.
    """
    if part in (*PARTS, *OPTIONAL_PARTS) and not is_installed(layout, part):
        msg = f"the JVM pieces of {part} are not installed, or not those of its manifest"
        command = f"cdc-assets stack install{f' {part}' if part in OPTIONAL_PARTS else ''}"
        raise TerminalError(msg, where=str(layout.jars_of(part)), remedy=f"run `{command}`")


def record_checksums(layout: StackLayout) -> None:
    """Resolve without expectations and write down what came: for whoever changes a manifest."""
    found = {part: _downloaded(layout, part) for part in (*PARTS, *OPTIONAL_PARTS)}
    CHECKSUMS.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


def sha256(file: Path) -> str:
    """Checksum of a file; empty if it is not there."""
    try:
        with file.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
    except FileNotFoundError:
        return ""


def require_expected(part: str, found: Mapping[str, str], expected: Mapping[str, str]) -> None:
    """Compare checksums of downloaded jars with the checked-in ones.

    Raises:
        TerminalError: names each jar that differs, or that nobody expected.
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
    """Resolve beside the old jars; check; swap; record."""
    folder, record = layout.jars_of(part), _record_file(layout, part)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f".{part}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
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
    """Replace an archive by a folder of its name; ``data`` refuses what would leave it.

    Debian 12's Python 3.11.2 has no such filter: there the checksum has to do.
    """
    folder = archive.with_name(archive.name.removesuffix(_ARCHIVE))
    with tarfile.open(archive) as opened:
        if hasattr(tarfile, "data_filter"):
            opened.extractall(folder, filter="data")
        else:
            opened.extractall(folder)  # noqa: S202
    archive.unlink()


def _downloaded(layout: StackLayout, part: str) -> dict[str, str]:
    """Checksums of what a part was installed from, which is installed first."""
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
    """Count Ivy's lines: one when a jar is found, one when it is there."""
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
    """Remember what lies in the folder; of archives, which are gone, their checksums too."""
    sizes = _sizes(folder)
    found = _checksums(folder)
    jars = {name: {"sha256": checksum, "bytes": sizes[name]} for name, checksum in found.items()}
    archives = {name: checksum for name, checksum in downloaded.items() if name not in found}
    content = {"manifest_sha256": sha256(_manifest(part)), "archives": archives, "jars": jars}
    record.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n")


def _manifest(part: str) -> Path:
    return MANIFESTS / f"{part}.xml"


def _record_file(layout: StackLayout, part: str) -> Path:
    return layout.jars_of(part).with_name(f"{part}.lock.json")


def _checksums(folder: Path) -> dict[str, str]:
    return {name: sha256(file) for name, file in _files(folder)}


def _sizes(folder: Path) -> dict[str, int]:
    return {name: file.stat().st_size for name, file in _files(folder)}


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    """What lies there, at any depth, by its path below the folder."""
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            yield file.relative_to(folder).as_posix(), file


def _expected(part: str) -> dict[str, str]:
    return _read(CHECKSUMS).get(part, {})


def _read(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text())
    except (FileNotFoundError, ValueError):
        return {}  # nothing, or nothing that can be read: resolved again
    return found if isinstance(found, dict) else {}
