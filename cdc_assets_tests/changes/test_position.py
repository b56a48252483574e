"""Byte order of positions is source order, by each database's own comparison."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_assets.changes.position import LAST, Scheme, decode, encode, scheme_of
from cdc_assets.changes.position.scheme import binlog_file, sqlserver_lsn, trail_place, yugabyte_op
from cdc_assets_tests.model.positions import (
    mariadb_position,
    mysql_position,
    oracle_position,
    postgres_position,
    sqlserver_position,
    trail_position,
    yugabyte_position,
)

NUMBERS = st.tuples(*[st.integers(0, 2**63 - 1)] * 3)
FEW = st.integers(0, 3)


@pytest.mark.property
@given(NUMBERS, NUMBERS)
def test_byte_order_is_the_order_of_the_numbers(left, right):
    assert (encode(left) < encode(right)) == (left < right)
    assert decode(encode(left)) == left


@pytest.mark.unit
@pytest.mark.parametrize("numbers", [(-1,), (2**63,)])
def test_numbers_that_would_break_byte_order_are_refused(numbers):
    with pytest.raises(ValueError, match="non-negative"):
        encode(numbers)


# ── PostgreSQL ────────────────────────────────────────────────────────────────────────────


def at(commit, lsn, *, read=False, offset=0, watermark=100):
    return postgres_position(
        sequence_commit=commit, lsn=lsn, offset=offset, is_read=read, low_watermark=watermark
    )


@pytest.mark.unit
def test_a_snapshot_row_is_older_than_what_commits_after_it_and_newer_than_what_did_before():
    row = at(None, 100, read=True)
    assert at(120, 90) > row
    assert at(80, 95) < row


@pytest.mark.unit
@pytest.mark.parametrize("commit", [None, 100])
def test_the_first_transaction_after_a_snapshot_is_newer_though_its_lsn_is_lower(commit):
    assert at(commit, 90, offset=7) > at(None, 100, read=True, offset=3)


@pytest.mark.unit
def test_a_row_of_an_incremental_snapshot_loses_to_the_changes_that_it_is_sent_before():
    """Debezium gives it the very sequence of the change that closed its window."""
    row = at(200, 260, read=True, offset=5)
    closing, later_in_it = at(200, 260, offset=6), at(200, 270, offset=7)
    began_before_that_commit = at(280, 190, offset=8)
    assert row < closing < later_in_it < began_before_that_commit
    assert at(200, 150, offset=6) > row, "of another transaction that began before the last commit"
    assert at(150, 199, offset=4) < row, "whatever committed before is in it"


# ── MySQL, MariaDB ────────────────────────────────────────────────────────────────────────

BINLOG_FILES = st.one_of(FEW, st.integers(999_990, 1_000_010), st.integers(1, 2**31 - 1))
BINLOG = st.tuples(FEW, BINLOG_FILES, st.integers(4, 9), FEW, st.integers(0, 99))


def in_binlog(epoch, number, pos, row, offset):
    file = binlog_file(f"mysql-bin.{number:06d}")
    assert file is not None
    return encode(
        mysql_position(epoch=epoch, file_number=file.number, pos=pos, row=row, offset=offset)
    )


@pytest.mark.property
@given(BINLOG, BINLOG)
def test_binlog_files_follow_each_other_by_number(left, right):
    assert (in_binlog(*left) < in_binlog(*right)) == (left < right)


@pytest.mark.unit
def test_changes_of_one_transaction_follow_each_other_where_they_have_one_place():
    """As recorded from MariaDB 11.4.5 with its defaults: three updates of one row."""
    recorded = [(79, 5), (80, 0), (82, 1)]  # offset, row; partition 2, total_order 6, 7, 9
    of_mariadb = [
        encode(mariadb_position(epoch=0, file_number=1, pos=261031, offset=offset))
        for offset, _ in recorded
    ]
    assert of_mariadb == sorted(of_mariadb)
    by_row = [
        encode(mysql_position(epoch=0, file_number=1, pos=261031, row=row, offset=offset))
        for offset, row in recorded
    ]
    assert by_row != sorted(by_row), "rows of events are not the order of a transaction"


@pytest.mark.unit
@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("mysql-bin.000009", "mysql-bin.000010"),
        ("mysql-bin.000009", "mysql-bin.1000000"),
        ("mysql-bin.999999", "mysql-bin.1000000"),
    ],
)
def test_the_number_of_a_file_decides_and_not_its_text(earlier, later):
    assert binlog_file(earlier) < binlog_file(later)


@pytest.mark.unit
@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("mysql-bin.000009", ("mysql-bin", 9)),
        ("mysql-bin-changelog.123456", ("mysql-bin-changelog", 123456)),
        ("my.host.000001", ("my.host", 1)),
        ("b.4294967295", ("b", 2**32 - 1)),
        ("b.4294967296", None),
        ("b.99999999999", None),
        ("mysql-bin.index", None),
        ("mysql-bin.000009\n", None),
        (".000009", None),
        ("000009", None),
        ("", None),
    ],
)
def test_the_parts_of_a_binlog_file_name(name, parts):
    assert binlog_file(name) == parts


# ── SQL Server ────────────────────────────────────────────────────────────────────────────

LSN_BYTES = st.one_of(
    st.binary(min_size=10, max_size=10),
    st.tuples(*[st.sampled_from([0, 1, 0xFF])] * 10).map(bytes),
)
SQLSERVER = st.tuples(LSN_BYTES, LSN_BYTES, FEW, st.integers(0, 99))


def lsn_text(lsn):
    digits = lsn.hex()
    return f"{digits[:8]}:{digits[8:16]}:{digits[16:]}"


def in_sqlserver(commit, change, serial, offset):
    commit_lsn = sqlserver_lsn(lsn_text(commit))
    assert commit_lsn is not None
    change_lsn = None if change is None else sqlserver_lsn(lsn_text(change))
    return encode(
        sqlserver_position(
            commit_lsn=commit_lsn, change_lsn=change_lsn, serial=serial, offset=offset
        )
    )


@pytest.mark.property
@given(SQLSERVER, SQLSERVER)
def test_lsns_of_sql_server_compare_as_binary(left, right):
    assert (in_sqlserver(*left) < in_sqlserver(*right)) == (left < right)


@pytest.mark.property
@given(LSN_BYTES, SQLSERVER)
def test_a_snapshot_row_of_sql_server_holds_all_up_to_its_commit(commit, change):
    row = in_sqlserver(commit, None, 0, 50)
    assert (row > in_sqlserver(*change)) == (change[0] <= commit)


@pytest.mark.unit
@pytest.mark.parametrize(
    "text",
    ["", "NULL", "00000027:00000758", "0000027:00000758:0005", "00000027:00000758:000g", "0" * 22],
)
def test_other_text_is_no_lsn_of_sql_server(text):
    assert sqlserver_lsn(text) is None


# ── Oracle ────────────────────────────────────────────────────────────────────────────────


@st.composite
def oracle_changes(draw):
    scn = draw(st.integers(0, 5))
    return draw(st.integers(scn, 6)), scn, draw(FEW), draw(st.integers(0, 99))


def in_oracle(commit, scn, order, offset, *, read=False):
    return encode(
        oracle_position(commit_scn=commit, scn=scn, order=order, offset=offset, is_read=read)
    )


@pytest.mark.property
@given(oracle_changes(), oracle_changes())
def test_oracle_changes_follow_by_commit_then_within_it(left, right):
    assert (in_oracle(*left) < in_oracle(*right)) == (left < right)


@pytest.mark.property
@given(st.integers(0, 6), st.one_of(st.none(), st.integers(0, 6)), oracle_changes())
def test_a_snapshot_row_of_oracle_holds_all_that_committed_up_to_its_scn(scn, stale, change):
    """Also where it carries the commit SCN of a change streamed before."""
    stale = stale if stale is not None and stale < scn else None
    row = in_oracle(stale, scn, 0, 50, read=True)
    assert (row > in_oracle(*change)) == (change[0] <= scn)


@pytest.mark.unit
def test_a_row_of_an_incremental_snapshot_lies_at_its_watermark():
    assert oracle_position(commit_scn=9, scn=7, order=2, offset=5, is_read=True) == (9, 7, 2, 5)


@pytest.mark.unit
def test_a_streamed_change_of_oracle_needs_a_commit():
    with pytest.raises(ValueError, match="commit SCN"):
        oracle_position(commit_scn=None, scn=7, order=0, offset=0, is_read=False)


# ── YugabyteDB ────────────────────────────────────────────────────────────────────────────

HYBRID = st.tuples(st.integers(1_760_000_000_000_000, 1_760_000_000_000_002), FEW)
YUGABYTE = st.tuples(HYBRID, st.tuples(FEW, st.integers(0, 12), FEW), st.integers(0, 99))


def in_yugabyte(hybrid, op, offset):
    micros, logical = hybrid
    parts = None if op is None else yugabyte_op(f"{op[0]}:{op[1]}:a2V5:{op[2]}:0")
    assert op is None or parts is not None
    return encode(yugabyte_position(commit_time=(micros << 12) + logical, op=parts, offset=offset))


@pytest.mark.property
@given(YUGABYTE, YUGABYTE)
def test_yugabyte_changes_follow_by_hybrid_time_then_by_operation(left, right):
    assert (in_yugabyte(*left) < in_yugabyte(*right)) == (left < right)


@pytest.mark.property
@given(HYBRID, YUGABYTE)
def test_a_snapshot_row_of_yugabyte_holds_all_up_to_its_time(hybrid, change):
    assert (in_yugabyte(hybrid, None, 50) > in_yugabyte(*change)) == (change[0] <= hybrid)


@pytest.mark.unit
@pytest.mark.parametrize(
    ("text", "op"),
    [
        ("1:338::0:0", (1, 338, 0)),
        ("2:10:a2V5MTIz/+==:7:1760000000000", (2, 10, 7)),
        ("1:5:null:3:-1", (1, 5, 3)),
        ("1:5::3", (1, 5, 3)),
        ("-1:-1::0:0", None),
        ("1:5::-1:0", None),
        ("1:5", None),
        ("5000", None),
        ("", None),
    ],
)
def test_the_parts_of_an_operation_of_yugabyte(text, op):
    assert yugabyte_op(text) == op


# ── GoldenGate ────────────────────────────────────────────────────────────────────────────


@pytest.mark.unit
@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("00000000000000002928", (0, 2928)),
        ("00000000050224513175", (5, 224513175)),
        ("00002564940142073691", (256494, 142073691)),
        ("9" * 20, (9999999999, 9999999999)),
        ("0000000000000000292", None),
        ("000000000000000029281", None),
        ("0000000000000000292x", None),
        ("00000000000000002928\n", None),
        ("\u0660" * 20, None),
    ],
)
def test_a_trail_place_has_ten_digits_of_each(text, place):
    assert trail_place(text) == place


@pytest.mark.unit
def test_a_trail_goes_on_in_the_next_file():
    before, after = (trail_position(place=trail_place(text), offset=7) for text in (
        "00000000050224513175", "00000000060000001500",
    ))  # fmt: skip
    assert encode(before) < encode(after)
    assert encode(after) < encode(trail_position(place=(0, 0), offset=0, epoch=1))


# ── schemes ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.unit
@pytest.mark.parametrize(
    ("scheme", "position"),
    [
        (Scheme.POSTGRES, at(1, 2)),
        (Scheme.MARIADB, mariadb_position(epoch=1, file_number=2, pos=3, offset=5)),
        (Scheme.BINLOG, mysql_position(epoch=1, file_number=2, pos=3, row=4, offset=5)),
        (
            Scheme.SQLSERVER,
            sqlserver_position(commit_lsn=(1, 2), change_lsn=(1, 1), serial=1, offset=5),
        ),
        (
            Scheme.SQLSERVER,
            sqlserver_position(commit_lsn=(1, 2), change_lsn=None, serial=0, offset=5),
        ),
        (Scheme.ORACLE, oracle_position(commit_scn=2, scn=1, order=1, offset=5, is_read=False)),
        (Scheme.YUGABYTE, yugabyte_position(commit_time=1, op=(1, 2, 3), offset=5)),
        (Scheme.YUGABYTE, yugabyte_position(commit_time=1, op=None, offset=5)),
        (Scheme.TRAIL, trail_position(place=(1, 2), offset=5)),
        (Scheme.OFFSET, (5,)),
    ],
)
def test_a_scheme_knows_how_many_numbers_it_has(scheme, position):
    assert len(encode(position)) == 8 * scheme.numbers


MYSQL = {"connector": "mysql", "snapshot": "false", "file": "mysql-bin.000003", "pos": 154}
SQL_SERVER = {"connector": "sqlserver", "commit_lsn": "00000027:00000758:0005"}
ORACLE = {"connector": "oracle", "snapshot": "false", "scn": "2122184", "commit_scn": "2122185"}
MONGODB = {"connector": "mongodb", "ts_ms": 1558965508000, "ord": 31}
YUGABYTEDB = {"connector": "yugabytedb", "lsn": "1:4::0:0", "commit_time": 7208960000000040960}
GOLDENGATE = {"connector": "goldengate", "pos": "00000000050224513175"}


@pytest.mark.unit
@pytest.mark.parametrize(
    ("source", "scheme"),
    [
        ({"connector": "postgresql", "lsn": 5000}, Scheme.POSTGRES),
        ({"connector": "postgresql", "lsn": None}, Scheme.OFFSET),
        (
            {"connector": "postgresql", "snapshot": "incremental", "sequence": '["1","2"]'},
            Scheme.POSTGRES,
        ),
        (MYSQL, Scheme.BINLOG),
        (MYSQL | {"connector": "mariadb", "snapshot": "true"}, Scheme.MARIADB),
        (MYSQL | {"file": "", "pos": 0}, Scheme.OFFSET),
        (MYSQL | {"pos": 0}, Scheme.OFFSET),
        (SQL_SERVER, Scheme.SQLSERVER),
        (SQL_SERVER | {"commit_lsn": None}, Scheme.OFFSET),
        (ORACLE, Scheme.ORACLE),
        (ORACLE | {"commit_scn": None}, Scheme.OFFSET),
        (ORACLE | {"commit_scn": None, "snapshot": "true"}, Scheme.ORACLE),
        (ORACLE | {"scn": None, "commit_scn": None, "lcr_position": "00"}, Scheme.OFFSET),
        (MONGODB, Scheme.OFFSET),
        (YUGABYTEDB, Scheme.YUGABYTE),
        (YUGABYTEDB | {"lsn": None}, Scheme.OFFSET),
        (YUGABYTEDB | {"commit_time": None}, Scheme.OFFSET),
        (GOLDENGATE, Scheme.TRAIL),
        (GOLDENGATE | {"pos": "50224513175"}, Scheme.OFFSET),
        (GOLDENGATE | {"pos": 50224513175}, Scheme.OFFSET),
        ({"connector": "vitess", "vgtid": "[]"}, Scheme.OFFSET),
        ({"lsn": 5000}, Scheme.OFFSET),
        ({}, Scheme.OFFSET),
    ],
)
def test_the_scheme_is_that_of_the_position_that_is_filled_in(source, scheme):
    assert scheme_of(source) is scheme


@pytest.mark.unit
def test_the_last_number_fits():
    assert decode(encode((LAST,))) == (LAST,)


@pytest.mark.unit
@pytest.mark.parametrize(
    ("rule", "bits"),
    [
        (lambda number, epoch: postgres_position(
            sequence_commit=number, lsn=7, offset=1, is_read=False, low_watermark=0, epoch=epoch,
        ), 52),
        (lambda number, epoch: oracle_position(
            commit_scn=number, scn=7, order=0, offset=1, is_read=False, epoch=epoch), 52),
        (lambda number, epoch: sqlserver_position(
            commit_lsn=(number, 5), change_lsn=None, serial=0, offset=1, epoch=epoch), 32),
    ],
    ids=["postgres", "oracle", "sqlserver"],
)  # fmt: skip
def test_a_later_epoch_is_above_all_of_an_earlier_one(rule, bits):
    highest = 2**bits - 1
    assert rule(highest, 0)[0] == highest, "epoch 0 does not show"
    assert rule(highest, 0) < rule(0, 1) < rule(highest, 1) < rule(0, 2)
    encode(rule(highest, 2 ** (63 - bits) - 1))
    with pytest.raises(ValueError, match="cannot be told"):
        rule(highest + 1, 0)


@pytest.mark.unit
def test_a_change_in_flight_follows_the_watermark_of_its_own_epoch_only():
    floats = {"sequence_commit": None, "offset": 1, "is_read": False, "epoch": 1}
    assert postgres_position(lsn=40, low_watermark=900, **floats)[0] == 1 << 52 | 40
    assert postgres_position(lsn=40, low_watermark=1 << 52 | 60, **floats)[0] == 1 << 52 | 60
