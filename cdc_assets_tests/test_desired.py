"""What people want of tables: put down, found by others, never lost between two writers."""

from __future__ import annotations

import multiprocessing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cdc_assets.changes.names import TableName
from cdc_assets.desired import (
    NOTHING,
    DesiredBook,
    Directive,
    DirectiveNote,
    Removal,
    TableDirectives,
)
from cdc_assets.errors import TerminalError, UnreachableError
from cdc_assets_tests.faults import Death, Fault, How, faults

AT = datetime(2026, 3, 4, 12, tzinfo=UTC)
ORDERS = TableName("shop", "public", "orders")
ITEMS = TableName("shop", "public", "items")


@pytest.fixture(params=["", "file://", "memory://"])
def book(request: pytest.FixtureRequest, tmp_path: Path) -> DesiredBook:
    return DesiredBook.of_registry(f"{request.param}{tmp_path}/registry.json")


@pytest.mark.unit
def test_of_most_tables_nothing_is_wanted(book: DesiredBook) -> None:
    assert book.load() == {}
    assert book.of(ORDERS) == NOTHING
    assert NOTHING.held is None


@pytest.mark.unit
def test_what_is_wanted_is_found_by_others_with_since_when_by_whom_and_why(
    book: DesiredBook,
) -> None:
    pause = DirectiveNote(AT, "cdc-assets pause", "the index is rebuilt")
    drop = DirectiveNote(AT + timedelta(hours=1), "drop_tables 7", removal=Removal.BEGUN)
    book.put(ORDERS, Directive.PAUSED, pause)
    book.put(ORDERS, Directive.DROPPED, drop)
    book.put(ITEMS, Directive.REBUILD, pause)

    other = DesiredBook(book.url)
    expected = TableDirectives(paused=pause, dropped=drop)
    assert other.load() == {ORDERS: expected, ITEMS: TableDirectives(rebuild=pause)}
    assert other.of(ORDERS) == expected
    assert expected.held == drop
    assert other.of(ITEMS).held is None, "a table that is built anew goes on meanwhile"
    assert pause.words() == "since 2026-03-04 12:00:00Z by cdc-assets pause: the index is rebuilt"


@pytest.mark.unit
def test_a_wish_that_ends_by_itself_is_wanted_until_then_and_holds_nobody(
    book: DesiredBook,
) -> None:
    at = AT
    mine = DesiredBook(book.url, lambda: at)
    brief = DirectiveNote(AT, "resnapshot", until=AT + timedelta(seconds=60))
    mine.put(ORDERS, Directive.YIELDS, brief)
    mine.put(ORDERS, Directive.REBUILD, DirectiveNote(AT))
    assert mine.of(ORDERS) == TableDirectives(rebuild=DirectiveNote(AT), yields=brief)
    assert mine.of(ORDERS).held is None
    at = AT + timedelta(seconds=60)
    assert mine.of(ORDERS) == TableDirectives(rebuild=DirectiveNote(AT))
    assert mine.load() == {ORDERS: TableDirectives(rebuild=DirectiveNote(AT))}


@pytest.mark.unit
def test_a_wish_that_is_taken_back_leaves_the_others(book: DesiredBook) -> None:
    book.put(ORDERS, Directive.PAUSED, DirectiveNote(AT))
    book.put(ORDERS, Directive.REBUILD, DirectiveNote(AT))
    book.remove(ORDERS, Directive.PAUSED)
    book.remove(ORDERS, Directive.PAUSED)
    assert book.of(ORDERS) == TableDirectives(rebuild=DirectiveNote(AT))
    book.remove(ORDERS, Directive.REBUILD)
    assert book.load() == {}


@pytest.mark.unit
@pytest.mark.parametrize("name", ["a/b", "a.b", "../up", "Größe", "a b", "orders.paused"])
def test_any_table_name_has_documents_of_its_own(book: DesiredBook, name: str) -> None:
    odd = TableName("shop", "public", name)
    book.put(odd, Directive.PAUSED, DirectiveNote(AT, why="odd"))
    book.put(ORDERS, Directive.PAUSED, DirectiveNote(AT, why="plain"))
    assert book.of(odd) == TableDirectives(paused=DirectiveNote(AT, why="odd"))
    assert book.of(ORDERS) == TableDirectives(paused=DirectiveNote(AT, why="plain"))


@pytest.mark.unit
def test_what_cannot_be_read_as_a_wish_stops_and_can_be_said_again(tmp_path: Path) -> None:
    book = DesiredBook.of_registry(str(tmp_path / "registry.json"))
    book.put(ORDERS, Directive.PAUSED, DirectiveNote(AT))
    file = tmp_path / "registry.desired" / "shop.public.orders.paused.json"
    file.write_text("{")
    for look in (book.load, lambda: book.of(ORDERS)):
        with pytest.raises(TerminalError, match=r"shop\.public\.orders\.paused\.json"):
            look()
    book.put(ORDERS, Directive.PAUSED, DirectiveNote(AT))
    assert book.of(ORDERS).paused == DirectiveNote(AT)


@pytest.mark.unit
@pytest.mark.parametrize("prefix", ["", "memory://"])
def test_no_table_is_let_go_because_its_pause_is_where_it_is_nobodys(
    tmp_path: Path, prefix: str
) -> None:
    shared = DesiredBook(f"{prefix}{tmp_path}/desired")
    shared.put(ORDERS, Directive.PAUSED, DirectiveNote(AT))
    east, west = (
        DesiredBook.of_registry(f"{prefix}{tmp_path}/{it}.json") for it in ("east", "west")
    )
    for look in (east.load, lambda: east.of(ORDERS), lambda: west.of(ITEMS)):
        with pytest.raises(TerminalError, match=r"no registry's own.*desired.*move to .*\.desired"):
            look()
    east.put(ORDERS, Directive.PAUSED, DirectiveNote(AT))
    shared.remove(ORDERS, Directive.PAUSED)
    assert east.of(ORDERS).paused == DirectiveNote(AT)
    assert west.load() == {}


@pytest.mark.unit
def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "registry.desired").write_text("a file, not a folder")
    book = DesiredBook.of_registry(str(tmp_path / "registry.json"))
    with pytest.raises(UnreachableError, match="desired"):
        book.put(ORDERS, Directive.PAUSED, DirectiveNote(AT))


@pytest.mark.unit
@pytest.mark.parametrize("how", list(How), ids=lambda how: how.name)
def test_a_wish_that_was_interrupted_is_there_whole_or_not_at_all(tmp_path: Path, how: How) -> None:
    book = DesiredBook.of_registry(str(tmp_path / "registry.json"))
    before, after = DirectiveNote(AT, why="before"), DirectiveNote(AT, why="after")
    book.put(ORDERS, Directive.PAUSED, before)
    with faults(Fault("desired: write", how)), pytest.raises((Exception, Death)):
        book.put(ORDERS, Directive.PAUSED, after)
    assert book.of(ORDERS).paused == (before if how is How.BEFORE else after)
    book.put(ORDERS, Directive.PAUSED, after)
    assert book.of(ORDERS).paused == after


def wish_for_many(url: str, wish: Directive, tables: list[TableName]) -> None:
    book = DesiredBook(url)
    for _ in range(5):
        for table in tables:
            book.put(table, wish, DirectiveNote(AT, wish.value))


@pytest.mark.slow
def test_of_writers_at_once_none_loses_anothers_wish(tmp_path: Path) -> None:
    """One document with all wishes would lose some: each writer puts back what it has read."""
    book = DesiredBook.of_registry(str(tmp_path / "registry.json"))
    book.put(ORDERS, Directive.PAUSED, DirectiveNote(AT, "before"))
    tables = [TableName("shop", "public", f"t{n}") for n in range(20)]
    spawned = multiprocessing.get_context("spawn")
    writers = [spawned.Process(target=wish_for_many, args=(book.url, w, tables)) for w in Directive]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        assert book.of(ORDERS).paused == DirectiveNote(AT, "before"), (
            "a reader sees whole documents"
        )
        book.load()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    wanted = {wish.value: DirectiveNote(AT, wish.value) for wish in Directive}
    assert book.load() == {
        ORDERS: TableDirectives(paused=DirectiveNote(AT, "before")),
        **{t: TableDirectives(**wanted) for t in tables},
    }
