"""What is kept for the time of a block, and no longer."""

from __future__ import annotations

import gc

import pytest
from pyspark.errors import PySparkException

from cdc_assets.merge.statements.pinning import pinned, unpinned_after
from cdc_assets_tests.pipeline import Session

pytestmark = pytest.mark.stack


def test_rows_are_computed_once_and_released_after_the_block(spark: Session) -> None:
    frame = spark().range(3).selectExpr("id", "uuid() AS made")
    kept = pinned(frame)
    with unpinned_after(kept):
        first = kept.where("id >= 0").collect()
        assert kept.where("id < 3").collect() == first, "none is computed again"
        assert frame.collect() != first
    with pytest.raises(PySparkException):
        kept.count()


def test_a_block_that_fails_releases_them_and_fails_with_its_own_error(spark: Session) -> None:
    kept = pinned(spark().range(3))
    with pytest.raises(ZeroDivisionError), unpinned_after(kept):
        raise ZeroDivisionError
    with pytest.raises(PySparkException):
        kept.count()


def test_nothing_is_asked_of_the_server_when_python_collects_the_frame(
    spark: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request by a finalizer would come amid another one of the same thread."""
    kept = pinned(spark().range(3))
    with unpinned_after(kept):
        pass
    asked = list[object]()
    monkeypatch.setattr(spark().client, "_execute_plan_request_with_metadata", asked.append)
    del kept
    gc.collect()
    assert asked == []
