"""A table beside that another process drops and begins anew, while the first one fills it."""

from __future__ import annotations

import pytest

from cdc_assets.effects import Moment, hooked
from cdc_assets.errors import ConflictError
from cdc_assets.operations.rebuild.shadow_table import BegunRead, ShadowTable
from cdc_assets.operations.rebuild.table_rebuild import TableRebuild
from cdc_assets_tests.merge.events import event
from cdc_assets_tests.merge.one_table import TABLE, Make, start
from cdc_assets_tests.operated import rebuild_of
from cdc_assets_tests.pipeline import Pipeline
from cdc_assets_tests.toy import profiles

pytestmark = pytest.mark.stack


@pytest.mark.parametrize(
    "anew", [pytest.param("from its source", marks=profiles.in_soak), "from its log"]
)
def test_no_batch_goes_into_a_table_that_another_process_has_started(
    pipeline: Make, anew: str
) -> None:
    """One that is read appends the rows of its waves, and would have those of the batch twice."""
    rows = [event("c", {"id": n, "name": "a"}, 10 * n, commit=10 * n - 1) for n in range(1, 5)]
    table = start(pipeline, *rows, batch={"max_records": 1})
    first = started(table)
    standing = first.tables.standing()
    first.begin(standing, from_now=False)
    begun = list[str]()

    def others(point: str, moment: Moment) -> None:
        if (point, moment) == ("spark: publish rows", Moment.AFTER) and not begun:
            begun.append(anew)
            with hooked(lambda *_: None):
                second = started(table)
                assert second.abandon()
                if anew == "from its log":
                    second.begin(second.tables.standing(), from_now=False)
                else:
                    begin_to_read(second)

    with hooked(others), pytest.raises(ConflictError):
        list(first.fill(standing))
    assert begun
    beside = first.tables.standing().shadow
    assert beside is not None
    assert not beside.total_records
    with pytest.raises(ConflictError):
        first.swap(first.tables.standing())


def started(table: Pipeline) -> TableRebuild:
    return rebuild_of(table.config, table.spark, table.entry(TABLE))


def begin_to_read(rebuild: TableRebuild) -> None:
    standing = rebuild.tables.standing()
    work = ShadowTable(rebuild.tables, standing.generation)
    read = BegunRead(None, (), 0)
    work.begin(standing.old, lambda schema: frozenset(c.name for c in schema.columns), read)
    assert work.progress.until is None
    again = ShadowTable(rebuild.tables, standing.generation)
    assert again.state.properties == work.state.properties
