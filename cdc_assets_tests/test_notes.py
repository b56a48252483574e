"""Notes about tables lie in documents that every version before has written so."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cdc_assets.changes.names import TableName
from cdc_assets.desired import DesiredBook, Directive, DirectiveNote
from cdc_assets.errors import UnreachableError
from cdc_assets.notes import NoteWords, TableNotes
from cdc_assets.operate.failure_book import FailureBook
from cdc_assets.operate.failures import FailureKind
from cdc_assets.registry import RegistryFile

pytestmark = pytest.mark.unit

ORDERS, ITEMS = TableName("shop", "public", "orders"), TableName("shop", "public", "items")
WORDS = NoteWords("test: write", "test: remove", "notes cannot be read")
NAME = ["shop", "public", "orders"]


@pytest.fixture
def notes(tmp_path: Path) -> TableNotes:
    return TableNotes(str(tmp_path / "notes"), WORDS)


def test_a_note_is_read_until_it_is_removed(notes: TableNotes) -> None:
    assert notes.read(ORDERS) is None
    assert notes.read_all() == {}
    notes.write(ORDERS, "{}")
    notes.write(ORDERS, "[1]", "progress")
    notes.write(ITEMS, "[2]", "progress")
    assert (notes.read(ORDERS), notes.read(ORDERS, "progress")) == (b"{}", b"[1]")
    assert sorted(notes.read_all(ORDERS).values()) == [b"[1]", b"{}"]
    assert len(notes.read_all()) == 3
    assert notes.remove(ORDERS, "progress")
    assert not notes.remove(ORDERS, "progress")
    assert (notes.read(ORDERS), notes.read(ORDERS, "progress")) == (b"{}", None)


def test_each_note_is_a_document_named_after_its_table(notes: TableNotes) -> None:
    notes.write(ORDERS, "{}")
    notes.write(ORDERS, "{}", "progress")
    names = sorted(each.name for each in Path(notes.url).iterdir())
    assert names == ["shop.public.orders.json", "shop.public.orders.progress.json"]


@pytest.mark.parametrize("folder", ["[a]", "a*", "a?", "a b", "ä"])
def test_notes_are_read_in_a_folder_of_any_name(tmp_path: Path, folder: str) -> None:
    notes = TableNotes(str(tmp_path / folder), WORDS)
    notes.write(ORDERS, "{}")
    notes.write(ITEMS, "[1]")
    assert sorted(notes.read_all().values()) == [b"[1]", b"{}"]
    assert [*notes.read_all(ITEMS).values()] == [b"[1]"]


def test_a_table_with_a_long_name_has_notes(tmp_path: Path) -> None:
    table = TableName("shop", "s" * 128, "t" * 128)
    desired = DesiredBook.of_registry(str(tmp_path / "registry.json"))
    note = DirectiveNote(datetime(2026, 3, 4, tzinfo=UTC))
    for each in Directive:
        desired.put(table, each, note)
    assert desired.of(table).get(Directive.REBUILD) == note


def test_a_folder_that_does_not_answer_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    notes = TableNotes(str(tmp_path / "file" / "notes"), WORDS)
    with pytest.raises(UnreachableError, match=r"notes cannot be read.*file/notes"):
        notes.write(ORDERS, "{}")


def test_documents_of_the_version_before_are_read(tmp_path: Path) -> None:
    registry = RegistryFile(str(tmp_path / "registry.json"))
    at = datetime(2026, 3, 4, tzinfo=UTC)
    desired, failures = DesiredBook.of_registry(registry.url), FailureBook.of_registry(registry.url)
    wish = {"table": NAME, "wish": "paused", "since": at.isoformat(), "by": "a", "why": "b",
            "removal": "none"}  # fmt: skip
    failure = {"table": NAME, "at": at.isoformat(), "kind": "terminal", "message": "m",
               "attempts": 2, "since": at.isoformat()}  # fmt: skip
    _put(desired.url, "shop.public.orders.paused.json", wish)
    _put(failures.url, "shop.public.orders.json", failure)
    assert desired.of(ORDERS).get(Directive.PAUSED) == DirectiveNote(at, "a", "b")
    assert failures.load().keys() == {ORDERS}
    found = failures.load_one(ORDERS)
    assert found is not None
    assert (found.kind, found.attempts) == (FailureKind.TERMINAL, 2)


def _put(folder: str, name: str, document: object) -> None:
    Path(folder).mkdir(parents=True, exist_ok=True)
    Path(folder, name).write_text(json.dumps(document))
