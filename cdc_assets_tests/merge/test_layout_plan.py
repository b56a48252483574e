"""The difference between a table's layout and the configured one, as steps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cdc_assets.changes.names import LakeName
from cdc_assets.errors import TerminalError
from cdc_assets.lake.state import PartitionField, TableState
from cdc_assets.merge.plan.layout_plan import plan_layout
from cdc_assets.merge.plan.table_steps import LayOut, describe, statements
from cdc_assets.schema.file_layout import FileLayout, Term, parse_sort, parse_term
from cdc_assets.schema.types import Column, ColumnType, Decimal, Primitive, Wire

pytestmark = pytest.mark.unit

EMPTY = TableState(
    LakeName("a", "b"), None, None, {}, (), (), {}, "", is_empty=True, total_records=0,
    head_columns={}, format_version=3,
)  # fmt: skip
DAY, BUCKET = parse_term("day(at)"), parse_term("bucket(4, id)")
ORDER = (parse_sort("at desc"),)
COLUMNS = ("id", "at")


def state(*fields: tuple[str, Term | None]) -> TableState:
    return replace(EMPTY, partition=tuple(PartitionField(*each) for each in fields))


def test_a_layout_that_is_not_configured_stays_as_it_is() -> None:
    there = replace(state(("at_day", DAY)), sort_order=ORDER)
    plan = plan_layout(FileLayout(), there, (), COLUMNS, {})
    assert plan.steps == ()
    assert (plan.files.partition_by, plan.files.sort_by) == ((DAY,), ORDER)


def test_a_field_of_an_unknown_kind_leaves_the_order_of_rows_alone() -> None:
    plan = plan_layout(FileLayout(), state(("at_day", DAY), ("odd", None)), (), COLUMNS, {})
    assert plan.files.partition_by == ()


def test_fields_are_added_and_dropped() -> None:
    wanted = FileLayout((BUCKET,), ORDER)
    plan = plan_layout(wanted, state(("at_day", DAY), ("odd", None)), (), COLUMNS, {})
    assert plan.steps == (LayOut(("at_day", "odd"), (("id_bucket_4", BUCKET),), ORDER),)
    (step,) = plan.steps
    assert describe(step) == (
        "partition new files no longer by at_day, odd; partition new files by bucket(4, id); "
        "sort new files by at desc nulls last"
    )
    assert list(statements(step, "lake", EMPTY.name)) == [
        "ALTER TABLE `lake`.`a`.`b` DROP PARTITION FIELD `at_day`",
        "ALTER TABLE `lake`.`a`.`b` DROP PARTITION FIELD `odd`",
        "ALTER TABLE `lake`.`a`.`b` ADD PARTITION FIELD bucket(4, `id`) AS `id_bucket_4`",
        "ALTER TABLE `lake`.`a`.`b` WRITE LOCALLY ORDERED BY `at` DESC NULLS LAST",
    ]


def test_a_layout_that_is_there_needs_no_step_in_whatever_order() -> None:
    there = replace(state(("x", BUCKET), ("at_day", DAY)), sort_order=ORDER)
    assert plan_layout(FileLayout((DAY, BUCKET), ORDER), there, (), COLUMNS, {}).steps == ()


def test_an_order_is_taken_back() -> None:
    plan = plan_layout(FileLayout(None, ()), replace(EMPTY, sort_order=ORDER), (), COLUMNS, {})
    assert plan.steps == (LayOut(sort_by=()),)
    (sent,) = statements(plan.steps[0], "lake", EMPTY.name)
    assert sent == "ALTER TABLE `lake`.`a`.`b` WRITE UNORDERED"


def test_the_fields_that_every_table_of_its_kind_has_stay() -> None:
    shard = parse_term("shard")
    plan = plan_layout(FileLayout((DAY,)), state(("shard", shard)), ("shard",), COLUMNS, {})
    assert plan.steps == (LayOut((), (("at_day", DAY),)),)
    assert plan.files.partition_by == (shard, DAY)
    plan = plan_layout(FileLayout(), None, ("shard",), COLUMNS, {})
    assert (plan.steps, plan.files.partition_by) == ((), ())


def test_a_renamed_column_is_the_same_one() -> None:
    plan = plan_layout(FileLayout((parse_term("day(made)"),)), state(("at_day", DAY)), (),
                       ("id", "made"), {"at": "made"})  # fmt: skip
    assert plan.steps == ()


def test_no_field_has_the_name_of_a_column() -> None:
    columns = (*COLUMNS, "at_day")
    plan = plan_layout(FileLayout((DAY,)), EMPTY, (), columns, {})
    assert plan.steps == (LayOut((), (("at_day_part", DAY),)),)
    there = replace(state(("at_day", DAY)), partition_names=frozenset({"at_day"}))
    with pytest.raises(TerminalError, match="names of partition fields of the lake table: at_day"):
        plan_layout(FileLayout((DAY,)), there, (), columns, {})


def test_properties_that_differ_are_set() -> None:
    there = replace(EMPTY, properties={"a": "1", "b": "2"})
    wanted = FileLayout(properties={"a": "1", "b": "3"})
    assert plan_layout(wanted, there, (), COLUMNS, {}).steps == (LayOut(properties={"b": "3"}),)
    assert plan_layout(wanted, None, (), COLUMNS, {}).steps == ()


def test_a_format_version_may_rise_and_not_fall() -> None:
    old = replace(EMPTY, format_version=2)
    plan = plan_layout(FileLayout(format_version=3), old, (), COLUMNS, {})
    assert plan.steps == (LayOut(properties={"format-version": "3"}),)
    with pytest.raises(TerminalError, match="has Iceberg's format version 3"):
        plan_layout(FileLayout(format_version=2), EMPTY, (), COLUMNS, {})


def test_a_column_whose_values_are_partitions_is_not_widened_unless_there_are_no_files() -> None:
    def widened(term: str, type_: ColumnType, there: TableState = EMPTY) -> None:
        fields = (PartitionField("p", parse_term(term)),)
        wide = Column("id", type_, Wire.LONG)
        plan_layout(FileLayout(), replace(there, partition=fields), (), COLUMNS, {}, [wide])

    filled = replace(EMPTY, is_empty=False)
    with pytest.raises(TerminalError, match=r"id becomes wider.*truncate\(1, id\)"):
        widened("id", Primitive.LONG, filled)
    widened("id", Primitive.LONG)
    widened("id", Decimal(12, 2), filled)
    for term in ("bucket(4, id)", "truncate(1, id)", "at"):
        widened(term, Primitive.LONG, filled)
