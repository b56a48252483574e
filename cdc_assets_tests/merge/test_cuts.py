"""A batch that its limit has cut is told from one that holds all there is."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cdc_assets.changes.names import LakeName, TableName
from cdc_assets.changes.offsets import OffsetRange, OffsetVector
from cdc_assets.log.boundaries import Aligned
from cdc_assets.log.values import Watermarks
from cdc_assets.merge.intake.planning.cuts import Cut, Cuts, Extent, Ranges, TransactionTopics
from cdc_assets.merge.plan.waiting import Patience
from cdc_assets.registry import TableEntry

pytestmark = pytest.mark.unit

AT = datetime(2026, 3, 4, tzinfo=UTC)
ENTRY = TableEntry(TableName("s", "public", "t"), "t", LakeName("n", "t"), AT)
LIMIT = 4
UNREAD = (OffsetRange(0, 0, 6), OffsetRange(1, 0, 2))
MARKS = Watermarks(OffsetVector(), OffsetVector.of({0: 6, 1: 2}))


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch) -> Any:
    source = SimpleNamespace(batch=SimpleNamespace(max_records=LIMIT), transactions=None)
    configured = SimpleNamespace(source=lambda _: source)

    def of(ranges: Ranges | None, unread: Ranges = UNREAD, limits: int = 1) -> Cut:
        """The batch, with these ranges of whole transactions; None for a topic without ends."""
        log = None if ranges is None else object()
        monkeypatch.setattr(TransactionTopics, "of", lambda *_: log)
        monkeypatch.setattr(Patience, "aligned", lambda *_, **__: Aligned(ranges or ()))
        cuts = Cuts(cast("Any", configured), cast("Any", None), lambda: AT)
        found = cuts.of(ENTRY, None, unread, MARKS, Extent(None, limits))
        assert isinstance(found, Cut)
        return found

    return of


def test_a_transaction_longer_than_the_limit_that_is_all_there_is_is_not_cut_short(
    cut: Any,
) -> None:
    assert not cut(UNREAD).is_limited


@pytest.mark.parametrize(
    "ranges",
    [(OffsetRange(0, 0, 5), OffsetRange(1, 0, 2)), (OffsetRange(0, 0, 6),), None],
    ids=["shorter", "one partition", "no transactions"],
)
def test_a_batch_that_leaves_some_is_cut_short(cut: Any, ranges: Ranges | None) -> None:
    assert cut(ranges).is_limited


def test_a_limit_that_has_room_for_all_cuts_nothing(cut: Any) -> None:
    """What is left then is a transaction that has not ended: no longer batch would hold it."""
    assert not cut((OffsetRange(0, 0, 5),), limits=2).is_limited
    assert not cut(None, limits=2).is_limited
    assert not cut(None, (OffsetRange(0, 0, LIMIT),)).is_limited
