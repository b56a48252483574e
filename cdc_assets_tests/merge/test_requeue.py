"""Which records in quarantine a replay may merge."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cdc_assets.changes.missing import Missing
from cdc_assets.changes.offsets import Coordinate, OffsetVector
from cdc_assets.merge.plan.quarantine_replay import QuarantineKey, Requeue, count_kept

pytestmark = pytest.mark.unit


def plan(missing: Missing | None, begins: int = 0, **offsets: int) -> Any:
    """Of a table of topic ``t`` with the id ``now``."""
    end = OffsetVector.of({int(name[1:]): offset for name, offset in offsets.items()})
    identity, entry = SimpleNamespace(topic_id="now"), SimpleNamespace(topic="t")
    beginning = OffsetVector.of({0: begins})
    return SimpleNamespace(
        end=end, missing=missing, identity=identity, entry=entry, beginning=beginning
    )


def at(offset: int, topic: str = "t", partition: int = 0) -> Coordinate:
    return Coordinate(topic, partition, offset)


KEPT = (
    QuarantineKey(at(1), "now"),
    QuarantineKey(at(2), ""),
    QuarantineKey(at(2), "former"),
    QuarantineKey(at(3), "now"),
    QuarantineKey(at(7), "now"),
    QuarantineKey(at(9, partition=1), "now"),
    QuarantineKey(at(1, "other"), "now"),
)


def test_only_what_a_publish_has_refused_is_merged() -> None:
    table = plan(Missing.of([at(1), at(2), at(6)]), p0=7)
    found = Requeue.of(KEPT, None, table)
    assert found.taken == (at(1), at(2))
    assert found.merged == (at(3),), "its log has brought it, or a replay that was killed"
    assert found.unread == (at(7), at(9, partition=1))
    assert found.foreign == (at(1, "other"), at(2))
    assert found.missing == Missing.of([at(1), at(2)]), "what was deleted there is forgotten"
    assert found.kept_count == count_kept(KEPT, table, table.missing) == 4


def test_where_nobody_has_told_what_is_missing_all_below_the_offsets_counts() -> None:
    found = Requeue.of(KEPT, None, plan(None, p0=7))
    assert found.taken == (at(1), at(2), at(3))
    assert found.merged == ()
    assert found.unread == (at(7), at(9, partition=1))


@pytest.mark.parametrize("missing", [None, Missing.of([at(1), at(2), at(3)])], ids=["unknown", ""])
def test_nothing_from_before_the_tables_beginning_is_merged_or_counted(
    missing: Missing | None,
) -> None:
    """Another table of its name has left it, or the rows that the table began with have it."""
    table = plan(missing, begins=3, p0=7)
    found = Requeue.of(KEPT, None, table)
    assert found.taken == (at(3),)
    assert found.before == (at(1), at(2))
    assert found.missing == Missing.of([at(3)]), "what an earlier version has said is mended"
    assert found.kept_count == count_kept(KEPT, table, missing) == 3
    assert found.is_any
    only = Requeue.of(KEPT, [at(1)], table)
    assert (only.taken, only.before) == ((), (at(1),))
    assert only.is_any


def test_what_is_not_wanted_stays_and_is_missing_still() -> None:
    found = Requeue.of(KEPT, [at(1), at(7), at(8)], plan(None, p0=7))
    assert (found.taken, found.unread, found.foreign) == ((at(1),), (at(7),), ())
    assert found.missing == Missing.of([at(1), at(2), at(3)])
    assert found.is_any
    assert not Requeue.of(KEPT, [at(8)], plan(None, p0=7)).is_any
