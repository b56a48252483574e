from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cdc_assets.changes.names import TableName
from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.errors import (
    ConfigError,
    ConflictError,
    LoginRefusedError,
    LostRangeError,
    OutcomeUnknownError,
    StalledError,
    UnreachableError,
)
from cdc_assets.operate.failure_book import FailureBook
from cdc_assets.operate.failures import (
    BACKOFF,
    LEAST_TRIES,
    PROBED,
    Failure,
    FailureKind,
    Hold,
    kind_of,
)

AT = datetime(2026, 3, 4, 12, tzinfo=UTC)
ORDERS = TableName("shop", "public", "orders")


@pytest.fixture
def book(tmp_path: Path) -> FailureBook:
    return FailureBook.of_registry((tmp_path / "registry.json").as_uri())


@pytest.mark.unit
def test_a_book_without_failures_is_empty(book: FailureBook) -> None:
    assert book.load() == {}


@pytest.mark.unit
def test_failures_are_read_back_and_counted(book: FailureBook) -> None:
    book.record(ORDERS, FailureKind.TERMINAL, "the topic was recreated", AT)
    book.record(ORDERS, FailureKind.TRANSIENT, "Spark does not answer", AT + timedelta(hours=1))

    later = AT + timedelta(hours=1)
    expected = Failure(
        later, FailureKind.TRANSIENT, "Spark does not answer", 2,
        since=AT, retried=1,
    )  # fmt: skip
    assert book.load_one(ORDERS) == expected
    assert book.load() == {ORDERS: expected}


@pytest.mark.unit
def test_clearing_forgets_the_count(book: FailureBook) -> None:
    book.record(ORDERS, FailureKind.TERMINAL, "x", AT)
    book.clear(ORDERS)
    book.clear(ORDERS)
    assert book.load() == {}
    assert book.record(ORDERS, FailureKind.TERMINAL, "x", AT).attempts == 1


@pytest.mark.unit
@pytest.mark.parametrize("name", ["a/b", "a.b", "../up", "Größe", "a b"])
def test_any_table_name_has_a_file_of_its_own(book: FailureBook, name: str) -> None:
    odd = TableName("shop", "public", name)
    book.record(odd, FailureKind.TERMINAL, "x", AT)
    book.record(TableName("shop", "public.a", "b"), FailureKind.TERMINAL, "y", AT)
    assert book.load()[odd].message == "x"
    assert len(book.load()) == 2


@pytest.mark.unit
@pytest.mark.parametrize("text", ["{", "null", "[]", '{"at": 7}', "\x00"])
def test_a_damaged_document_is_no_failure(book: FailureBook, tmp_path: Path, text: str) -> None:
    book.record(ORDERS, FailureKind.TERMINAL, "x", AT)
    (tmp_path / "registry.failures" / "shop.public.orders.json").write_text(text)
    assert book.load() == {}


@pytest.mark.unit
def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "registry.failures").write_text("a file, not a folder")
    book = FailureBook.of_registry((tmp_path / "registry.json").as_uri())
    with pytest.raises(UnreachableError, match="failures"):
        book.record(ORDERS, FailureKind.TERMINAL, "x", AT)


@pytest.mark.unit
@pytest.mark.parametrize("kind", list(FailureKind), ids=str)
def test_intervals_double_up_to_the_longest(kind: FailureKind) -> None:
    waits = [Failure(AT, kind, "x", n).retry_at - AT for n in range(1, 40)]
    assert waits[0] == BACKOFF[kind].first
    assert waits[1] == 2 * waits[0]
    assert waits == sorted(waits)
    assert waits[-1] == BACKOFF[kind].longest


@pytest.mark.unit
@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (UnreachableError("x"), FailureKind.TRANSIENT),
        (ConflictError("x"), FailureKind.TRANSIENT),
        (LoginRefusedError("x"), FailureKind.LOGIN_REFUSED),
        (LostRangeError("x"), FailureKind.TERMINAL),
        (ConfigError("x"), FailureKind.TERMINAL),
        (OutcomeUnknownError("x"), FailureKind.OUTCOME_UNKNOWN),
        (StalledError("x"), FailureKind.STALLED),
        (ZeroDivisionError("x"), FailureKind.UNEXPECTED),
    ],
    ids=lambda each: type(each).__name__,
)
def test_each_root_of_the_errors_has_its_kind(error: Exception, kind: FailureKind) -> None:
    assert kind_of(error) is kind
    people = {"terminal", "unexpected", "stalled", "login_refused"}
    assert Failure(AT, kind, "x").needs_person == (kind in people)


def hold(end: int = 7, minutes: float = 15) -> Hold:
    ends = {"shop.public.orders": OffsetVector.of({0: end}), "shop.transaction": OffsetVector()}
    return Hold("742", AT - timedelta(minutes=1), AT + timedelta(minutes=minutes), ends)


@pytest.mark.unit
def test_what_is_waited_for_is_read_back(book: FailureBook) -> None:
    made = book.record(ORDERS, FailureKind.WAITING, "no end", AT, hold())
    assert book.load() == {ORDERS: made}
    assert made.is_waiting
    assert not made.needs_person


@pytest.mark.unit
def test_looks_are_counted_as_long_as_the_log_stands_still(book: FailureBook) -> None:
    def look(kind: FailureKind, held: Hold | None) -> int:
        return book.record(ORDERS, kind, "x", AT, held).attempts

    assert [look(FailureKind.WAITING, hold()) for _ in range(3)] == [1, 2, 3]
    assert look(FailureKind.WAITING, hold(end=8)) == 1
    assert [look(FailureKind.STALLED, hold(end=8)) for _ in range(2)] == [1, 2]
    assert look(FailureKind.TRANSIENT, None) == 1
    assert look(FailureKind.WAITING, hold(end=8)) == 1


@pytest.mark.unit
def test_a_wait_is_looked_at_when_it_is_over_if_not_before(book: FailureBook) -> None:
    soon = book.record(ORDERS, FailureKind.WAITING, "x", AT, hold(minutes=0.05))
    assert soon.retry_at == AT + timedelta(seconds=3)
    late = book.record(ORDERS, FailureKind.STALLED, "x", AT, hold(minutes=-1))
    assert late.retry_at == AT + timedelta(minutes=1)


@pytest.mark.unit
def test_a_topic_that_moved_ends_the_wait() -> None:
    ends = dict(hold().log_end)
    assert not hold().has_moved(ends)
    assert not hold().has_moved({})
    assert hold().has_moved(ends | {"shop.transaction": OffsetVector.of({0: 1})})


DAY = timedelta(days=1)


def failing(book: FailureBook, hours: float, kind: FailureKind = FailureKind.TRANSIENT) -> Failure:
    """Fails at this hour; what may pass by itself is tried again for a day."""
    return book.record(ORDERS, kind, "x", AT + timedelta(hours=hours), give_up_after=DAY)


@pytest.mark.unit
def test_what_does_not_pass_by_itself_stops_after_a_while(book: FailureBook) -> None:
    found = [failing(book, hours) for hours in range(24)]
    assert not any(each.stopped or each.needs_person for each in found)
    last = failing(book, 24)
    assert last.stopped
    assert last.needs_person
    assert (last.began, last.attempts) == (AT, 25)
    assert book.load_one(ORDERS) == last, "it is remembered"
    assert failing(book, 25).stopped, "an attempt by hand that fails starts nothing"
    assert failing(book, 26, FailureKind.TERMINAL).stopped
    book.clear(ORDERS)
    assert not failing(book, 27).stopped


@pytest.mark.unit
def test_unknown_outcomes_count_together_with_what_is_transient(book: FailureBook) -> None:
    for hours in range(24):
        failing(book, hours)
    assert failing(book, 24, FailureKind.OUTCOME_UNKNOWN).stopped


@pytest.mark.unit
def test_time_in_which_nobody_tried_does_not_stop_a_table(book: FailureBook) -> None:
    failing(book, 0)
    assert not any(failing(book, 100 * n).stopped for n in range(1, 24))


@pytest.mark.unit
@pytest.mark.parametrize("jump", [24, 24 * 365, -24], ids=["a day", "a year", "back"])
def test_a_jump_of_the_clock_stops_no_table(book: FailureBook, jump: float) -> None:
    for tenth in range(LEAST_TRIES):
        failing(book, tenth / 10)
    assert not any(failing(book, jump + tenth / 10).stopped for tenth in range(LEAST_TRIES))


@pytest.mark.unit
def test_with_a_short_bound_a_jump_counts_as_one_try(book: FailureBook) -> None:
    bound = timedelta(minutes=10)
    times = [AT, AT + 3 * DAY, *(AT + 3 * DAY + timedelta(seconds=n) for n in range(6))]
    made = [book.record(ORDERS, FailureKind.TRANSIENT, "x", at, give_up_after=bound)
            for at in times]  # fmt: skip
    assert not any(each.stopped for each in made)


OTHERS = [TableName("shop", "public", f"t{n}") for n in range(60)]


def stopped(book: FailureBook, kind: FailureKind, table: TableName = ORDERS) -> Failure:
    for hours in range(25):
        made = AT + timedelta(hours=hours)
        book.record(table, FailureKind.TRANSIENT, "x", made, give_up_after=DAY)
    return book.record(table, kind, "x", AT + timedelta(hours=25), give_up_after=DAY)


@pytest.mark.unit
@pytest.mark.parametrize("kind", sorted(PROBED), ids=str)
def test_a_stopped_table_is_probed_about_once_an_hour(book: FailureBook, kind: FailureKind) -> None:
    last = stopped(book, kind)
    assert last.probe_at is not None
    assert timedelta(minutes=30) <= last.probe_at - last.at <= timedelta(minutes=90)
    assert last.is_held_back(last.at)
    assert not last.is_held_back(last.probe_at)
    assert not last.is_held_back(last.at - DAY), "a clock that was ahead is not waited for"
    assert book.load_one(ORDERS) == last

    again = book.record(ORDERS, kind, "x", last.probe_at, give_up_after=DAY)
    assert again.stopped
    assert again.is_held_back(last.probe_at)


@pytest.mark.unit
def test_a_stopped_table_that_needs_a_person_is_not_probed(book: FailureBook) -> None:
    last = stopped(book, FailureKind.TERMINAL)
    assert last.probe_at is None
    assert last.is_held_back(last.at + 100 * DAY)


@pytest.mark.slow
def test_probes_of_many_tables_are_spread(book: FailureBook) -> None:
    times = [stopped(book, FailureKind.TRANSIENT, each).probe_at for each in OTHERS]
    minutes = [(at - AT) // timedelta(minutes=1) for at in times if at is not None]
    assert len(minutes) == len(OTHERS)
    assert max(minutes.count(each) for each in minutes) <= 6


@pytest.mark.unit
def test_a_table_that_an_earlier_version_has_stopped_is_probed(
    book: FailureBook, tmp_path: Path
) -> None:
    last = stopped(book, FailureKind.TRANSIENT)
    file = tmp_path / "registry.failures" / "shop.public.orders.json"
    fields = json.loads(file.read_text())
    del fields["probe_at"], fields["retried_seconds"]
    file.write_text(json.dumps({**fields, "retried_since": AT.isoformat()}))
    found = book.load_one(ORDERS)
    assert found is not None
    assert (found.stopped, found.probe_at) == (True, last.probe_at)
    assert found.retried_for == timedelta(hours=25)


@pytest.mark.unit
def test_a_remedy_that_took_days_is_not_held_against_a_table(book: FailureBook) -> None:
    for hours in range(0, 72, 6):
        assert not failing(book, hours, FailureKind.TERMINAL).stopped
    assert not any(failing(book, 72 + hours).stopped for hours in range(24))
    assert failing(book, 96).stopped


@pytest.mark.unit
def test_without_a_bound_it_is_tried_for_ever(book: FailureBook) -> None:
    days = [AT + day * DAY for day in range(30)]
    made = [book.record(ORDERS, FailureKind.TRANSIENT, "x", at).stopped for at in days]
    assert not any(made)


@pytest.mark.unit
def test_what_an_earlier_version_wrote_is_read(book: FailureBook, tmp_path: Path) -> None:
    book.record(ORDERS, FailureKind.TRANSIENT, "x", AT)
    file = tmp_path / "registry.failures" / "shop.public.orders.json"
    fields = json.loads(file.read_text())
    old = {name: fields[name] for name in ("table", "at", "kind", "message", "attempts")}
    file.write_text(json.dumps(old))
    found = book.load_one(ORDERS)
    assert found == Failure(AT, FailureKind.TRANSIENT, "x")
    assert found is not None
    assert found.began == AT


@pytest.mark.unit
def test_what_a_clock_that_was_ahead_has_written_is_not_waited_for() -> None:
    now = datetime(2026, 3, 4, tzinfo=UTC)
    failure = Failure(now + timedelta(days=366), FailureKind.TRANSIENT, "x")
    assert not failure.is_waited_for(now)
    assert failure.is_waited_for(failure.at)
    assert not failure.is_waited_for(failure.retry_at)
