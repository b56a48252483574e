"""Generates ``docs/reference/metrics.md`` from the families that `cdc-assets metrics` serves."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from cdc_assets.operate.exposition import families
from cdc_assets.operate.numbers import Numbers
from cdc_assets.operate.status import Status

HEAD: Final = """\
# Metrics

Generated from what `cdc-assets metrics` serves (`python -m cdc_assets_tests.pages`). To scrape
them: [Scrape metrics](../how-to/run/scrape-metrics.md).

All are gauges of present values, in base units; `_ratio` is between 0 and 1. An unknown value has
no sample. `cdc_assets_table_state` is a state set: 1 for the table's [state](states.md). While an
operator holds a table (paused, dropped, being reset), only the target of its `slo_…` has a sample.
"""
TAIL: Final = """
Dropped tables do not count for sources; paused ones count for `valid_through` only. Slots are those
that the connectors name, or without Kafka Connect all logical slots of the database. What
`valid_through` proves: [Valid through](valid-through.md).
"""


def page() -> str:
    """The whole page."""
    rows = "".join(map(_row, families(Numbers(Status(datetime.now(UTC), (), ()), (), 0.0))))
    return f"{HEAD}\n| metric | labels | meaning |\n|---|---|---|\n{rows}{TAIL}"


def _row(family: Any) -> str:
    names = family._labelnames  # noqa: SLF001 (a family without samples shows its labels there only)
    labels = ", ".join(f"`{each}`" for each in names)
    return f"| `{family.name}` | {labels} | {family.documentation} |\n"
