"""The same history in each dialect of ``debezium-json``, through Kafka, Spark and Iceberg."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cdc_assets.errors import TerminalError
from cdc_assets_tests.merge import dialects
from cdc_assets_tests.merge.dialects import Rewrite
from cdc_assets_tests.merge.events import event
from cdc_assets_tests.merge.one_table import TABLE, Make, names, start
from cdc_assets_tests.pipeline import Message, Pipeline
from cdc_assets_tests.toy.profiles import in_soak

pytestmark = pytest.mark.stack

FLATTENED: dict[str, Any] = {"connector": {"flattened": True}}


def changes(rewrite: Rewrite, *messages: Message) -> list[Message]:
    return [each for message in messages for each in rewrite(message)]


def change(op: str, id_: int, name: str | None, lsn: int) -> Message:
    return event(op, {"id": id_, "name": name}, lsn, commit=None if op == "r" else lsn - 1)


def documents_of(table: Pipeline) -> dict[object, object]:
    """Names within documents, by the ids that their keys told."""
    return {int(r["_id"]): json.loads(r["document"])["name"] for r in table.rows(TABLE)}  # type: ignore[call-overload,arg-type]


BEGIN = [change("r", 1, "a", 100), change("r", 2, "b", 100), change("c", 3, "c", 130)]
THEN = [change("u", 1, "A", 140), change("d", 2, "b", 150), change("c", 4, "d", 160)]
LATE = [change("u", 1, "late", 120), change("u", 2, "late", 125)]
LEFT = {1: "A", 3: "c", 4: "d"}


@pytest.mark.parametrize(
    "rewrite",
    [
        dialects.flat,
        pytest.param(dialects.flat_inline, marks=in_soak),
        pytest.param(dialects.cloud_event, marks=in_soak),
    ],
    ids=lambda rewrite: rewrite.__name__,
)
def test_what_arrives_late_is_told_by_its_position(pipeline: Make, rewrite: Rewrite) -> None:
    table = start(pipeline, *changes(rewrite, *BEGIN))
    assert names(table) == {1: "a", 2: "b", 3: "c"}
    assert set(table.rows(TABLE)[0]) == {"id", "name"}
    table.produce(TABLE, changes(rewrite, *THEN))
    (result,) = table.merge(TABLE)
    assert (result.inserted, result.updated, result.deleted, result.rejected) == (1, 1, 1, 0)
    assert names(table) == LEFT
    table.produce(TABLE, changes(rewrite, *LATE))
    table.merge(TABLE)
    assert names(table) == LEFT
    table.replay(TABLE)
    assert names(table) == LEFT


@pytest.mark.parametrize(
    ("rewrite", "read", "source"),
    [
        pytest.param(dialects.flat_alone, names, FLATTENED, marks=in_soak),
        (dialects.documents, documents_of, {}),
    ],
    ids=["flat without added fields", "documents"],
)
def test_what_has_no_position_counts_in_the_order_of_its_partition(
    pipeline: Make, rewrite: Rewrite, read: Any, source: dict[str, Any]
) -> None:
    table = start(pipeline, *changes(rewrite, *BEGIN), **source)
    assert read(table) == {1: "a", 2: "b", 3: "c"}
    table.produce(TABLE, changes(rewrite, *THEN))
    table.merge(TABLE)
    assert read(table) == LEFT
    table.replay(TABLE)
    assert read(table) == LEFT


def test_flattened_rows_do_not_tell_what_an_update_was_of(pipeline: Make) -> None:
    keyless = [Message(None, each.value) for each in changes(dialects.flat, *BEGIN)]
    with pytest.raises(TerminalError, match="without a key"):
        start(pipeline, *keyless)
    with pytest.raises(TerminalError, match="an update may change the key"):
        start(pipeline, *keyless, tables={TABLE: {"primary_key": ["id"]}})


def test_flattened_rows_with_scalar_keys_are_keyed_by_them(pipeline: Make) -> None:
    def keyed(message: Message) -> Message:
        key = json.loads(message.key or b"{}")["id"]
        return Message(str(key).encode(), message.value)

    source = {**FLATTENED, "tables": {TABLE: {"primary_key": ["id"]}}}
    sent = [keyed(each) for each in changes(dialects.flat_alone, *BEGIN, *THEN)]
    table = start(pipeline, *sent, **source)
    assert names(table) == LEFT
