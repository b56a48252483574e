"""Processes that change one document in a store without conditions wait for each other."""

from __future__ import annotations

import multiprocessing
import os
import threading
from pathlib import Path

import pytest
from fsspec import AbstractFileSystem
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem

from cdc_assets import files as documents
from cdc_assets.files import LockedError, one_at_a_time, replace_file, replace_read, version_of

NUMBER, LOCK = "number", "number.lock"


def store(folder: Path) -> AbstractFileSystem:
    """A store that creates an object for one only, and has no other condition."""
    return DirFileSystem(str(folder), LocalFileSystem())


def count(folder: Path, times: int) -> None:
    """Adds one to a number, again and again."""
    files = store(folder)
    for _ in range(times):
        with one_at_a_time(files, NUMBER, 60 if times > 1 else 1):
            version = version_of(files, NUMBER)
            now = int(files.cat_file(NUMBER))
            replace_read(files, NUMBER, b"%d" % (now + 1), version)


@pytest.mark.slow
def test_processes_take_turns(tmp_path: Path) -> None:
    replace_file(store(tmp_path), NUMBER, b"0")
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=count, args=(tmp_path, 20)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert (tmp_path / NUMBER).read_bytes() == b"60"
    assert not (tmp_path / LOCK).exists()


@pytest.mark.unit
def test_a_process_that_died_does_not_hold_up_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "ABANDONED_SECONDS", 0.3)
    replace_file(store(tmp_path), NUMBER, b"0")
    (tmp_path / LOCK).write_bytes(b"of a dead process")
    count(tmp_path, 1)
    assert (tmp_path / NUMBER).read_bytes() == b"1"


@pytest.mark.unit
def test_a_process_that_is_slow_does_not_remove_what_another_has_created(tmp_path: Path) -> None:
    files = store(tmp_path)
    with one_at_a_time(files, NUMBER, 1):
        (tmp_path / LOCK).write_bytes(b"another's, after this one counted as dead")
    assert (tmp_path / LOCK).exists()


@pytest.mark.slow
def test_one_that_does_not_end_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It lives, as its object changes, and never ends."""
    monkeypatch.setattr(documents, "ABANDONED_SECONDS", 0.3)
    lock, is_over = tmp_path / LOCK, threading.Event()

    def live() -> None:
        number = 0
        while not is_over.wait(0.05):
            number += 1
            replace_file(LocalFileSystem(), str(lock), b"%d" % number)

    lock.write_bytes(b"0")
    other = threading.Thread(target=live)
    other.start()
    try:
        with pytest.raises(LockedError, match=r"number\.lock"):
            count(tmp_path, 1)
    finally:
        is_over.set()
        other.join()


@pytest.mark.unit
def test_a_document_is_on_the_disk_under_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[tuple[int, bytes | None]] = []
    path, flush = tmp_path / NUMBER, os.fsync

    def observed(file: int) -> None:
        flushed.append((os.fstat(file).st_ino, path.read_bytes() if path.exists() else None))
        flush(file)

    monkeypatch.setattr(os, "fsync", observed)
    replace_file(LocalFileSystem(), str(path), b"1")
    assert flushed == [(path.stat().st_ino, None), (tmp_path.stat().st_ino, b"1")]
