"""Encodes the source's position of a change as numbers whose order is source order.

A position is a tuple of non-negative 63-bit numbers, compared from left to right; as bytes,
each number is 8 bytes big-endian, so that byte order is the same order. The last number is
always the Kafka offset: equal positions fall back to Kafka order (docs/architecture/formats.md).

===========  =================================================================================
scheme       numbers before the offset
===========  =================================================================================
`postgres`   epoch and last commit LSN, LSN
`binlog`     epoch and file number, position in the file, row of the event (MySQL)
`mariadb`    epoch and file number, position in the file
`sqlserver`  epoch and commit LSN (two numbers), change LSN (two numbers), serial number
`oracle`     epoch and commit SCN, SCN, place in the transaction
`yugabyte`   commit time, term, index, write id
`tidb`       commit timestamp
`trail`      epoch and sequence number of the trail file, byte in it
`offset`     none
===========  =================================================================================

A row of a snapshot has a position too: it is newer than everything that the snapshot contains and
older than everything that it does not. Where the source only gives the last commit that it
contains, the numbers below the commit are `LAST`, so that it wins over all changes of that commit.

The *epoch* rises where a source's numbering starts again lower (`cdc_assets.changes.restarts`,
for binlogs `cdc_assets.changes.numbering`). Until then it is 0 and does not show.
"""

from cdc_assets.changes.position.low_watermarks import (
    LowWatermarks,
    low_watermark_at,
    with_snapshot,
    with_snapshots,
)
from cdc_assets.changes.position.scheme import (
    LAST,
    NUMBER_DIGITS,
    Scheme,
    decode,
    encode,
    epoch_bits,
    scheme_of,
    without_offset,
)

__all__ = [
    "LAST",
    "NUMBER_DIGITS",
    "LowWatermarks",
    "Scheme",
    "decode",
    "encode",
    "epoch_bits",
    "low_watermark_at",
    "scheme_of",
    "with_snapshot",
    "with_snapshots",
    "without_offset",
]
