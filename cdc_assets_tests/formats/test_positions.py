"""Positions made by Spark are the bytes of `cdc_assets.changes.position`, malformed ones none."""

from __future__ import annotations

import itertools
import json
import random
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from cdc_assets.changes.position import Scheme, encode, low_watermark_at
from cdc_assets.changes.position.scheme import binlog_file, sqlserver_lsn, trail_place, yugabyte_op
from cdc_assets.decode import SETTINGS
from cdc_assets.formats.order import NUMBERS, OrderState, Placed, order_of
from cdc_assets.formats.order.binlog import records_of
from cdc_assets_tests.model.positions import (
    epoch_at,
    mariadb_position,
    mysql_position,
    oracle_position,
    postgres_position,
    sqlserver_position,
    tidb_position,
    trail_position,
    yugabyte_position,
)
from cdc_assets_tests.pipeline import Session

pytestmark = pytest.mark.spark

WATERMARKS = {0: [(30, 5000), (60, 9000)], 1: [(-1, 5000)]}
EPOCHS = {0: [(0, 1), (40, 2)], 2: [(25, 7)]}
Source = dict[str, Any]
Expected = tuple[int, ...] | None
JUNK = ["", " ", "x", "NULL", "é\n", "-1", "1e9", "0x1F", "9" * 40, ":::", "1:2", ".1", "٣"]
LONGS = [None, -1, 0, 1, 7, 2**31, 2**63 - 1]


def places(source: Source, offset: int) -> Source:
    return source | {"__offset": offset, "__partition": offset % 3}


def combined(rng: random.Random, fields: Mapping[str, Iterable[Any]], most: int) -> list[Source]:
    """All combinations of some values of the fields, or a random part of them."""
    found = [
        dict(zip(fields, values, strict=True)) for values in itertools.product(*fields.values())
    ]
    rng.shuffle(found)
    return [places(source, offset) for offset, source in enumerate(found[:most])]


# ── the rules of `position`, from raw sources ─────────────────────────────────────────────


def is_read(source: Source) -> bool:
    return source.get("snapshot") not in (None, "false")


def epoch_of(offset: int) -> int:
    return epoch_at(EPOCHS.get(offset % 3, []), offset)


def placed(rule: Callable[..., tuple[int, ...]], **said: Any) -> Expected:
    """The rule's position; None where a number reaches into the bits of the epoch."""
    try:
        return rule(**said)
    except ValueError:
        return None


def of_postgres(source: Source, offset: int) -> Expected:
    commit, second = json.loads(source["sequence"] or "[null,null]")
    lsn = source["lsn"] if source["lsn"] is not None else second
    if lsn is None or int(lsn) < 0:
        return None
    if is_read(source) and source["snapshot"] != "incremental":
        commit = None
    if commit is not None and int(commit) < 0:
        return None
    return placed(
        postgres_position,
        sequence_commit=None if commit is None else int(commit),
        lsn=int(lsn),
        offset=offset,
        is_read=is_read(source),
        low_watermark=low_watermark_at(WATERMARKS, offset % 3, offset),
        epoch=epoch_of(offset),
    )


def of_binlog(source: Source, offset: int) -> Expected:
    file, pos = binlog_file(source["file"] or ""), source["pos"]
    if file is None or not pos or pos < 0:
        return None
    epoch = epoch_of(offset)
    row = source["row"] or 0
    return mysql_position(epoch=epoch, file_number=file.number, pos=pos, row=row, offset=offset)


def of_mariadb(source: Source, offset: int) -> Expected:
    file, pos = binlog_file(source["file"] or ""), source["pos"]
    if file is None or not pos or pos < 0:
        return None
    return mariadb_position(epoch=epoch_of(offset), file_number=file.number, pos=pos, offset=offset)


def of_sqlserver(source: Source, offset: int) -> Expected:
    commit, change = (sqlserver_lsn(source[name] or "") for name in ("commit_lsn", "change_lsn"))
    if commit is None or (change is None and source["change_lsn"] is not None):
        return None
    serial = source["event_serial_no"] or 0
    return sqlserver_position(
        commit_lsn=commit,
        change_lsn=change,
        serial=serial,
        offset=offset,
        epoch=epoch_of(offset),
    )


def of_oracle(source: Source, offset: int) -> Expected:
    texts = [source[name] for name in ("scn", "commit_scn") if source[name] is not None]
    if not all(re.fullmatch("[0-9]+", text) and int(text) < 2**63 for text in texts):
        return None
    if source["scn"] is None or (source["commit_scn"] is None and not is_read(source)):
        return None
    given = [source[name] for name in ("txSeq", "ssn") if source[name] is not None]
    return placed(
        oracle_position,
        commit_scn=None if source["commit_scn"] is None else int(source["commit_scn"]),
        scn=int(source["scn"]),
        order=[*given, 0][0],
        offset=offset,
        is_read=is_read(source),
        epoch=epoch_of(offset),
    )


def of_yugabyte(source: Source, offset: int) -> Expected:
    op = None if is_read(source) else yugabyte_op(source["lsn"] or "")
    if source["commit_time"] is None or (op is None and not is_read(source)):
        return None
    return yugabyte_position(commit_time=source["commit_time"], op=op, offset=offset)


def of_tidb(source: Source, offset: int) -> Expected:
    commit = source["commitTs"]
    commit = int(commit) if commit is not None else 0
    return tidb_position(commit_ts=commit, offset=offset) if commit > 0 else None


def of_trail(source: Source, offset: int) -> Expected:
    place = trail_place(source["pos"] or "")
    return (
        None
        if place is None
        else placed(trail_position, place=place, offset=offset, epoch=epoch_of(offset))
    )


def of_offset(source: Source, offset: int) -> Expected:
    return (offset,)


SNAPSHOTS = [None, "false", "true", "first", "last", "incremental"]
LSNS = [None, "00000027:00000758:0005", "ffffffff:FFFFFFFF:ffff", "0000002b:00000000:0000", *JUNK]
SCNS = [None, "0", "41", "2122184", str(2**52 - 1), str(2**52), str(2**63), *JUNK]
OPS = [None, "1:338::0:0", "2:10:a2V5MTIz/+==:7:1", "1:5:null:3:-1", "-1:-1::0:0", "1:5::-1:0"]
FILES = [None, "mysql-bin.000009", "mysql-bin.1000000", "my.host.000001", "b.4294967295"]
TRAIL_PLACES = [None, "00000000000000002928", "00002564940142073691", "9" * 20, "1" * 19, "1" * 21]
TOO_HIGH = ["b.4294967296", "b.99999999999", "mysql-bin.000009\n"]
PAIRS = [
    [None, None],
    ["-5", "4990"],
    [None, "-5"],
    [None, "4990"],
    ["4800", "4900"],
    ["5000", "4990"],
    ["6000", str(2**62)],
    [str(2**52 - 1), "5000"],
    [str(2**52), "5000"],
    [None, str(2**52 - 1)],
]

CASES: dict[Scheme, tuple[Callable[[Source, int], Expected], dict[str, list[Any]]]] = {
    Scheme.POSTGRES: (
        of_postgres,
        {
            "snapshot": SNAPSHOTS,
            "lsn": LONGS,
            "sequence": [None, *(json.dumps(pair, separators=(",", ":")) for pair in PAIRS)],
        },
    ),
    Scheme.BINLOG: (
        of_binlog,
        {"file": [*FILES, *TOO_HIGH, *JUNK], "pos": LONGS, "row": [None, 0, 3, -1]},
    ),
    Scheme.MARIADB: (
        of_mariadb,
        {"file": [*FILES, *TOO_HIGH, *JUNK], "pos": LONGS},
    ),
    Scheme.SQLSERVER: (
        of_sqlserver,
        {"commit_lsn": LSNS, "change_lsn": LSNS, "event_serial_no": [None, 1, -2]},
    ),
    Scheme.ORACLE: (
        of_oracle,
        {
            "snapshot": ["false", "true"],
            "scn": SCNS,
            "commit_scn": SCNS,
            "txSeq": [None, 0, 4, -1],
            "ssn": [None, 9],
        },
    ),
    Scheme.YUGABYTE: (
        of_yugabyte,
        {
            "snapshot": ["false", "true"],
            "lsn": [*OPS, *JUNK],
            "commit_time": [None, 0, 7208960000000040960],
        },
    ),
    Scheme.TIDB: (of_tidb, {"commitTs": [None, 0, 1, 464_000_000_000_000_000, 2**62]}),
    Scheme.TRAIL: (of_trail, {"pos": [*TRAIL_PLACES, *JUNK]}),
    Scheme.OFFSET: (of_offset, {"file": JUNK}),
}


# ── Spark ─────────────────────────────────────────────────────────────────────────────────


def parsed(spark: Session, scheme: Scheme, sources: list[Source]) -> DataFrame:
    """As a format parses ``source`` out of a record."""
    common = [
        StructField("ts_ms", LongType()),
        StructField("snapshot", StringType()),
        StructField("connector", StringType()),
    ]
    shape = StructType([*common, *order_of(scheme).fields])
    rows = [
        (
            None if source.get("__none") else json.dumps(source, ensure_ascii=False),
            source["__offset"],
            source["__partition"],
        )
        for source in sources
    ]
    session = spark()
    for name, value in SETTINGS.items():
        session.conf.set(name, value)
    frame = session.createDataFrame(rows, "text string, offset bigint, partition int")
    return frame.select(F.from_json("text", shape).alias("source"), "offset", "partition")


def read_flag() -> Column:
    return F.coalesce(F.col("source.snapshot"), F.lit("false")) != "false"


def as_placed(scheme: Scheme, state: OrderState | None = None) -> Placed:
    at = F.col("offset")
    bare = Placed(F.col("source"), read_flag(), F.col("partition"), at, at)
    return replace(bare, column=order_of(scheme).placed(bare, state or OrderState()))


def made(frame: DataFrame, scheme: Scheme, epochs: Mapping[int, Any]) -> list[Row]:
    state = OrderState(WATERMARKS, epochs)
    found = order_of(scheme).numbers(as_placed(scheme, state), state)
    assert len(found) == scheme.numbers
    named = [number.alias(name) for name, number in zip(NUMBERS, found, strict=False)]
    text = F.concat(*(F.lpad(F.hex(name), 16, "0") for name in NUMBERS[: scheme.numbers]))
    return frame.select("offset", *named).withColumn("bytes", F.unhex(text)).collect()


@pytest.mark.parametrize("scheme", list(Scheme))
def test_the_bytes_are_those_of_the_pure_rule(spark, scheme):
    expected_of, fields = CASES[scheme]
    sources = combined(random.Random(scheme), fields, 700)
    beside = {"server_id", "gtid", "commit_ts_ms"}
    assert {name.name for name in order_of(scheme).fields} <= {*fields, *beside}
    rows = {row["offset"]: row for row in made(parsed(spark, scheme, sources), scheme, EPOCHS)}
    expected = {source["__offset"]: expected_of(source, source["__offset"]) for source in sources}
    assert any(expected.values())
    for offset, position in expected.items():
        row = rows[offset]
        if position is None or min(position) < 0:
            assert row["n0"] is None, sources[offset]
        else:
            assert bytes(row["bytes"]) == encode(position), sources[offset]


@pytest.mark.parametrize("scheme", [each for each in Scheme if each is not Scheme.OFFSET])
def test_a_record_without_a_value_has_no_position(spark, scheme):
    frame = parsed(spark, scheme, [places({"__none": True}, 0), places({}, 1)])
    assert [row["n0"] for row in made(frame, scheme, {})] == [None, None]


def test_only_postgres_has_what_a_low_watermark_is_found_by(spark):
    sources = [
        {"lsn": 100, "sequence": '[null,"100"]', "snapshot": "true"},
        {"lsn": 90, "sequence": '[null,"90"]', "snapshot": "false"},
        {"lsn": 120, "sequence": '["110","120"]', "snapshot": "false"},
        {"sequence": '["110","130"]', "snapshot": "incremental"},
        {"lsn": 95},
    ]
    lying = [places(source, offset) for offset, source in enumerate(sources)]
    found = {}
    for scheme in (Scheme.POSTGRES, Scheme.YUGABYTE):
        frame = parsed(spark, Scheme.POSTGRES, lying)
        columns = order_of(scheme).low_watermark_columns(as_placed(scheme))
        rows = frame.orderBy("offset").select(*columns).collect()
        found[scheme] = [tuple(row) for row in rows]
    nothing = (None, None)
    assert found[Scheme.POSTGRES] == [(100, None), (None, 90), nothing, nothing, (None, 95)]
    assert found[Scheme.YUGABYTE] == [nothing] * 5


def test_columns_of_the_binlog_are_what_numbering_counts(spark):
    change: Source = {
        "ts_ms": 1589361987000,
        "snapshot": "false",
        "server_id": 223344,
        "gtid": "3e11fa47-71ca-11e1-9e33-c80aa9429562:23",
        "file": "my.host.1000000",
        "pos": 362,
        "row": 2,
    }
    row = {"snapshot": "true", "file": "my.host.000003", "pos": 154, "ts_ms": 5}
    window = change | {"snapshot": "incremental"}
    sources = [change, row, change | {"file": ""}, {}, window]
    frame = parsed(spark, Scheme.BINLOG, [places(each, at) for at, each in enumerate(sources)])
    sent = frame.withColumn("timestamp", F.timestamp_millis(F.lit(7)))
    found = records_of(sent.orderBy("offset")).collect()
    names = "partition offset sent_ms base file_no pos gtid server_id ts_ms is_snapshot row"
    assert list(found[0].asDict()) == names.split()
    gtid = change["gtid"]
    assert tuple(found[0]) == (
        0, 0, 7, "my.host", 1_000_000, 362, gtid, 223344, 1589361987000, False, 2,
    )  # fmt: skip
    assert tuple(found[1]) == (1, 1, 7, "my.host", 3, 154, None, 0, 5, True, None)
    assert len(found) == 2


def test_what_a_low_watermark_is_found_by_has_its_epoch(spark):
    sources = [
        {"lsn": 100, "sequence": '[null,"100"]', "snapshot": "true"},
        {"lsn": 90, "sequence": '[null,"90"]', "snapshot": "false"},
    ]
    frame = parsed(spark, Scheme.POSTGRES, [places(each, at) for at, each in enumerate(sources)])
    state = OrderState(epochs={0: [(0, 1)], 1: [(5, 3)]})
    columns = order_of(Scheme.POSTGRES).low_watermark_columns(as_placed(Scheme.POSTGRES, state))
    rows = frame.orderBy("offset").select(*columns).collect()
    assert [tuple(row) for row in rows] == [(1 << 52 | 100, None), (None, 90)]


def test_what_comes_in_the_order_of_commits_is_told(spark):
    sources = [
        {"lsn": 1, "sequence": '["1","2"]', "snapshot": "false"},
        {"lsn": 1, "sequence": '["1","2"]'},
        {"lsn": 1, "sequence": '[null,"2"]', "snapshot": "false"},
        {"lsn": 1, "snapshot": "false"},
        {"lsn": 1, "snapshot": "last"},
        {"sequence": '["1","2"]', "snapshot": "incremental"},
    ]
    frame = parsed(spark, Scheme.POSTGRES, [places(each, at) for at, each in enumerate(sources)])
    for scheme, expected in (
        (Scheme.POSTGRES, [True, True, False, False, True, False]),
        (Scheme.ORACLE, [True, True, True, True, True, False]),
    ):
        told = order_of(scheme).may_witness(as_placed(scheme))
        first = order_of(scheme).floats(as_placed(scheme))
        rows = frame.orderBy("offset").select(told, first).collect()
        assert [row[0] for row in rows] == expected
        is_first = [at == 2 and scheme is Scheme.POSTGRES for at in range(len(sources))]
        assert [row[1] for row in rows] == is_first


def test_rows_read_while_changes_were_streamed_are_told(spark):
    sources = [
        {"snapshot": "false"},
        {"snapshot": "first"},
        {"snapshot": "last"},
        {"snapshot": "incremental"},
        {"snapshot": "true", "sequence": '["1","2"]'},
        {"snapshot": "incremental", "sequence": '[null,"2"]'},
        {"snapshot": "false", "sequence": '["1","2"]'},
    ]
    frame = parsed(spark, Scheme.POSTGRES, [places(each, at) for at, each in enumerate(sources)])
    for scheme in (Scheme.POSTGRES, Scheme.BINLOG, Scheme.MARIADB, Scheme.SQLSERVER):
        rows = (
            frame.orderBy("offset")
            .select(order_of(scheme).is_late_read(as_placed(scheme)))
            .collect()
        )
        late = [False, False, False, True, scheme is Scheme.POSTGRES, True, False]
        assert [row[0] for row in rows] == late, scheme


# ── events ────────────────────────────────────────────────────────────────────────────────


def events_at(spark: Session, scheme: Scheme, positions: list[bytes]) -> list[tuple[bytes, ...]]:
    """What identifies the event of each position, of the position without its last number, and of
    the result itself."""
    order = order_of(scheme)
    frame = spark().createDataFrame([*enumerate(positions)], "i int, position binary")
    at = order.event_at(F.col("position"))
    shorter = F.expr("substring(position, 1, length(position) - 8)")
    found = frame.select("i", at, order.event_at(shorter), order.event_at(at)).orderBy("i")
    return [tuple(map(bytes, row[1:])) for row in found.collect()]


@pytest.mark.parametrize("scheme", Scheme)
def test_an_event_is_told_by_its_position_without_the_offset(spark, scheme):
    rng = random.Random(scheme.value)
    numbers = [tuple(rng.randrange(2**63) for _ in range(scheme.numbers)) for _ in range(5)]
    for position, found in zip(
        numbers, events_at(spark, scheme, [*map(encode, numbers)]), strict=True
    ):
        expected = encode(position[:-1])
        if scheme is Scheme.POSTGRES:
            expected = encode((position[0] >> 52 << 52, position[1]))
        assert found == (expected,) * 3


def test_an_event_of_postgres_is_told_whatever_last_commit_it_is_delivered_with(spark):
    def at(commit: int | None, lsn: int, *, watermark: int = 0, epoch: int = 3) -> bytes:
        said: Source = {
            "sequence_commit": commit,
            "lsn": lsn,
            "low_watermark": watermark,
            "epoch": epoch,
        }
        return encode(postgres_position(**said, offset=7, is_read=False))

    same = [at(90, 100), at(None, 100), at(None, 100, watermark=3 << 52 | 500)]
    others = [at(90, 101), at(90, 100, epoch=4)]
    found = [each for each, *_ in events_at(spark, Scheme.POSTGRES, [*same, *others])]
    assert len({*found[:3]}) == 1
    assert len({*found}) == 3
