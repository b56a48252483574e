"""Statements over the rows of a frame."""

from __future__ import annotations

from uuid import uuid4

import pytest

from cdc_assets.changes.names import LakeName
from cdc_assets.merge.statements import sql
from cdc_assets.merge.statements.writing import run_over
from cdc_assets_tests.pipeline import Session

CATALOG = "scratch"
ODD = "a {b} {} {{c}} %s `d` 'e'"
"""A column whose name is text that a formatter would read."""


@pytest.mark.spark
def test_it_runs_over_the_rows_whatever_the_names_and_leaves_no_view(spark: Session) -> None:
    name = LakeName("over", f"t{uuid4().hex}")
    target = sql.table(CATALOG, name)
    spark().sql(sql.create_namespace(CATALOG, name))
    spark().sql(
        f"CREATE TABLE {target} (id int, {sql.quote(ODD)} string) USING iceberg "
        "TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')"
    )
    spark().sql(f"INSERT INTO {target} VALUES (1, 'x'), (2, 'x'), (2, 'y'), (3, NULL)")
    gone = spark().createDataFrame([(2, "x"), (3, "x")], ["id", ODD])
    before = {each.name for each in spark().catalog.listTables()}

    run_over(spark(), gone, lambda view: sql.delete_keys(target, view, ("id", ODD)))
    assert sorted(row["id"] for row in spark().table(target).collect()) == [1, 2, 3]
    assert {each.name for each in spark().catalog.listTables()} <= before
