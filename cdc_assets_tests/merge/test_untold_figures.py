"""What a busy Spark server leaves out of its answer: the figures that it has observed."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql.connect.client.core import PlanObservedMetrics
from pyspark.sql.connect.dataframe import DataFrame as ConnectFrame
from pyspark.sql.metrics import ExecutionInfo

from cdc_assets.errors import TransientError
from cdc_assets.merge.fold.summary import require_figures
from cdc_assets.merge.intake import read
from cdc_assets.merge.statements.observed import Observed
from cdc_assets_tests.merge.events import event
from cdc_assets_tests.pipeline import Pipeline


@pytest.mark.stack
@pytest.mark.parametrize("method", ["localCheckpoint", "collect"], ids=["small", "large"])
def test_a_batch_whose_figures_come_too_late_is_read_once_more(
    pipeline: Callable[..., Pipeline], monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """As Spark answers if its listener takes more than 100 ms: by their name, without values."""
    world, late, reads = pipeline(), list[str](), getattr(ConnectFrame, method)

    def too_early(frame: ConnectFrame, *args: Any, **keys: Any) -> Any:
        done = reads(frame, *args, **keys)
        assert frame.executionInfo is not None
        names = [name for name, _ in frame.executionInfo.flows]
        if names and not late:
            late.extend(names)
            untold = [PlanObservedMetrics(name, [], []) for name in names]
            monkeypatch.setattr(frame, "_execution_info", ExecutionInfo(None, untold))
        return done

    world.create_topic("public.t")
    world.produce("public.t", [event("c", {"id": n, "n": 0}, 10 + n) for n in range(3)])
    world.produce("public.t", [event("u", {"id": 1, "n": 1}, 20)])
    monkeypatch.setattr(ConnectFrame, method, too_early)
    if method == "collect":
        monkeypatch.setattr(read, "ONE_TASK", 0)
    (done,) = world.merge("public.t")
    assert late, f"no figures came with {method}: is it still what reads such a batch?"
    assert (done.records, done.inserted, done.updated, done.deleted) == (4, 3, 1, 0)
    assert "read once more, for its figures" in done.steps
    assert [row["n"] for row in world.rows("public.t")] == [0, 1, 0]


@pytest.mark.unit
@pytest.mark.parametrize(
    ("flows", "is_told"),
    [
        ([("{}", {"counted": "[1]"}), ("{}", {})], True),
        ([("{}", {})], False),
        ([("{}", {"counted": None})], False),
        ([("another", {"counted": "[1]"})], False),
        ([], False),
    ],
    ids=["of the plan, and none of the listener", "none", "of other rows", "another's", "nothing"],
)
def test_figures_are_told_by_plan_or_listener(
    flows: list[tuple[str, dict[str, str | None]]], *, is_told: bool
) -> None:
    observed = Observed("batch")
    named = [(name.format(observed.name), got) for name, got in flows]
    frame = cast("Any", SimpleNamespace(executionInfo=SimpleNamespace(flows=named)))
    assert observed.figures(frame) == ([1] if is_told else None)
    if not is_told:
        with pytest.raises(TransientError, match=r"(?s)figures.*topic=shop\.public\.t"):
            require_figures(observed.figures(frame), "topic=shop.public.t")
