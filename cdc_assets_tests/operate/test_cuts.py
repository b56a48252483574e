"""The document of a pending cut, and the settings of cuts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pydantic import ValidationError

from cdc_assets.changes.names import TableName
from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.config.batch import ConsistentConfig
from cdc_assets.lake.cuts import StoredCut
from cdc_assets.log.common_cut import CommonCut, EndAt, NoCut
from cdc_assets.log.pending_cuts import PendingCut, PendingCuts
from cdc_assets.operate.cuts import LogCuts, SourceCuts

pytestmark = pytest.mark.unit

AT = datetime(2026, 3, 1, 7, tzinfo=UTC)


def test_a_pending_cut_is_read_as_it_was_written(tmp_path: Path) -> None:
    book = PendingCuts(str(tmp_path / "registry.json"))
    ends = {TableName("a/b", "p.q", name): OffsetVector.of({0: 7, 3: 9}) for name in ("x", "y")}
    ids = dict.fromkeys(ends, "id")
    pending = PendingCut(4, "t", CommonCut("9:1", EndAt(3, AT), AT, ends), ids, AT)
    assert book.read("a/b", "t") is None
    book.write("a/b", "t", pending)
    assert book.read("a/b", "t") == pending
    assert book.read("a", "t") is None
    gone = TableName("a/b", "p.q", "x")
    assert [*pending.without([gone]).cut.ends] == [TableName("a/b", "p.q", "y")]
    book.write("a/b", "t", None)
    assert book.read("a/b", "t") is None


@pytest.mark.parametrize("text", ["", "[1]", "7", '{"number": 4}', '{"tables": [{}]}', "\x00"])
def test_an_unreadable_pending_cut_is_none_and_another_one_is_begun(
    tmp_path: Path, text: str
) -> None:
    book = PendingCuts(str(tmp_path / "registry.json"))
    book.write("shop", "t", None)
    (file,) = (tmp_path / "registry.cuts").iterdir()
    file.write_text(text)
    assert book.read("shop", "t") is None


def test_durations_have_a_unit() -> None:
    config = ConsistentConfig(every="90s", keep="2d")
    assert (config.interval, config.kept) == (timedelta(seconds=90), timedelta(days=2))
    for text in ("1", "0s", "1 m", "1w", "-1s", "1s\n"):
        with pytest.raises(ValidationError, match="is not a duration"):
            ConsistentConfig(every=text)


@pytest.mark.parametrize(
    ("ahead", "is_sought"),
    [
        (-timedelta(minutes=2), True),
        (-timedelta(seconds=30), False),
        (timedelta(seconds=30), False),
        (timedelta(days=400), True),
    ],
    ids=["due", "not due", "another machine's clock", "a clock that was set back"],
)
def test_cuts_go_on_after_one_of_a_clock_that_was_ahead(
    monkeypatch: pytest.MonkeyPatch, ahead: timedelta, is_sought: bool
) -> None:
    last = StoredCut(1, "t", "9:1", 3, AT, AT, AT + ahead, ())
    sought = list[datetime]()
    monkeypatch.setattr(SourceCuts, "__init__", lambda *_: None)
    monkeypatch.setattr(SourceCuts, "_entries", lambda _: [])
    monkeypatch.setattr(SourceCuts, "_read", lambda *_: None)
    monkeypatch.setattr(SourceCuts, "_newest", lambda *_: last)
    monkeypatch.setattr(SourceCuts, "kept", lambda _: (last,))

    def next_cut(_: SourceCuts, __: LogCuts, ___: int, now: datetime) -> NoCut:
        sought.append(now)
        return NoCut("none")

    monkeypatch.setattr(SourceCuts, "_next_cut", next_cut)
    cuts = cast("Any", SourceCuts)()
    vars(cuts).update(
        _services=SimpleNamespace(clock=lambda: AT),
        _config=ConsistentConfig(every="1m"),
        _logs={"t": LogCuts("t", {}, last=last)},
    )
    assert cuts.advance(None) == []
    assert bool(sought) is is_sought
