"""Checks that Kafka's offsets alone can order changes: each key must stay in its partition.

Where a source gives no positions (`Scheme.OFFSET`), offsets of different partitions cannot be
compared. Producers choose a key's partition by the number of partitions, so added ones move keys:
newer changes of a row may then have lower offsets than older ones, in another partition, and
nothing in the records shows which are newer. Kafka does not record when partitions were added
either, nor when a producer noticed (``metadata.max.age.ms``, five minutes by default).
"""

from __future__ import annotations

from typing import Final

from cdc_assets.changes.position import Scheme
from cdc_assets.errors import TerminalError
from cdc_assets.lake.properties import Published
from cdc_assets.log.values import Watermarks
from cdc_assets.registry import TableEntry

REMEDY: Final = (
    "let the producer choose partitions by the row's key, restart it so that it knows all of them, "
    "and build the table from a new snapshot: cdc-assets rebuild TABLE --from-snapshot"
)


class MovedKeysError(TerminalError):
    """Changes are ordered by offsets that cannot be compared; names the place."""

    page = "added-partitions"


def begun_with(published: Published) -> int:
    """Returns how many partitions a table's topic had when the table was begun."""
    return published.carried.partitions or len(published.offsets.offsets)


def require_unmoved(
    entry: TableEntry, scheme: Scheme, published: Published, marks: Watermarks
) -> None:
    """Checks that a table ordered by offsets alone has as many partitions as it began with.

    Partitions may be added as long as only one of all has ever held a record: then no key has
    moved, and nothing is merged once a second one holds records.

    Raises:
        MovedKeysError: names both numbers, and the partitions that hold records.
    """
    before = begun_with(published)
    now = len(marks.end.offsets)
    used = [partition for partition, end in marks.end if end > 0]
    if scheme is not Scheme.OFFSET or before == now or len(used) <= 1:
        return
    what = (
        f"the topic had {before} partition(s) when this table was begun and has {now}: keys have "
        "moved between them, and its changes are ordered by Kafka's offsets alone"
    )
    ends = " ".join(f"{partition}:{end}" for partition, end in marks.end if end > 0)
    where = f"table={entry.table} topic={entry.topic} ends={ends}"
    raise MovedKeysError(what, where=where, remedy=REMEDY)
