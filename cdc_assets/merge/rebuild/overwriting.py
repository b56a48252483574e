"""Overwrites the rows of the old table, which keeps its columns and layout."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_assets.lake import Published, TableState
from cdc_assets.merge.apply.branch import Branch
from cdc_assets.merge.apply.publish import Publisher
from cdc_assets.merge.intake.layouts import execute_steps
from cdc_assets.merge.rebuild.site import Site
from cdc_assets.merge.statements import sql
from cdc_assets.merge.statements.failures import translated


def overwrite(site: Site, old: TableState, rows: DataFrame, published: Published) -> None:
    """Overwrites the rows by an ordinary publish; of a table of many shards, this one's alone.

    Raises:
        ConflictError: if another writer published meanwhile.
    """
    plan = site.planner.swap(site.entry, old, published)
    publisher = Publisher(site.spark(), site.catalog, site.lake, plan)
    branch = Branch(publisher)
    with branch.dropped_on_failure(), translated("write the new rows", site.where):
        branch.overwrite(rows, published.to_properties())
    branch.publish()


def with_room(site: Site, old: TableState, new: TableState) -> TableState:
    """Returns the table of all shards with the columns of one that was built anew.

    Raises:
        TerminalError: if it cannot have them: the rows of the other shards stay as they are.
        ConflictError: if another writer published meanwhile.
    """
    planner, beside = site.planner, replace(site.entry, target=new.name)
    tables, built = planner.tables(site.entry), planner.tables(beside).plan(new).first
    told = [built.schema.of_source.as_sent]
    steps = tables.columns(tables.plan(old).first.schema, old, told).steps
    execute_steps(site.spark(), site.catalog, site.entry, steps)
    now = site.state()
    if now is None or now.snapshot_id != old.snapshot_id:
        raise site.moved()
    return now


def as_in(table: DataFrame, rows: DataFrame) -> DataFrame:
    """Returns rows with the columns of a table; those that they do not have are empty."""
    own = set(rows.columns)
    return rows.select(
        *(
            F.col(sql.quote(each.name))
            if each.name in own
            else F.lit(None).cast(each.dataType).alias(each.name)
            for each in table.schema
        )
    )
