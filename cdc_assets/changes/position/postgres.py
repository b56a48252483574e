"""Gives the positions of PostgreSQL's changes."""

from __future__ import annotations

from cdc_assets.changes.position.scheme import Scheme, in_epoch


def postgres_position(
    *,
    sequence_commit: int | None,
    lsn: int,
    offset: int,
    is_read: bool,
    read_floor: int,
    epoch: int = 0,
) -> tuple[int, int, int]:
    """Returns the position of a PostgreSQL change: ``(last commit LSN, LSN, offset)``.

    For one key, LSN order is commit order, since row locks serialise its writers. Across
    transactions it is not, since they interleave. The pair of ``source.sequence`` follows the order
    of emission, which is commit order. Three cases need more than the pair:

    - A row of a complete snapshot (``read``) has no last commit. It was read at its LSN, and
      every transaction that it does not contain commits after that: it counts as committed there,
      before any change that follows that commit.
    - A row of an incremental snapshot is sent amid changes and has the ``sequence`` of the
      change that it is sent before, which it may not contain: with ``read.only`` a change of its
      own key closes the window. All changes that follow that last commit may be newer than the row,
      and earlier ones are in it. So it counts as committed there.
      https://debezium.io/documentation/reference/3.6/connectors/postgresql.html#postgresql-read-only-incremental-snapshots
    - The first transaction after a connector's start has no last commit either. Its changes
      may have an LSN *below* that of a snapshot row (it ran while the slot was made), but are
      newer. They follow the *read floor*: the LSN of the latest complete snapshot that began
      before them in their partition. A later one would lift redeliveries and replays above newer
      rows; see `cdc_assets.changes.position.floor_at`.

    Args:
        sequence_commit: first element of ``source.sequence``; None where it is null or absent,
            and of rows of complete snapshots.
        lsn: ``source.lsn``; rows of an incremental snapshot have it only as the second
            element of ``source.sequence``.
        offset: in Kafka.
        is_read: whether the change is a row of a snapshot.
        read_floor: of the change's place in the log, with its epoch; see
            `cdc_assets.changes.position.floor_at`.
        epoch: of the change's place in the log.

    Raises:
        ValueError: if an LSN reaches into the bits of the epoch.
    """
    follows = lsn if sequence_commit is None else sequence_commit
    first = in_epoch(Scheme.POSTGRES, epoch, follows)
    if is_read:
        return (first, 0, offset)
    return (max(first, read_floor) if sequence_commit is None else first, lsn, offset)
