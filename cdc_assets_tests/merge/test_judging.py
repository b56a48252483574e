"""A key is judged only where nothing was merged of it between two looks."""

from __future__ import annotations

import hashlib

import pytest

from cdc_assets.changes.names import TableName
from cdc_assets.databases.rows import SourceKeyRows
from cdc_assets.lake.carried import Carried
from cdc_assets.merge.verifying.judging import Difference, DifferenceKind, judge
from cdc_assets.merge.verifying.lake_rows import LakeKeyRows, LakeRow
from cdc_assets.merge.verifying.report import ComparisonReport
from cdc_assets.schema.comparing import Compared, Comparison, Form, Uncompared
from cdc_assets.schema.types import Column, Primitive, Wire

pytestmark = pytest.mark.unit

ID = Compared(Column("id", Primitive.INT, Wire.INT, required=True), Form.INTEGER)
NOTE = Compared(Column("note", Primitive.STRING, Wire.STRING), Form.TEXT)
BOTH = Comparison((ID, NOTE), (ID,), (), is_keyed=True)
KEY = ("7",)


def row(note: str | None, position: str = "01", *, is_deleted: bool = False) -> LakeRow:
    return LakeRow(position, is_deleted, (digest("7"), None if note is None else digest(note)))


def digest(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def look(*rows: LakeRow, deleted: str = "", carried: Carried | None = None) -> LakeKeyRows:
    deletes = {KEY: deleted} if deleted else {}
    return LakeKeyRows({KEY: rows} if rows else {}, deletes, carried or Carried())


def source(note: str | None = "", *, exists: bool = True) -> SourceKeyRows:
    texts = {KEY: ("7", note)} if exists else {}
    return SourceKeyRows("0/1", texts, texts)


@pytest.mark.parametrize(
    ("lake", "database", "kind", "columns"),
    [
        (look(row("a")), source("a"), None, ()),
        (look(row(None)), source(None), None, ()),
        (look(row("a")), source("b"), DifferenceKind.DIFFERENT, ("note",)),
        (look(row("")), source(None), DifferenceKind.DIFFERENT, ("note",)),
        (look(), source("a"), DifferenceKind.MISSING, ()),
        (look(row("a", is_deleted=True)), source("a"), DifferenceKind.MISSING, ()),
        (look(row("a")), source(exists=False), DifferenceKind.ONLY_IN_LAKE, ()),
        (look(row("a", is_deleted=True)), source(exists=False), None, ()),
        (look(row("a"), row("a")), source("a"), DifferenceKind.TWICE, ()),
        (look(), source(exists=False), None, ()),
    ],
)
def test_what_differs_is_told_by_kind(
    lake: LakeKeyRows,
    database: SourceKeyRows,
    kind: DifferenceKind | None,
    columns: tuple[str, ...],
) -> None:
    judged = judge([KEY], lake, database, lake, BOTH)
    found = [(each.kind, each.columns) for each in judged.differences]
    assert found == ([] if kind is None else [(kind, columns)])
    assert judged.changing == ()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (look(row("a", "01")), look(row("c", "02"))),  # changed
        (look(row("a")), look(deleted="02")),  # deleted
        (look(), look(row("c", "02"))),  # inserted
        (look(), look(deleted="02")),  # inserted and deleted
        (look(deleted="01"), look(deleted="02")),
        (look(), look(carried=Carried(max_truncate="02"))),  # inserted and truncated
        (look(row("a")), look(row("a"), carried=Carried(generation=1))),  # built anew
    ],
)
def test_a_key_that_was_merged_meanwhile_says_nothing(
    before: LakeKeyRows, after: LakeKeyRows
) -> None:
    judged = judge([KEY], before, source("b"), after, BOTH)
    assert (judged.differences, judged.changing) == ((), (KEY,))
    naive = judge([KEY], after, source("b"), after, BOTH)  # without the look before
    assert naive.differences, "the look before the source is read makes no difference here"


@pytest.mark.parametrize(
    ("after", "database", "doubtful"),
    [
        (look(row("b", "02")), source("b"), 0),
        (look(row("a", "02")), source("b"), 1),  # the change has left out a large value
        (look(row(None, "02")), source(None), 0),
        (look(row("a", "02")), source(exists=False), 0),  # it was inserted again
        (look(deleted="02"), source("b"), 0),
        (look(row("b", "01"), row("b", "02")), source("b"), 1),
        (look(row("b", "01", is_deleted=True), row("b", "02")), source("b"), 0),
    ],
)
def test_a_key_that_changes_is_doubtful_if_its_large_values_differ(
    after: LakeKeyRows, database: SourceKeyRows, doubtful: int
) -> None:
    before = look(row("a", "01"))
    judged = judge([KEY], before, database, after, BOTH, omitted=(1,))
    assert (judged.changing, judged.doubtful) == ((KEY,), doubtful)
    several = len(after.living(KEY)) > 1
    assert judge([KEY], before, database, after, BOTH).doubtful == several, "nothing is left out"


def test_a_report_counts_what_it_does_not_name_and_never_passes_over_what_was_not_judged() -> None:
    one = Difference(KEY, DifferenceKind.DIFFERENT, ("note",), None, ("7", "secret"))
    left_out = (Uncompared("mood", "why not"),)
    table = TableName("s", "p", "t")
    report = ComparisonReport(
        table, ("id",), 9, (one,), not_judged=2, why="busy", left_out=left_out
    )
    said = "\n".join(report.words())
    assert "(id=7) different columns: note" in said
    assert "2 keys not judged: busy" in said
    assert "column mood not compared: why not" in said
    assert "secret" not in said + report.to_json()
    assert report.differs
    unheld = ComparisonReport(table, ("id",), 9, (one,), unheld=1)
    assert "1 keys not put right: the lake's types cannot hold a value" in "\n".join(unheld.words())
    assert unheld.to_dict()["not_repaired"] == 1
    assert not ComparisonReport(TableName("s", "p", "t"), ("id",), 9, not_judged=1).is_proven
