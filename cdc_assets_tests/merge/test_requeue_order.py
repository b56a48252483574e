"""What a table is said to lack is in the quarantine that is read after it. Without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from cdc_assets.changes.missing import Missing
from cdc_assets.changes.offsets import Coordinate, OffsetVector
from cdc_assets.merge.attempt import from_quarantine
from cdc_assets.merge.attempt.from_quarantine import FromQuarantine
from cdc_assets.merge.plan.outcome import NothingNew
from cdc_assets.merge.plan.quarantine_replay import QuarantineKey, Requeue
from cdc_assets.merge.plan.request import Quarantined

pytestmark = pytest.mark.unit


def at(offset: int) -> Coordinate:
    return Coordinate("t", 0, offset)


class World:
    """Another writer sets a record aside and publishes, between the first two looks."""

    def __init__(self) -> None:
        self.kept = [1]
        self.missing = [1]
        self.offset = 5
        self.looks = 0

    def looked(self) -> None:
        self.looks += 1
        if self.looks == 1:
            self.kept, self.missing, self.offset = [1, 7], [1, 7], 9

    def replay(self, *_: object) -> Any:
        missing, end = Missing.of(map(at, self.missing)), OffsetVector.of({0: self.offset})
        identity, entry = SimpleNamespace(topic_id="now"), SimpleNamespace(topic="t")
        plan = SimpleNamespace(
            end=end, missing=missing, identity=identity, entry=entry, beginning=OffsetVector()
        )
        self.looked()
        return SimpleNamespace(plan=plan)

    def read(self, *_: object) -> Sequence[QuarantineKey]:
        kept = [QuarantineKey(at(each), "now") for each in self.kept]
        self.looked()
        return kept


def test_a_publish_between_the_plan_and_the_look_into_the_quarantine_loses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, counted = World(), []

    def count(*told: Any) -> None:
        _, _, _, plan, requeue, _ = told
        counted.append((plan, requeue))

    quarantine = SimpleNamespace(kept=world.read)
    monkeypatch.setattr(from_quarantine, "Quarantine", lambda *_: quarantine)
    monkeypatch.setattr(from_quarantine, "publish_count", count)
    connections = SimpleNamespace(lake=None)
    means: Any = SimpleNamespace(
        planner=world, connections=connections, session=lambda: None, catalog="lake",
        clock=lambda: None,
    )  # fmt: skip
    nothing: Any = None
    entry = SimpleNamespace(table=SimpleNamespace(source="s"))
    request: Any = SimpleNamespace(entry=entry, run_id="run")
    tried = FromQuarantine(means, nothing, nothing).tried(
        request, Quarantined([at(99)]), watch=nothing
    )
    assert isinstance(tried, NothingNew)
    ((plan, requeue),) = counted
    assert isinstance(requeue, Requeue)
    assert requeue.missing.places == plan.missing.places, "none of them is forgotten"
