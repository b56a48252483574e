"""Snapshots that a signal asks for while changes are streamed."""

from __future__ import annotations

import json

import pytest

from cdc_assets.errors import RejectedRecordError
from cdc_assets_tests.stack.merging import Merging
from cdc_assets_tests.toy.profiles import in_soak
from cdc_assets_tests.waiting import until

pytestmark = pytest.mark.stack


@pytest.mark.parametrize("kind", ["INCREMENTAL", "BLOCKING"])
def test_after_a_snapshot_on_demand_amid_changes_the_lake_equals_the_source(
    semantics: Merging, kind: str
) -> None:
    database = semantics.database
    reads = sum(record.op == "r" for record in semantics.records("reread"))
    wanted = json.dumps({"data-collections": ["public.reread"], "type": kind})
    for n in range(20):
        database.execute(f"UPDATE reread SET n = n + 1 WHERE id % 20 = {n}")
    database.execute(f"INSERT INTO signals VALUES ('{kind}', 'execute-snapshot', '{wanted}')")

    def some_more() -> bool:
        database.execute(
            "UPDATE reread SET n = n + 1 WHERE id % 5 = (random() * 4)::int",
            "DELETE FROM reread WHERE id = (SELECT max(id) FROM reread)",
        )
        return sum(record.op == "r" for record in semantics.records("reread")) > reads + 100

    until(some_more, f"the rows of the {kind} snapshot")
    database.execute("UPDATE reread SET n = -1 WHERE id % 3 = 0")
    semantics.require_equal("reread")


@in_soak
def test_a_snapshot_on_demand_of_a_table_without_key_stops_it(
    semantics: Merging,
) -> None:
    """Its rows hold what was committed up to its start, and streaming goes on from before it."""
    database = semantics.database
    wanted = json.dumps({"data-collections": ["public.tally"], "type": "BLOCKING"})
    semantics.require_equal("tally")
    database.execute(f"INSERT INTO signals VALUES ('again', 'execute-snapshot', '{wanted}')")
    database.execute(
        "INSERT INTO by_default SELECT n, 'x', n FROM generate_series(1000, 30000) AS n"
    )
    database.execute("INSERT INTO tally VALUES (777)", "DELETE FROM tally WHERE a = 1")
    until(
        lambda: sum(record.op == "r" for record in semantics.records("tally")) > 5,
        "the rows of the snapshot",
    )
    database.wait_until_delivered()
    with pytest.raises(RejectedRecordError, match="taken while changes were streamed"):
        semantics.merge("tally")
