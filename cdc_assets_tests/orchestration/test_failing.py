from __future__ import annotations

from pathlib import Path

import pytest

from cdc_assets.errors import ConflictError, LostRangeError, OutcomeUnknownError, UnreachableError
from cdc_assets.orchestration.failing import failure_of
from cdc_assets.reference import explained, page
from cdc_assets_tests.world import entry_of, write_config

pytestmark = pytest.mark.unit


class SparkLike(Exception):
    """Shaped like PySpark's: a condition that is safe, a message that quotes a row."""

    def getCondition(self) -> str:
        return "CAST_INVALID_INPUT"


@pytest.mark.parametrize(
    ("error", "retried"),
    [
        (UnreachableError("x"), True),
        (ConflictError("x"), True),
        (LostRangeError("x"), False),
        (OutcomeUnknownError("x"), False),
        (KeyError("x"), False),
    ],
    ids=lambda each: type(each).__name__,
)
def test_only_transient_errors_are_retried_within_the_run(
    tmp_path: Path, error: Exception, *, retried: bool
) -> None:
    failure = failure_of(entry_of("orders", write_config(tmp_path)), error)
    assert failure.allow_retries is retried


def test_a_failure_says_what_where_and_what_to_do(tmp_path: Path) -> None:
    error = LostRangeError(
        "lost", where="partition=0 offsets=[1,5)", remedy="re-snapshot", page="lost-beginning"
    )
    failure = failure_of(entry_of("orders", write_config(tmp_path)), error)

    shown = {name: value.value for name, value in failure.metadata.items()}
    assert failure.description == f"shop.public.orders: {explained(error)}"
    assert str(error) == "lost [partition=0 offsets=[1,5)] → re-snapshot"
    address = page("reference/errors.md#lost-beginning")
    assert failure.description == f"shop.public.orders: {error}; see {address}"
    assert shown == {
        "table": "shop.public.orders",
        "topic": "shop.public.orders",
        "kind": "terminal",
        "error": "LostRangeError",
        "where": "partition=0 offsets=[1,5)",
        "remedy": "re-snapshot",
    }


def test_an_error_that_is_not_ours_is_named_without_its_message(tmp_path: Path) -> None:
    with pytest.raises(SparkLike) as caught:
        raise SparkLike("cannot cast 'alice@example.org'")

    failure = failure_of(entry_of("orders", write_config(tmp_path)), caught.value)
    assert "unexpected SparkLike (CAST_INVALID_INPUT) at test_failing.py:" in (
        failure.description or ""
    )
    text = f"{failure.description} {failure.metadata}"
    assert "alice" not in text
    assert "CAST_INVALID_INPUT" in text
