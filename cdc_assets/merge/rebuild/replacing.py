"""Replaces the old table as a whole, where the new rows have other columns or another layout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_assets.changes.mode import Mode
from cdc_assets.changes.names import LakeName
from cdc_assets.effects import effect
from cdc_assets.lake import Published, TableState
from cdc_assets.lake.at_source import AT_SOURCE
from cdc_assets.lake.columns import COLUMN, DROPPED, LEFT_OUT
from cdc_assets.lake.properties import MODE
from cdc_assets.merge.plan.plan import OWN_BRANCH
from cdc_assets.merge.rebuild.site import Site
from cdc_assets.merge.rebuild.standing import OF_REBUILD
from cdc_assets.merge.statements import sql
from cdc_assets.merge.statements.failures import translated
from cdc_assets.merge.statements.writing import Target, snapshot_writer, write_changes

_OURS: Final = "cdc-assets."


def fits(old: TableState, new: TableState) -> bool:
    """Returns whether the new rows fit the old table, and its records are read in the same way."""
    return _shape(old) == _shape(new)


def replace_table(
    site: Site, old: TableState, new: TableState, rows: DataFrame, published: Published
) -> None:
    """Replaces columns and rows at once.

    Such a commit replaces whatever is there. So batches that have begun are kept from being
    published first: their branches are dropped, and ``main`` moves to a snapshot without changes.

    Raises:
        ConflictError: if another writer published meanwhile.
    """
    _drop_branches(site, old.name)
    table = sql.table(site.catalog, old.name)
    with translated("replace the table", site.where), effect("spark: leave the head"):
        nothing = site.spark().table(table).limit(0)
        write_changes(nothing, None, Target(site.catalog, old.name, old.snapshot_id), {})
    now = site.state()
    if now is None or now.published != old.published:
        raise site.moved()
    writer = snapshot_writer(rows, table, published.to_properties()).using("iceberg")
    for name, value in _properties(old.properties, new.properties).items():
        writer = writer.tableProperty(name, value)
    if new.properties.get(MODE) == Mode.HISTORY:
        writer = writer.partitionedBy(F.col(sql.CURRENT))
    with translated("replace the table", site.where), effect("spark: replace table"):
        writer.createOrReplace()


def _drop_branches(site: Site, name: LakeName) -> None:
    ours = [each for each in site.lake.branches(name) if OWN_BRANCH.fullmatch(each)]
    for branch in ours:
        with translated("drop branches", site.where), effect("spark: drop branch"):
            site.spark().sql(sql.drop_branch(site.catalog, name, branch))


def _shape(state: TableState) -> tuple[object, ...]:
    said = {name: each for name, each in state.properties.items() if each and _is_layout(name)}
    columns = [(each.name, each.type, each.required) for each in state.columns]
    return said, columns, state.key


def _is_layout(name: str) -> bool:
    return name.startswith(_OURS) and name not in OF_REBUILD and not name.startswith(AT_SOURCE)


def _properties(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str]:
    """Returns the new table's, and those that a person has set on the old one.

    A table that is replaced keeps its properties. What the old one's say of columns, and of its
    mode, is emptied, as nothing is taken away by a replacement.
    """
    theirs = {name: value for name, value in old.items() if not name.startswith(_OURS)}
    of_columns = {name: "" for name in old if name.startswith((COLUMN, LEFT_OUT, DROPPED))}
    rest = {name: each for name, each in new.items() if name not in OF_REBUILD}
    return {**theirs, **of_columns, MODE: "", **rest}
