"""What is kept of a table that is read again: found by whoever goes on with it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import DataFrame

from cdc_assets.changes.names import TableName
from cdc_assets.errors import UnreachableError
from cdc_assets.operations.resnapshot.comparing import ComparedWave, KeyState
from cdc_assets.operations.resnapshot.notes import MOST, ResnapshotBook, ResnapshotProgress
from cdc_assets.operations.resnapshot.spark_resnapshot import ResnapshotReport
from cdc_assets.operations.resnapshot.wave import WaveResult
from cdc_assets_tests.faults import Death, Fault, How, faults

pytestmark = pytest.mark.unit

ORDERS = TableName("shop", "public", "orders")
BEGUN = ResnapshotProgress(datetime(2026, 3, 4, 12, tzinfo=UTC), ("region", "id"), 2)
NOTHING = cast("DataFrame", None)
"""Of a wave that is done nothing is read any more."""


@pytest.fixture(params=["", "memory://"])
def book(request: pytest.FixtureRequest, tmp_path: Path) -> ResnapshotBook:
    return ResnapshotBook.of_registry(f"{request.param}{tmp_path}/registry.json")


def wave(
    end: tuple[str, str] | None, attempt: str = "", doubtful: int = 0, **counts: int
) -> WaveResult:
    keys = tuple(("eu", str(n)) for n in range(doubtful))
    found = {**counts, **({KeyState.DOUBTFUL: doubtful} if doubtful else {})}
    compared = ComparedWave(found, sum(counts.values()), NOTHING, keys)
    return WaveResult(end, compared, counts.get("put", 0), attempt)


def test_waves_add_up_and_what_is_kept_is_found_again(book: ResnapshotBook) -> None:
    assert book.load(ORDERS) is None
    kept = BEGUN.after(wave(("eu", "7"), "a1", doubtful=2, put=3, equal=4))
    kept = kept.after(wave(("us", "1"), "a2", equal=5))
    assert (kept.waves, kept.put, kept.next, kept.attempt) == (2, 3, ("us", "1"), "a2")
    assert kept.counts["equal"] == 9
    assert kept.doubtful == (("eu", "0"), ("eu", "1"))
    book.keep(ORDERS, kept)
    assert ResnapshotBook(book.url).load(ORDERS) == kept
    assert book.forget(ORDERS)
    assert not book.forget(ORDERS)
    assert book.load(ORDERS) is None


def test_a_process_that_dies_while_it_keeps_its_progress_leaves_the_old_or_the_new(
    book: ResnapshotBook,
) -> None:
    book.keep(ORDERS, BEGUN)
    new = replace(BEGUN, waves=1, next=("eu", "1"))
    with faults(Fault("resnapshot: keep progress", How.DEATH)), pytest.raises(Death):
        book.keep(ORDERS, new)
    assert book.load(ORDERS) == new


def test_keys_to_be_looked_at_are_kept_up_to_a_bound_and_counted_beyond() -> None:
    kept = BEGUN.after(replace(wave(("eu", "7"), doubtful=3), overtaken=(("us", "9"),)))
    assert kept.doubtful[-1] == ("us", "9")
    assert (len(kept.doubtful), kept.unnamed) == (4, 0)
    many = wave(("eu", "8"), doubtful=MOST)
    many.compared.counts[KeyState.DOUBTFUL] = MOST + 5
    kept = kept.after(many)
    assert (len(kept.doubtful), kept.unnamed) == (MOST, 9)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 99}', '{"version": 1, "odd": 2}'])
def test_what_cannot_be_read_only_costs_the_work_that_was_done(tmp_path: Path, text: str) -> None:
    book = ResnapshotBook(str(tmp_path))
    book.keep(ORDERS, BEGUN)
    (file,) = tmp_path.iterdir()
    file.write_text(text)
    assert book.load(ORDERS) is None


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "registry.resnapshots").write_text("no folder")
    book = ResnapshotBook.of_registry(f"{tmp_path}/registry.json")
    with pytest.raises(UnreachableError, match="how far re-snapshots have come"):
        book.keep(ORDERS, BEGUN)


def test_a_report_is_whole_only_if_each_row_is_what_the_source_has() -> None:
    done = BEGUN.after(wave(None, put=3, vanished=1, equal=2))
    assert ResnapshotReport(ORDERS, done).is_whole
    assert ResnapshotReport(ORDERS, done).removed == 1
    left = ResnapshotReport(ORDERS, done, left=2)
    assert not left.is_whole
    assert any("2 keys changed each time" in each for each in left.words())
    unable = ResnapshotReport(ORDERS, done, unable=1)
    assert not unable.is_whole
    assert unable.to_dict()["keys"] == {**dict.fromkeys((s.value for s in KeyState), 0), "put": 3,
                                        "vanished": 1, "equal": 2}  # fmt: skip
