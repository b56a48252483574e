"""Gives the positions of YugabyteDB's changes."""

from __future__ import annotations

import re
from typing import Final

from cdc_assets.changes.position.encoding import LAST

YugabyteOp = tuple[int, int, int]
"""A tablet's Raft operation and a write in it: term, index, write id."""


def yugabyte_op(text: str) -> YugabyteOp | None:
    """Parses an operation in ``source.lsn``, ``term:index:key:write_id:time``; None if not one.

    The key and the time only say where a snapshot of the tablet continues.
    https://github.com/yugabyte/debezium-connector-yugabytedb (``OpId``)
    """
    found = _YUGABYTE_OP.match(text)
    return (int(found[1]), int(found[2]), int(found[3])) if found else None


_YUGABYTE_OP: Final = re.compile(
    r"^([0-9]{1,18}):([0-9]{1,18}):[^:]*:([0-9]{1,18})(?::[^:]*)?\Z", re.DOTALL
)


def yugabyte_position(
    *, commit_time: int, op: YugabyteOp | None, offset: int
) -> tuple[int, int, int, int, int]:
    """Returns a YugabyteDB change's position: ``(commit time, term, index, write id, offset)``.

    The commit time is the hybrid time by which the database itself orders the versions of a
    row, over all tablets and also after a tablet was split. Within a transaction, and so
    within its tablet, the operation orders the writes. A snapshot's row contains everything
    committed up to the time at which it was read, which is its commit time.

    Args:
        commit_time: ``source.commit_time``: microseconds since 1970 shifted left by 12 bits,
            and a logical counter in these. It needs more than 63 bits from the year 2041 on.
        op: of ``source.lsn``; None for a row of a snapshot.
        offset: in Kafka.
    """
    if op is None:
        return (commit_time, LAST, LAST, LAST, offset)
    return (commit_time, *op, offset)
