"""Names that want to be something else, through Kafka, Spark, the catalog and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from cdc_assets.changes.names import TableName
from cdc_assets.errors import TerminalError
from cdc_assets.merge import BatchResult
from cdc_assets.registry import Registry, TableEntry
from cdc_assets_tests.lake_view import open_catalog, read_table
from cdc_assets_tests.merge.events import event
from cdc_assets_tests.merge.one_table import TABLE, Make
from cdc_assets_tests.pipeline import Message, Pipeline
from cdc_assets_tests.toy import profiles

pytestmark = pytest.mark.stack

WORST = [
    ("../..", "x`; DROP TABLE t -- \n'\"" + "ü" * 300),
    ("public", "branch_main"),
]
KEY = "i.d`; --"
COLUMNS = ["a.b", "a", "A", "select", "`", "' OR 1=1 --", '"', "\\", "größe 订单", "x" * 300, "a b",
           "$", "{x}", "_cd", "/../", "${x}", "a${env:PATH}b", "_cdc_op",
           "_cdc_deleted"]  # fmt: skip

OURS = ["_cdc_position", "_cdc_ts"]

STORED = [KEY, *("A__2" if name == "A" else name for name in COLUMNS)]
"""Most readers of a lake do not tell ``a`` from ``A``."""


def row(id_: int, value: str, names: Sequence[str] = (KEY, *COLUMNS)) -> dict[str, Any]:
    return dict.fromkeys(names, value) | {KEY: id_}


def stored(id_: int, value: str) -> dict[str, Any]:
    return row(id_, value, STORED)


def change(op: str, id_: int, value: str, lsn: int) -> Message:
    return event(op, row(id_, value), lsn, commit=lsn - 1, key=(KEY,))


def entries(made: Pipeline, *names: tuple[str, str]) -> list[TableEntry]:
    """Tables of these names, all of which read one topic."""
    source = made.config.source(made.prefix)
    tables = [TableName(made.prefix, *each) for each in names]
    known = made.entry(TABLE)
    return [replace(known, table=each, target=source.lake_name(each)) for each in tables]


def merged(made: Pipeline, entry: TableEntry) -> dict[object, dict[str, object]]:
    drained = made.replicator().drain(entry, window=None, run_id="test", budget_seconds=300)
    assert all(isinstance(each, BatchResult) for each in drained)
    table = read_table(made.config, entry.target)
    assert table is not None
    rows = table.scan().to_arrow().drop_columns(OURS).to_pylist()
    return {each[KEY]: each for each in rows}


def test_the_worst_names_are_merged_under_the_warehouse(pipeline: Make) -> None:
    made = pipeline()
    made.create_topic(TABLE)
    found = entries(made, *(WORST if profiles.is_soak() else WORST[:1]))
    Registry.of(found)
    made.produce(TABLE, [change("c", 1, "a", 10), change("c", 2, "b", 20)])
    for entry in found:
        assert merged(made, entry) == {1: stored(1, "a"), 2: stored(2, "b")}
    made.produce(TABLE, [change("u", 1, "c", 30), change("d", 2, "b", 40), change("u", 2, "o", 15)])
    warehouse = Path(urlsplit(made.config.lake.warehouse).path)
    for entry in found:
        assert merged(made, entry) == {1: stored(1, "c")}, "deleted, and remembered"
        table = open_catalog(made.config).load_table((entry.target.namespace, entry.target.name))
        place = Path(unquote(urlsplit(table.location()).path))
        assert place.resolve().relative_to(warehouse.resolve()).parts == (
            entry.target.namespace,
            entry.target.name,
        )


@pytest.mark.parametrize(
    "name", ["_cdc_position", "_CDC_TS", "_cdc_assets_w0", "_file", "", "a\x00b"], ids=ascii
)
def test_a_column_that_cannot_be_stored_is_refused(pipeline: Make, name: str) -> None:
    made = pipeline()
    made.create_topic(TABLE)
    made.produce(TABLE, [event("c", {"id": 1, name: "a"}, 10, commit=9)])
    with pytest.raises(TerminalError, match="names that Iceberg or the lake tables reserve"):
        made.merge(TABLE)
    assert made.lake.state(made.entry(TABLE).target) is None
