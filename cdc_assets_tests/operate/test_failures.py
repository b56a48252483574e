from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cdc_assets.changes.names import TableName
from cdc_assets.errors import (
    ConfigError,
    ConflictError,
    LostRangeError,
    OutcomeUnknownError,
    UnreachableError,
)
from cdc_assets.operate.failures import BACKOFF, Failure, FailureBook, FailureKind, kind_of

pytestmark = pytest.mark.unit

AT = datetime(2026, 3, 4, 12, tzinfo=UTC)
ORDERS = TableName("shop", "public", "orders")


@pytest.fixture
def book(tmp_path: Path) -> FailureBook:
    return FailureBook.beside((tmp_path / "registry.json").as_uri())


def test_a_book_without_failures_is_empty(book: FailureBook) -> None:
    assert book.load() == {}


def test_failures_are_read_back_and_counted(book: FailureBook) -> None:
    book.record(ORDERS, FailureKind.TERMINAL, "the topic was recreated", AT)
    book.record(ORDERS, FailureKind.TRANSIENT, "Spark does not answer", AT + timedelta(hours=1))

    expected = Failure(AT + timedelta(hours=1), FailureKind.TRANSIENT, "Spark does not answer", 2)
    assert book.load() == {ORDERS: expected}


def test_clearing_forgets_the_count(book: FailureBook) -> None:
    book.record(ORDERS, FailureKind.TERMINAL, "x", AT)
    book.clear(ORDERS)
    book.clear(ORDERS)
    assert book.load() == {}
    assert book.record(ORDERS, FailureKind.TERMINAL, "x", AT).attempts == 1


@pytest.mark.parametrize("name", ["a/b", "a.b", "../up", "Größe", "a b"])
def test_any_table_name_has_a_file_of_its_own(book: FailureBook, name: str) -> None:
    odd = TableName("shop", "public", name)
    book.record(odd, FailureKind.TERMINAL, "x", AT)
    book.record(TableName("shop", "public.a", "b"), FailureKind.TERMINAL, "y", AT)
    assert book.load()[odd].message == "x"
    assert len(book.load()) == 2


def test_a_damaged_document_is_no_failure(book: FailureBook, tmp_path: Path) -> None:
    book.record(ORDERS, FailureKind.TERMINAL, "x", AT)
    (tmp_path / "failures" / "shop.public.orders.json").write_text("{")
    assert book.load() == {}


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "failures").write_text("a file, not a folder")
    book = FailureBook.beside((tmp_path / "registry.json").as_uri())
    with pytest.raises(UnreachableError, match="failures"):
        book.record(ORDERS, FailureKind.TERMINAL, "x", AT)


@pytest.mark.parametrize("kind", list(FailureKind), ids=str)
def test_intervals_double_up_to_the_longest(kind: FailureKind) -> None:
    waits = [Failure(AT, kind, "x", n).retry_at - AT for n in range(1, 40)]
    assert waits[0] == BACKOFF[kind].first
    assert waits[1] == 2 * waits[0]
    assert waits == sorted(waits)
    assert waits[-1] == BACKOFF[kind].longest


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (UnreachableError("x"), FailureKind.TRANSIENT),
        (ConflictError("x"), FailureKind.TRANSIENT),
        (LostRangeError("x"), FailureKind.TERMINAL),
        (ConfigError("x"), FailureKind.TERMINAL),
        (OutcomeUnknownError("x"), FailureKind.OUTCOME_UNKNOWN),
        (ZeroDivisionError("x"), FailureKind.UNEXPECTED),
    ],
    ids=lambda each: type(each).__name__,
)
def test_each_root_of_the_errors_has_its_kind(error: Exception, kind: FailureKind) -> None:
    assert kind_of(error) is kind
    assert Failure(AT, kind, "x").needs_person == (kind in {"terminal", "unexpected"})
