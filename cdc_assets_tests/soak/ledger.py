"""On which commit each test of the soak last passed: ``passed.tsv``, which is committed.

A line per test, sorted by its name, so that two people's runs merge as text does. A run writes
after each test, under a lock, so that a run that is stopped keeps what has passed, and two parts
may run side by side.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Final

FILE: Final = Path(__file__).with_name("passed.tsv")
_HEAD: Final = "test\tcommit\ton\tseconds"


@dataclass(frozen=True, slots=True)
class Passed:
    """A test's last pass: on which commit, on which day, and how long it took."""

    commit: str
    on: date
    seconds: int


def read(file: Path = FILE) -> dict[str, Passed]:
    """The last pass of each test; empty if there is no file yet."""
    if not file.is_file():
        return {}
    lines = file.read_text(encoding="utf-8").split("\n")
    return dict(_parsed(line) for line in lines if line and line != _HEAD)


def add(test: str, passed: Passed, file: Path = FILE) -> None:
    """Write this pass over the test's last one, and leave the other lines as they are."""
    with _locked(file):
        _write(file, {**read(file), test: passed})


def prune(tests: frozenset[str], file: Path = FILE) -> None:
    """Leave out the tests that are no longer among these."""
    with _locked(file):
        found = read(file)
        kept = {test: passed for test, passed in found.items() if test in tests}
        if kept != found:
            _write(file, kept)


def _parsed(line: str) -> tuple[str, Passed]:
    test, commit, on, seconds = line.split("\t")
    return test, Passed(commit, date.fromisoformat(on), int(seconds))


def _write(file: Path, passed: Mapping[str, Passed]) -> None:
    lines = (
        f"{test}\t{each.commit}\t{each.on.isoformat()}\t{each.seconds}"
        for test, each in sorted(passed.items())
    )
    new = file.with_suffix(".new")
    new.write_text("\n".join([_HEAD, *lines, ""]), encoding="utf-8")
    new.replace(file)


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    """Of the folder: the file itself is replaced."""
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)
