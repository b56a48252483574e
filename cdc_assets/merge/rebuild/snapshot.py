"""The snapshot that a table beside waits for, where the log no longer holds the whole table."""

from __future__ import annotations

from typing import Final

from pyspark.sql import functions as F

from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.effects import effect
from cdc_assets.formats.by_table import changes_of
from cdc_assets.merge.intake.layouts import layout_of
from cdc_assets.merge.intake.read import read_ranges
from cdc_assets.merge.rebuild.site import Site
from cdc_assets.merge.rebuild.standing import SIGNAL, Standing
from cdc_assets.merge.statements import sql
from cdc_assets.merge.statements.failures import translated

_FIRST: Final = ("first", "first_in_data_collection")
_LAST: Final = ("last", "last_in_data_collection")
_MARKS: Final = tuple(
    f"$.{schema}{mark}" for mark in ("source.snapshot", "__source_snapshot")
    for schema in ("", "payload.")
)  # fmt: skip
"""Places of the mark in JSON, with and without schemas, whole events and flattened ones."""


def signal(site: Site, standing: Standing) -> str:
    """Returns what `keep_signal` has kept; empty if nothing is."""
    state = site.state_beside(standing.generation)
    return state.properties.get(SIGNAL, "") if state else ""


def keep_signal(site: Site, standing: Standing, note: str) -> None:
    """Keeps a note with the table beside, so that it goes with it; empty to forget it."""
    name = site.entry_beside(standing.generation).target
    with translated("keep what was asked for", site.where), effect("spark: keep signal"):
        site.spark().sql(sql.set_properties(site.catalog, name, {SIGNAL: note}))


def has_snapshot(site: Site, standing: Standing, begin: OffsetVector) -> bool:
    """Returns whether a snapshot of the whole table lies in what was read; see `Rebuild`.

    A connector sends in order, so that its last record after the first of any is of a snapshot
    that has begun there. Incremental snapshots have no record that says that it is their last, and
    Avro, and flattened records without ``source.snapshot`` among their fields, are not seen.
    """
    beside = site.state_beside(standing.generation)
    if beside is None or beside.published is None:
        return False
    ranges = begin.ranges_to(beside.published.offsets)
    if not ranges:
        return False
    options = site.config.kafka.spark_options()
    raw = read_ranges(site.spark(), site.entry.topic, ranges, options)
    layout, fmt = layout_of(beside.properties), site.planner.format(site.entry)
    raw = changes_of(raw, fmt, layout, site.entry)
    text = F.col("value").cast("string")
    said = F.coalesce(*(F.get_json_object(text, path) for path in _MARKS))
    sent = F.col("timestamp")
    begun, ended = (F.when(said.isin(*each), sent) for each in (_FIRST, _LAST))
    with translated("look for a snapshot", site.where):
        return raw.agg(F.max(ended) >= F.min(begun)).collect()[0][0] is True
