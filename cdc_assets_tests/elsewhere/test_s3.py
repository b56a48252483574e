"""The registry and the failures in an S3 that asks for signed requests."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import s3fs
from cdc_assets_devstack.layout import StackLayout
from cdc_assets_devstack.ports import pick_free_ports
from cdc_assets_devstack.spark_server import SparkServer

from cdc_assets.changes.names import LakeName, TableName
from cdc_assets.errors import UnreachableError
from cdc_assets.files import ReplacedError, files_at, replace_file, replace_read, version_of
from cdc_assets.operate.failure_book import FailureBook
from cdc_assets.operate.failures import FailureKind
from cdc_assets.registry import RegistryFile, TableEntry
from cdc_assets_tests.elsewhere.s3 import BUCKET, S3

pytestmark = pytest.mark.slow

NOW = datetime.now(UTC)
TABLE = TableName("shop", "public", "orders")
OTHER = TableName("shop", "public", "customers")


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    layout = StackLayout(tmp_path_factory.mktemp("s3"))
    server = S3(layout, pick_free_ports().spark)
    server.bring_up(lambda _: None)
    yield server
    server.stop()


@pytest.fixture
def folder(s3: S3, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """A folder of the test's own, for a process that has the key."""
    for name, value in s3.environment_of_clients.items():
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    return f"s3://{BUCKET}/{request.node.name}"


def of_another_process(url: str) -> tuple[FailureBook, RegistryFile]:
    """With clients that share nothing with those of the test."""
    s3fs.S3FileSystem.clear_instance_cache()
    return FailureBook(f"{url}/failures"), RegistryFile(f"{url}/registry.json")


def entry(name: str) -> TableEntry:
    table = TableName("shop", "public", name)
    return TableEntry(table, f"shop.public.{name}", LakeName("lake", name), NOW)


def test_what_another_process_writes_and_removes_is_seen(folder: str) -> None:
    book, file = of_another_process(folder)
    others_book, others_file = of_another_process(folder)
    assert (book.load(), len(file.load())) == ({}, 0)
    others_book.record(TABLE, FailureKind.TRANSIENT, "it failed", NOW)
    others_file.add([entry("orders")])
    assert list(book.load()) == [TABLE]
    assert file.load().entries == (entry("orders"),)
    others_book.record(OTHER, FailureKind.TRANSIENT, "it failed too", NOW)
    assert set(book.load()) == {TABLE, OTHER}
    others_book.clear(TABLE)
    others_file.add([entry("customers")])
    assert set(book.load()) == {OTHER}
    assert len(file.load()) == 2


def add_many(url: str, number: int) -> None:
    file = RegistryFile(url)
    for n in range(10):
        file.add([entry(f"t{number}_{n}")])


def test_processes_that_change_a_registry_at_once_lose_nothing(folder: str) -> None:
    url = f"{folder}/registry.json"
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=add_many, args=(url, number)) for number in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    assert len(of_another_process(folder)[1].load()) == 30


def test_a_document_is_replaced_only_if_it_is_what_was_read(folder: str) -> None:
    files, path = files_at(f"{folder}/document.json")
    for before in ("", "there is one"):
        version = version_of(files, path)
        replace_file(files, path, f"another process's, after {before!r}".encode())
        with pytest.raises(ReplacedError):
            replace_read(files, path, b"mine", version)
        assert b"another" in files.cat_file(path)
        replace_read(files, path, b"mine", version_of(files, path))
        assert files.cat_file(path) == b"mine", "the naive way would have lost the other"


def test_a_document_that_was_removed_is_another_one(folder: str) -> None:
    files, path = files_at(f"{folder}/document.json")
    replace_file(files, path, b"there")
    version = version_of(files, path)
    files.rm_file(path)
    with pytest.raises(ReplacedError):
        replace_read(files, path, b"mine", version)


def test_a_wrong_secret_is_refused_and_not_shown(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-the-secret")
    book, file = of_another_process(folder)
    for ask in (book.load, file.load):
        with pytest.raises(UnreachableError) as refused:
            ask()
        assert "not-the-secret" not in str(refused.value)


def test_an_s3_that_does_not_answer_is_unreachable(
    folder: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Botocore's error for that is none of the operating system."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setattr("s3fs.S3FileSystem.retries", 1)
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    book, file = of_another_process(folder)
    for ask in (book.load, file.load, lambda: file.add([entry("orders")])):
        with pytest.raises(UnreachableError):
            ask()


@pytest.mark.parametrize(
    ("warehouse", "libraries"),
    [("file:///lake", ("spark",)), (f"s3://{BUCKET}/w", ("spark", "spark-s3"))],
    ids=["on disk", "in S3"],
)
def test_a_local_server_gets_a_client_of_s3_where_its_lake_lies_there(
    tmp_path: Path, warehouse: str, libraries: tuple[str, ...]
) -> None:
    server = SparkServer(StackLayout(tmp_path), {"spark.sql.catalog.lake.warehouse": warehouse})
    assert server.libraries == libraries
