"""Gives the positions of Oracle's changes."""

from __future__ import annotations

from cdc_assets.changes.position.encoding import LAST
from cdc_assets.changes.position.scheme import Scheme, in_epoch


def oracle_position(
    *, commit_scn: int | None, scn: int, order: int, offset: int, is_read: bool, epoch: int = 0
) -> tuple[int, int, int, int]:
    """Returns the position of an Oracle change: ``(commit SCN, SCN, order, offset)``.

    A snapshot reads ``AS OF SCN`` S, which contains everything committed up to S, and its rows have
    S as ``source.scn``. They have no commit SCN, or an older one of a change streamed before.
    https://debezium.io/documentation/reference/stable/connectors/oracle.html

    Args:
        commit_scn: ``source.commit_scn``; None if absent, which only a snapshot's row may be.
        scn: ``source.scn``, of the change.
        order: ``source.txSeq``, the change's place in its transaction; of connectors that do
            not write it ``source.ssn``, the sequence number within a redo record; else 0.
            ``source.rs_id``, a redo address, adds nothing to the first.
        offset: in Kafka.
        is_read: whether the change is a row of a snapshot.
        epoch: of the change's place in the log.

    Raises:
        ValueError: if a streamed change has no commit SCN, or one that reaches into the bits of
            the epoch.
    """
    if is_read and (commit_scn is None or commit_scn < scn):
        return (in_epoch(Scheme.ORACLE, epoch, scn), scn, LAST, offset)
    if commit_scn is None:
        msg = "a streamed change without a commit SCN has no position"
        raise ValueError(msg)
    return (in_epoch(Scheme.ORACLE, epoch, commit_scn), scn, order, offset)
