"""Gives the positions of TiDB's changes."""

from __future__ import annotations


def tidb_position(*, commit_ts: int, offset: int) -> tuple[int, int]:
    """Returns the position of a TiDB change: ``(commit timestamp, offset)``.

    The timestamp oracle gives each transaction one, in the order of commits over the whole cluster.
    A transaction leaves one change of each key.
    https://docs.pingcap.com/tidb/stable/tso

    Args:
        commit_ts: ``_tidb.commitTs``: milliseconds since 1970 shifted left by 18 bits, and a
            counter in these.
        offset: in Kafka.
    """
    return (commit_ts, offset)
