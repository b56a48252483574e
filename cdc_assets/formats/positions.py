"""Positions as Spark expressions: the same rules as `cdc_assets.changes.position`.

The first number is NULL where a record's position is missing or malformed; a record without a
value has none. Nothing here raises on any text.

Only what stays the same from one batch to the next is written into an expression as a number,
so that Spark finds its compiled code again. Read floors and epochs are one literal each, which
compiled code is given by reference.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, assert_never

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField

from cdc_assets.changes.position import LAST, Floors, Scheme, epoch_bits
from cdc_assets.formats.flat import Steps, after, stepped

NUMBERS: Final = tuple(f"n{i}" for i in range(max(scheme.numbers for scheme in Scheme)))
"""Columns of a position, most significant first; a scheme has the first few of them."""

Epochs = Steps
"""By partition the offsets where an epoch begins, rising, and the epoch."""

_FIELDS: Final = {
    Scheme.POSTGRES: {"lsn": LongType, "sequence": StringType},
    Scheme.BINLOG: {
        "server_id": LongType,
        "gtid": StringType,
        "file": StringType,
        "pos": LongType,
        "row": LongType,
    },
    Scheme.SQLSERVER: {
        "commit_lsn": StringType,
        "change_lsn": StringType,
        "event_serial_no": LongType,
    },
    Scheme.ORACLE: {
        "commit_scn": StringType,
        "scn": StringType,
        "txSeq": LongType,
        "ssn": LongType,
    },
    Scheme.MONGODB: {"ord": LongType},
    Scheme.YUGABYTE: {"commit_time": LongType, "lsn": StringType},
    Scheme.OFFSET: {},
}


def source_fields(scheme: Scheme) -> tuple[StructField, ...]:
    """What to parse of ``source``, beside ``ts_ms``, ``ts_us``, ``snapshot``, ``connector``."""
    return tuple(StructField(name, kind()) for name, kind in _FIELDS[scheme].items())


def numbers(  # noqa: PLR0913 - what a position is made of, each by its name
    scheme: Scheme,
    source: Expression,
    *,
    is_read: Expression,
    offset: Expression,
    partition: Expression,
    floors: Floors,
    epochs: Epochs | None = None,
    firsts: Mapping[int, int] | None = None,
) -> list[Expression]:
    """The numbers of the position, as many as ``scheme.numbers``.

    Args:
        scheme: of the table.
        source: struct with the `source_fields` of the scheme and ``ts_ms``.
        is_read: whether the change is a row of a snapshot.
        offset: in Kafka; the last number.
        partition: of Kafka; what ``epochs`` are found by.
        floors: see `cdc_assets.changes.position.floor_at`.
        epochs: see `cdc_assets.changes.restarts` and, for binlogs, `cdc_assets.changes.numbering`;
            epoch 0 where there are none.
        firsts: by partition an offset that no record lies below: what began before is one step.
    """
    epoch = _epoch(partition, offset, epochs or {}, firsts or {})
    match scheme:
        case Scheme.POSTGRES:
            floor = _floor(partition, offset, floors, firsts or {})
            found = _postgres(source, is_read, floor, epoch)
        case Scheme.BINLOG:
            found = _binlog(source, epoch)
        case Scheme.SQLSERVER:
            found = _sqlserver(source, epoch)
        case Scheme.ORACLE:
            found = _oracle(source, is_read, epoch)
        case Scheme.MONGODB:
            found = _mongodb(source)
        case Scheme.YUGABYTE:
            found = _yugabyte(source, is_read)
        case Scheme.OFFSET:
            found = []
        case _:
            assert_never(scheme)
    return [*found, offset]


def position_bytes(numbers: tuple[str, ...]) -> Expression:
    """The same bytes as `cdc_assets.changes.position.encode`, of columns of these names."""
    return F.unhex(F.concat(*(F.lpad(F.hex(F.col(number)), 16, "0") for number in numbers)))


def floor_columns(
    scheme: Scheme,
    source: Expression,
    *,
    is_read: Expression,
    offset: Expression,
    partition: Expression,
    epochs: Epochs | None = None,
) -> tuple[Expression, Expression]:
    """What the read floor is found by: ``read_lsn`` and ``floating_lsn``; NULL but in Postgres.

    The LSN, with its epoch, of a snapshot row, and of a change without a last commit. A row of an
    incremental snapshot has no ``lsn``: it says nothing about changes from before the connector
    streamed.
    """
    if scheme is not Scheme.POSTGRES:
        none = F.lit(None).cast("bigint")
        return none, none
    epoch = _epoch(partition, offset, epochs or {}, {})
    lsn = _in_epoch(scheme, epoch, source.getField("lsn"))
    no_commit = _last_commit(source).isNull()
    return F.when(is_read, lsn), F.when(~is_read & no_commit, lsn)


def may_witness(scheme: Scheme, source: Expression, *, is_read: Expression) -> Expression:
    """Whether a record comes in the order of commits: see `cdc_assets.changes.restarts`."""
    in_order = F.coalesce(source.getField("snapshot") != "incremental", F.lit(True))
    if scheme is not Scheme.POSTGRES:
        return in_order
    return in_order & (is_read | _last_commit(source).isNotNull())


def floats(scheme: Scheme, source: Expression, *, is_read: Expression) -> Expression:
    """Whether a record is of a connector's first transaction: see `cdc_assets.changes.restarts`.

    Not of a connector that never tells a last commit: each of its changes would be.
    """
    if scheme is not Scheme.POSTGRES:
        return F.lit(False)
    return ~is_read & _last_commit(source).isNull() & source.getField("sequence").isNotNull()


def binlog_columns(source: Expression) -> list[Expression]:
    """What `cdc_assets.changes.numbering.BinlogRecord` is made of.

    ``partition offset base file_no pos row gtid server_id ts_ms is_snapshot``, the first two
    from the columns of these names. ``file_no`` is NULL where there is no position.
    """
    file, snapshot = source.getField("file"), source.getField("snapshot")
    return [
        F.col("partition"),
        F.col("offset"),
        F.regexp_extract(file, _BINLOG_FILE, 1).alias("base"),
        _file_number(source).alias("file_no"),
        source.getField("pos").alias("pos"),
        _row(source).alias("row"),
        source.getField("gtid").alias("gtid"),
        F.coalesce(source.getField("server_id"), F.lit(0)).alias("server_id"),
        F.coalesce(source.getField("ts_ms"), F.lit(0)).alias("ts_ms"),
        (F.coalesce(snapshot, F.lit("false")) != "false").alias("is_snapshot"),
    ]


# ── one rule per scheme ───────────────────────────────────────────────────────────────────


def _in_epoch(scheme: Scheme, epoch: Expression, number: Expression) -> Expression:
    """A first number with its epoch; NULL if it reaches into the bits of the epoch."""
    bits = epoch_bits(scheme)
    return F.when((number >= 0) & (number < 2**bits), F.shiftleft(epoch, bits) + number)


def _postgres(
    source: Expression, is_read: Expression, floor: Expression, epoch: Expression
) -> list[Expression]:
    sequence = source.getField("sequence")
    second = F.regexp_extract(sequence, '"([0-9]+)"\\]$', 1).try_cast("bigint")
    lsn = F.coalesce(source.getField("lsn"), second)
    commit, none = _last_commit(source), F.lit(0).cast("bigint")
    floats = ~is_read & commit.isNull()
    follows = F.when(is_read, lsn).otherwise(F.coalesce(commit, lsn))
    first = _in_epoch(Scheme.POSTGRES, epoch, follows)
    first = F.when(floats & (first < floor), floor).otherwise(first)
    return [F.when(lsn >= 0, first), F.when(is_read, none).otherwise(lsn)]


def _floor(
    partition: Expression, offset: Expression, floors: Floors, firsts: Mapping[int, int]
) -> Expression:
    """The same rule as `cdc_assets.changes.position.floor_at`."""
    lowest = min((lsn for begins in floors.values() for _, lsn in begins), default=0)
    begun = {p: [(begin + 1, lsn) for begin, lsn in begins] for p, begins in floors.items()}
    found = stepped(partition, offset, after(begun, firsts))
    return F.coalesce(found, F.lit(lowest).cast("bigint"))


def _last_commit(source: Expression) -> Expression:
    sequence = source.getField("sequence")
    first = F.substring_index(F.substring(sequence, 3, 40), '"', 1)
    return F.when(sequence.startswith('["'), first).try_cast("bigint")


_BINLOG_FILE: Final = r"(?s)^(.+)\.([0-9]{1,10})\z"


def _binlog(source: Expression, epoch: Expression) -> list[Expression]:
    file, pos, row = _file_number(source), source.getField("pos"), _row(source)
    placed = (pos > 0) & (row >= 0)
    return [F.when(placed, _in_epoch(Scheme.BINLOG, epoch, file)), pos, row]


def _file_number(source: Expression) -> Expression:
    number = F.regexp_extract(source.getField("file"), _BINLOG_FILE, 2).try_cast("bigint")
    return F.when(number < 2**32, number)


def _row(source: Expression) -> Expression:
    return F.coalesce(source.getField("row"), F.lit(0).cast("bigint"))


def _epoch(
    partition: Expression, offset: Expression, epochs: Epochs, firsts: Mapping[int, int]
) -> Expression:
    none = F.lit(0).cast("bigint")
    found = stepped(partition, offset, after(epochs, firsts)) if epochs else none
    return F.coalesce(found, none)


_SQLSERVER_LSN: Final = r"^[0-9a-fA-F]{8}:[0-9a-fA-F]{8}:[0-9a-fA-F]{4}\z"


def _sqlserver(source: Expression, epoch: Expression) -> list[Expression]:
    commit, change = source.getField("commit_lsn"), source.getField("change_lsn")
    serial = F.coalesce(source.getField("event_serial_no"), F.lit(0).cast("bigint"))
    whole, last = change.isNull(), F.lit(LAST)
    log_file, rest = _lsn(commit)
    change_file, change_rest = _lsn(change)
    return [
        F.when(
            whole | (change.rlike(_SQLSERVER_LSN) & (serial >= 0)),
            _in_epoch(Scheme.SQLSERVER, epoch, log_file),
        ),
        rest,
        F.when(whole, last).otherwise(change_file),
        F.when(whole, last).otherwise(change_rest),
        F.when(whole, last).otherwise(serial),
    ]


def _lsn(text: Expression) -> tuple[Expression, Expression]:
    def number(hexadecimal: Expression) -> Expression:
        decimal = F.conv(hexadecimal, 16, 10).try_cast("bigint")
        return F.when(text.rlike(_SQLSERVER_LSN), decimal)

    rest = F.concat(F.substring(text, 10, 8), F.substring(text, 19, 4))
    return number(F.substring(text, 1, 8)), number(rest)


def _oracle(source: Expression, is_read: Expression, epoch: Expression) -> list[Expression]:
    commit, scn = _decimal(source.getField("commit_scn")), _decimal(source.getField("scn"))
    order = F.coalesce(source.getField("txSeq"), source.getField("ssn"), F.lit(0).cast("bigint"))
    whole = is_read & (source.getField("commit_scn").isNull() | (commit < scn))
    first = _in_epoch(Scheme.ORACLE, epoch, F.when(whole, scn).otherwise(commit))
    return [
        F.when(scn.isNotNull() & (whole | (order >= 0)), first),
        scn,
        F.when(whole, F.lit(LAST)).otherwise(order),
    ]


def _decimal(text: Expression) -> Expression:
    return F.when(text.rlike(r"^[0-9]{1,19}\z"), text.try_cast("bigint"))


def _mongodb(source: Expression) -> list[Expression]:
    """Times that are not whole seconds are not the cluster's."""
    ts_ms, ordinal = source.getField("ts_ms"), source.getField("ord")
    is_cluster_time = (ts_ms > 0) & (ts_ms % 1000 == 0) & (ordinal >= 0)
    return [F.when(is_cluster_time, F.floor(ts_ms / 1000)), ordinal]


_YUGABYTE_OP: Final = r"(?s)^([0-9]{1,18}):([0-9]{1,18}):[^:]*:([0-9]{1,18})(?::[^:]*)?\z"


def _yugabyte(source: Expression, is_read: Expression) -> list[Expression]:
    time, op = source.getField("commit_time"), source.getField("lsn")

    def part(group: int) -> Expression:
        number = F.regexp_extract(op, _YUGABYTE_OP, group).try_cast("bigint")
        return F.when(is_read, F.lit(LAST)).otherwise(number)

    is_placed = (time >= 0) & (is_read | op.rlike(_YUGABYTE_OP))
    return [F.when(is_placed, time), part(1), part(2), part(3)]
