"""What `schema_in_sync` and ``schema diff`` say of a table, against its topic's last records."""

from __future__ import annotations

from typing import Any

import pytest

from cdc_assets.operate.schema_drift import Drift, newest_drift
from cdc_assets.operate.services import Services
from cdc_assets_tests.merge.inline import change
from cdc_assets_tests.merge.one_table import TABLE, Make, start
from cdc_assets_tests.pipeline import Pipeline

pytestmark = pytest.mark.stack

SAID: dict[str, Any] = {
    "tables": {TABLE: {"columns": {"n": {"mask": "sha256"}, "name": {"mask": "sha256"}}}}
}
ROW = {"id": 1, "name": "a", "n": 7}


def drift(made: Pipeline) -> Drift:
    services = Services(made.config)
    entry = made.entry(TABLE)
    state = services.lake.state(entry.target, entry.shard_value)
    assert state is not None
    return newest_drift(services, entry, state)


def test_columns_that_are_masked_are_in_sync(pipeline: Make) -> None:
    made = start(pipeline, change("c", ROW, 10, inline=True), **SAID)
    assert list(drift(made).lines()) == []
    made.produce(TABLE, [change("c", {**ROW, "id": 2, "city": "b"}, 20, inline=True)])
    assert list(drift(made).lines()) == ["add city string"]
    made.merge(TABLE)
    assert list(drift(made).lines()) == []
