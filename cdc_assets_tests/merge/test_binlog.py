"""Positions of MySQL through the real merge: files by number, and numbering that starts again."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from cdc_assets_tests.pipeline import Message, Pipeline

pytestmark = pytest.mark.stack

TABLE = "shop.t"
OLD, NEW = "3e11fa47-71ca-11e1-9e33-c80aa9429562", "7b22fa47-71ca-11e1-9e33-c80aa9429111"


def change(op: str, name: str | None, file: int, pos: int, gtid: str) -> Message:
    row = {"id": 1, "name": name}
    source = {
        "connector": "mysql",
        "ts_ms": 1_760_000_000_000,
        "snapshot": "false",
        "server_id": 1,
        "gtid": gtid,
        "file": f"binlog.{file:06}",
        "pos": pos,
        "row": 0,
    }
    images = {"before": row if op == "d" else None, "after": None if op == "d" else row}
    value = json.dumps({**images, "source": source, "op": op}, separators=(",", ":"))
    return Message(b'{"id":1}', value.encode())


def test_what_a_new_primary_numbers_lower_is_newer_and_what_is_sent_again_is_not(
    pipeline: Callable[..., Pipeline],
) -> None:
    made = pipeline()
    made.create_topic(TABLE)
    first = [
        change("c", "made", 999_999, 700, f"{OLD}:1"),
        change("u", "file by number", 1_000_000, 4, f"{OLD}:2"),
    ]
    batches = [
        ([*first, first[0]], "file by number"),
        ([change("u", "failed over", 3, 200, f"{NEW}:1")], "failed over"),
        ([change("u", "went on", 3, 300, f"{NEW}:2")], "went on"),
        ([change("u", "failed over", 3, 200, f"{NEW}:1")], "went on"),
    ]
    for events, name in batches:
        made.produce(TABLE, events)
        made.merge(TABLE)
        assert made.rows(TABLE) == [{"id": 1, "name": name}]
    published = made.lake.history(made.entry(TABLE).target, 1)[0]
    assert json.loads(published.carried.numbering)["0"]["restarts"] == [[3, 1]]
