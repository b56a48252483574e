"""A table beside that another process drops and begins anew, while the first one fills it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from cdc_assets.effects import Moment, hooked
from cdc_assets.errors import ConflictError
from cdc_assets.merge.attempt import Attempts, Connections
from cdc_assets.merge.rebuild import Rebuild
from cdc_assets.merge.resnapshot.beside_table import BesideTable
from cdc_assets.merge.verifying.putting import Lakes
from cdc_assets_tests.merge.events import event
from cdc_assets_tests.merge.one_table import TABLE, Make, start
from cdc_assets_tests.pipeline import Pipeline
from cdc_assets_tests.toy import profiles

pytestmark = pytest.mark.stack


@pytest.mark.parametrize(
    "anew", [pytest.param("from its source", marks=profiles.in_soak), "from its log"]
)
def test_no_batch_goes_into_a_table_that_another_process_has_begun(
    pipeline: Make, anew: str
) -> None:
    """One that is read appends the rows of its waves, and would have those of the batch twice."""
    rows = [event("c", {"id": n, "name": "a"}, 10 * n, commit=10 * n - 1) for n in range(1, 5)]
    table = start(pipeline, *rows, batch={"max_records": 1})
    first = rebuild_of(table)
    standing = first.standing()
    first.begin(standing, from_now=False)
    begun = list[str]()

    def others(point: str, moment: Moment) -> None:
        if (point, moment) == ("spark: publish rows", Moment.AFTER) and not begun:
            begun.append(anew)
            with hooked(lambda *_: None):
                second = rebuild_of(table)
                assert second.abandon()
                if anew == "from its log":
                    second.begin(second.standing(), from_now=False)
                else:
                    begin_to_read(table, second)

    with hooked(others), pytest.raises(ConflictError):
        list(first.fill(standing))
    assert begun
    beside = first.standing().beside
    assert beside is not None
    assert not beside.total_records
    with pytest.raises(ConflictError):
        first.swap(first.standing())


def rebuild_of(table: Pipeline) -> Rebuild:
    return Rebuild(table.config, table.spark, table.entry(TABLE), "test")


def begin_to_read(table: Pipeline, rebuild: Rebuild) -> None:
    standing, connections = rebuild.standing(), Connections.of(table.config)
    attempts = Attempts(table.config, connections, table.spark, lambda: datetime.now(UTC))
    catalog = table.config.lake.catalog.name
    lakes = Lakes(attempts.session, catalog, connections.lake, attempts.planner)
    entry = rebuild.entry_beside(standing.generation)
    work = BesideTable(lakes, entry, "test", lambda: datetime.now(UTC))
    work.begin(standing.old, lambda schema: frozenset(c.name for c in schema.columns), None)
    assert work.progress.until is None
    again = BesideTable(lakes, entry, "test", lambda: datetime.now(UTC))
    assert again.state.properties == work.state.properties
