"""When added partitions leave an order by Kafka's offsets as it is."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from cdc_assets.changes.names import LakeName, TableName
from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.changes.position import Scheme
from cdc_assets.changes.slo import SloWindow
from cdc_assets.lake.carried import Carried
from cdc_assets.lake.properties import Published
from cdc_assets.log.values import Watermarks
from cdc_assets.merge.plan.stable_partitions import MovedKeysError, require_unmoved
from cdc_assets.registry import TableEntry

pytestmark = pytest.mark.unit

NOW = datetime(2026, 3, 4, tzinfo=UTC)
ENTRY = TableEntry(TableName("s", "a", "t"), "s.a.t", LakeName("s_a", "t"), NOW)


def published(partitions: int, seen: int = 0) -> Published:
    """Of a table that began with so many; 0 by a version that did not count them."""
    offsets = OffsetVector.of(dict.fromkeys(range(seen or partitions), 5))
    return Published(
        offsets=offsets, start=offsets, topic="s.a.t", topic_id="", cluster_id="", attempt="",
        run="", kind="tail", published_at=NOW, counts={}, slo=SloWindow(),
        carried=Carried(partitions=partitions),
    )  # fmt: skip


def marks(*ends: int) -> Watermarks:
    begin = OffsetVector.of(dict.fromkeys(range(len(ends)), 0))
    return Watermarks(begin, OffsetVector.of(dict(enumerate(ends))))


@pytest.mark.parametrize(
    ("began", "ends"),
    [(1, (9,)), (2, (9, 9)), (1, (9, 0, 0)), (2, (9, 0, 0)), (1, (0, 9)), (2, (0, 0, 0))],
    ids=str,
)
def test_as_long_as_one_partition_is_used_nothing_has_moved(
    began: int, ends: tuple[int, ...]
) -> None:
    require_unmoved(ENTRY, Scheme.OFFSET, published(began), marks(*ends))


@pytest.mark.parametrize(
    ("began", "ends"), [(1, (9, 1)), (2, (9, 9, 0)), (2, (9, 0, 1)), (3, (9, 9))], ids=str
)
def test_more_of_them_stop_a_table_that_offsets_order(began: int, ends: tuple[int, ...]) -> None:
    with pytest.raises(MovedKeysError, match=f"had {began} .*has {len(ends)}") as stopped:
        require_unmoved(ENTRY, Scheme.OFFSET, published(began), marks(*ends))
    assert "topic=s.a.t" in stopped.value.where
    assert "--from-snapshot" in stopped.value.remedy


def test_what_an_older_version_did_not_count_is_told_by_its_offsets() -> None:
    require_unmoved(ENTRY, Scheme.OFFSET, published(0, seen=2), marks(9, 9))
    with pytest.raises(MovedKeysError):
        require_unmoved(ENTRY, Scheme.OFFSET, published(0, seen=2), marks(9, 9, 9))


@pytest.mark.parametrize("scheme", [each for each in Scheme if each is not Scheme.OFFSET])
def test_positions_of_the_source_order_keys_that_move(scheme: Scheme) -> None:
    require_unmoved(ENTRY, scheme, published(1), marks(9, 9))
