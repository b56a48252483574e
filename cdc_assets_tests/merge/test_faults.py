"""Every effect of a batch fails in every way, and the next try makes it good.

A table is kept under changes of several kinds. For each point that a batch passes, and each way
in which it can fail, a batch meets that fault; then the table is merged again, as the same
process would (after an error) or a new one (after a death), and must equal its source. Each
point of Spark and of the lake fails once, in one of the ways in turn, in the kind of batch that
does least beside it, and the publish in all of them; `make soak` does each way for every kind of
batch, and at Kafka's points too.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cdc_assets.merge.intake import read
from cdc_assets_tests.faults import Fault, How
from cdc_assets_tests.merge.changing_table import KINDS, LAID_OUT, deletes, started, upserts
from cdc_assets_tests.merge.one_table import TABLE, Make
from cdc_assets_tests.toy import profiles

pytestmark = pytest.mark.stack

PUBLISHES = {"spark: publish rows", "spark: fast-forward main"}
STEPS = (
    "CreateNamespace", "CreateTable", "SetIdentifier", "CreateSide", "LayOut", "publish rows",
)  # fmt: skip


def wanted(points: dict[str, frozenset[str]], *, every_kind: bool) -> Iterator[tuple[int, Fault]]:
    """Each point in one way with a kind of batch that passes it; or in all with all that do."""
    kinds, ways = [kind.__name__ for kind in KINDS], list(How)
    for turn, point in enumerate(sorted(frozenset().union(*points.values()))):
        passing = [n for n, name in enumerate(kinds) if point in points[name]]
        if every_kind:
            yield from ((kind, Fault(point, how)) for how in ways for kind in passing)
        else:
            least = min(passing, key=lambda n: len(points[kinds[n]]))
            if not point.startswith("kafka: "):
                tried = ways if point in PUBLISHES else [ways[turn % len(ways)]]
                yield from ((least, Fault(point, how)) for how in tried)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("layout", [None, LAID_OUT] if profiles.is_soak() else [None], ids=bool)
def test_each_effect_of_a_batch_may_fail_in_each_way(
    pipeline: Make, layout: dict[str, list[str]] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where rows move between partitions, and are looked for there first."""
    if layout is not None:
        monkeypatch.setattr(read, "ONE_TASK", 0)
    world = started(pipeline, layout)
    world.pipeline.produce(TABLE, upserts(world.source))
    world.settle()
    points = {}
    for kind in KINDS:
        world.pipeline.produce(TABLE, kind(world.source))
        points[kind.__name__] = world.merge()
        world.check(kind.__name__)
    for kind, fault in wanted(points, every_kind=profiles.is_soak()):
        world.pipeline.produce(TABLE, KINDS[kind](world.source))
        world.merge(fault)
        world.settle()
        world.check(f"{KINDS[kind].__name__}: {fault}")


@pytest.mark.parametrize(
    "how", How if profiles.is_soak() else [How.DEATH], ids=lambda how: how.name.lower()
)
def test_a_table_that_was_made_in_part_is_completed(pipeline: Make, how: How) -> None:
    for step in STEPS if profiles.is_soak() else ["CreateTable"]:
        world = started(pipeline, LAID_OUT if step == "LayOut" else None)
        world.pipeline.produce(TABLE, upserts(world.source))
        world.merge(Fault(f"spark: {step}", how))
        world.settle()
        world.pipeline.produce(TABLE, deletes(world.source))
        world.settle()
        world.check(f"{step} {how}")
        state = world.pipeline.lake.state(world.pipeline.entry(TABLE).target)
        assert state is not None
        assert state.key == ("id",)
