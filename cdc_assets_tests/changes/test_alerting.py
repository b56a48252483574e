"""Each alert once, with its recovery, whatever order looks, failures and silences come in."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_assets.changes.alerting import (
    NAMED,
    QUIET,
    AlertFinding,
    AlertKind,
    Change,
    Known,
    Message,
    looked,
    messages,
    sent,
)
from cdc_assets_tests.toy.profiles import examples

START = datetime(2026, 3, 4, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def failed(*tables: str, after: timedelta = timedelta()) -> list[AlertFinding]:
    return [
        AlertFinding(AlertKind.TABLE_FAILED, "shop", each, "it failed", after) for each in tables
    ]


class Watcher:
    """Looks, sends, remembers."""

    def __init__(self) -> None:
        self.known: Known = {}
        self.now = START
        self.sent: list[Message] = []

    def look(self, found: list[AlertFinding], *, is_silent: bool = False,
             minutes: float = 1, refuses: bool = False) -> list[Message]:  # fmt: skip
        self.now += minutes * MINUTE
        known = looked(self.known, found, lambda *_: not is_silent, self.now)
        told = list(messages(known, self.now))
        if not refuses:
            for each in told:
                known = sent(known, each)
            self.sent += told
        self.known = known
        return told


def changes(told: list[Message]) -> list[Change]:
    return [each.change for each in told]


@pytest.mark.unit
def test_an_alert_is_sent_once_and_its_recovery_once() -> None:
    watcher = Watcher()
    for _ in range(100):
        watcher.look(failed("orders"))
    for _ in range(100):
        watcher.look([])
    first, last = watcher.sent
    assert (first.change, first.members) == (Change.FIRING, (("orders", "it failed"),))
    assert (last.change, last.over, last.count) == (Change.RESOLVED, ("orders",), 0)
    assert first.id == last.id
    assert watcher.known == {}


@pytest.mark.unit
def test_five_hundred_tables_are_one_message_that_names_some() -> None:
    watcher = Watcher()
    (told,) = watcher.look(failed(*(f"t{n:03}" for n in range(500))))
    assert (told.count, len(told.members)) == (500, NAMED)


@pytest.mark.slow
def test_five_hundred_that_fail_one_after_the_other_are_a_few_messages() -> None:
    watcher = Watcher()
    for n in range(500):
        watcher.look(failed(*(f"t{i}" for i in range(n + 1))), minutes=0.1)
    assert len(watcher.sent) <= 1 + timedelta(minutes=50) / QUIET
    watcher.look(failed(*(f"t{i}" for i in range(500))), minutes=QUIET / MINUTE)
    assert watcher.sent[-1].count == 500


@pytest.mark.unit
def test_what_joins_later_is_told_once_it_is_quiet() -> None:
    watcher = Watcher()
    watcher.look(failed("a"))
    assert watcher.look(failed("a", "b")) == []
    (told,) = watcher.look(failed("a", "b"), minutes=10)
    assert told.change is Change.CHANGED
    assert [name for name, _ in told.members] == ["a", "b"]
    assert watcher.look(failed("b"), minutes=10) == [], "it may come back"
    (told,) = watcher.look(failed("b"), minutes=5)
    assert (told.change, told.over) == (Change.CHANGED, ("a",))
    assert watcher.look([]) == []
    assert watcher.look([], minutes=5) == [], "a message is not yet ten minutes old"
    assert changes(watcher.look([], minutes=5)) == [Change.RESOLVED]


@pytest.mark.unit
def test_what_may_pass_by_itself_is_told_once_it_stays() -> None:
    watcher = Watcher()
    shaky = failed("a", after=2 * MINUTE)
    assert watcher.look(shaky) == []
    assert watcher.look([]) == []
    assert watcher.look(shaky) == []
    assert watcher.look(shaky) == []
    assert changes(watcher.look(shaky)) == [Change.FIRING]


@pytest.mark.unit
def test_not_knowing_is_no_recovery() -> None:
    watcher = Watcher()
    watcher.look(failed("a"))
    assert watcher.look([], is_silent=True) == []
    assert watcher.look(failed("a")) == []
    (told,) = watcher.look(failed("b"), is_silent=True, minutes=60)
    assert [name for name, _ in told.members] == ["a", "b"]
    assert watcher.look([]) == []
    assert watcher.look([], is_silent=True, minutes=60) == [], "nobody has seen it good so long"
    assert watcher.look([]) == []
    assert changes(watcher.look([], minutes=5)) == [Change.RESOLVED]


@pytest.mark.unit
def test_what_a_receiver_refused_is_sent_again() -> None:
    watcher = Watcher()
    assert changes(watcher.look(failed("a"), refuses=True)) == [Change.FIRING]
    assert changes(watcher.look(failed("a"))) == [Change.FIRING]
    watcher.look([])
    assert changes(watcher.look([], refuses=True, minutes=10)) == [Change.RESOLVED]
    assert changes(watcher.look([])) == [Change.RESOLVED]
    assert watcher.look([]) == []


@pytest.mark.unit
def test_what_is_back_before_its_end_was_told_is_no_news() -> None:
    watcher = Watcher()
    watcher.look(failed("a", "b"))
    assert watcher.look(failed("a")) == []
    assert watcher.look(failed("a", "b")) == []
    assert watcher.look(failed("a", "b"), minutes=30) == []


@pytest.mark.unit
def test_what_waits_for_its_delay_goes_on_waiting_while_nobody_can_look() -> None:
    watcher = Watcher()
    watcher.look(failed("a", after=10 * MINUTE))
    assert watcher.look([], is_silent=True) == []
    assert changes(watcher.look([], is_silent=True, minutes=9)) == [Change.FIRING]


@pytest.mark.unit
@pytest.mark.parametrize(
    ("bad", "every", "after", "most"),
    [(1, 2, 0, 1), (4, 5, 2, 1), (8, 9, 0, 1), (1, 6, 0, 10), (6, 12, 0, 10)],
    ids=["every other minute", "4 of 5", "8 of 9", "1 of 6", "6 of 12"],
)
def test_what_comes_and_goes_is_few_messages_an_hour(
    bad: int, every: int, after: int, most: int
) -> None:
    watcher = Watcher()
    for minute in range(60):
        watcher.look(failed("a", after=after * MINUTE) if minute % every < bad else [])
    assert 1 <= len(watcher.sent) <= most
    for _ in range(20):
        watcher.look([])
    assert watcher.sent[-1].change is Change.RESOLVED, "and the last of them says that it is over"


LOOKS = st.lists(
    st.tuples(
        st.sets(st.sampled_from("abc")), st.booleans(), st.booleans(), st.sampled_from([1, 5, 15])
    ),
    max_size=30,
)


@pytest.mark.property
@examples(300)
@given(LOOKS)
def test_messages_tell_the_truth_and_each_begin_has_one_end(
    looks: list[tuple[set[str], bool, bool, int]],
) -> None:
    watcher = Watcher()
    for tables, is_silent, refuses, minutes in looks:
        watcher.look(failed(*tables), is_silent=is_silent, refuses=refuses, minutes=minutes)
    for _ in range(3):
        watcher.look([], minutes=60)
    kinds = changes(watcher.sent)
    assert kinds.count(Change.FIRING) == kinds.count(Change.RESOLVED)
    is_open = False
    for each in kinds:
        assert (each is Change.FIRING) is not is_open
        is_open = each is not Change.RESOLVED
    assert watcher.known == {}
    seen: set[str] = set()
    for each in watcher.sent:
        seen = (seen - set(each.over)) | {name for name, _ in each.members}
        assert seen == {name for name, _ in each.members}, "no member goes without a word"


@pytest.mark.unit
def test_a_clock_that_was_ahead_holds_back_no_message_once_it_is_right() -> None:
    watcher = Watcher()
    watcher.look(failed("orders"), minutes=525_600)
    watcher.look(failed("orders", "items", after=5 * MINUTE), minutes=1)
    watcher.look(failed("items", after=5 * MINUTE), minutes=1)
    watcher.now = START
    for _ in range(6):
        watcher.look(failed("items", after=5 * MINUTE))
    assert [(each.change, each.count) for each in watcher.sent[1:]] == [(Change.CHANGED, 1)]
    for _ in range(30):
        watcher.look([])
    assert watcher.sent[-1].change is Change.RESOLVED
    assert watcher.sent[-1].over == ("items",)
