"""Gives the positions of MongoDB's changes."""

from __future__ import annotations


def mongodb_position(*, seconds: int, ordinal: int, offset: int) -> tuple[int, int, int]:
    """Returns a MongoDB change's position: ``(seconds, ordinal, offset)`` of its cluster time.

    Changes of one transaction share a cluster time; they count in Kafka order.
    https://www.mongodb.com/docs/manual/reference/bson-types/#timestamps

    Args:
        seconds: ``source.ts_ms`` in whole seconds, where it holds the cluster time; see
            `cdc_assets.changes.position.scheme_of`.
        ordinal: ``source.ord``.
        offset: in Kafka.
    """
    return (seconds, ordinal, offset)
