"""Tables of many columns, topics of many partitions, logs of many snapshots and schemas."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cdc_assets.changes.offsets import OffsetRange
from cdc_assets_tests.merge.events import PLACEHOLDER, event
from cdc_assets_tests.merge.one_table import TABLE, Make, names, start
from cdc_assets_tests.pipeline import Message
from cdc_assets_tests.toy import profiles

pytestmark = [pytest.mark.stack, profiles.in_soak]

COLUMNS, TEXTS = (1500, 500) if profiles.is_soak() else (250, 150)
"""A table of 120 text columns could not be merged once."""
Row = dict[str, Any]


def row(id_: int, mark: str, *, kept: range = range(0)) -> Row:
    """A wide row; the columns of ``kept`` are left alone by an update."""
    texts = {f"text_{n}": PLACEHOLDER if n in kept else f"{mark} {n}" for n in range(TEXTS)}
    return {"id": id_, **texts, **{f"n_{n}": id_ + n for n in range(COLUMNS - TEXTS - 1)}}


@pytest.mark.parametrize("deletes", ["hard", "soft"])
def test_many_columns_of_which_many_may_be_left_out(pipeline: Make, deletes: str) -> None:
    made = start(
        pipeline,
        event("c", row(1, "first"), 10, commit=9),
        event("c", row(2, "second"), 11, commit=9),
        tables={TABLE: {"deletes": deletes}},
    )
    changes = [
        event("u", row(1, "third", kept=range(TEXTS * 3 // 5)), 20, commit=19),
        event("u", row(1, "fourth", kept=range(TEXTS * 2 // 5, TEXTS)), 30, commit=29),
        event("c", row(3, "fifth"), 31, commit=29),
        event("u", row(3, "sixth", kept=range(TEXTS // 5)), 40, commit=39),
        event("d", {"id": 2}, 50, commit=49),
    ]
    made.produce(TABLE, changes)
    made.merge(TABLE)
    merged = row(1, "fourth", kept=range(TEXTS * 2 // 5, TEXTS))
    merged |= {f"text_{n}": f"first {n}" for n in range(TEXTS * 2 // 5, TEXTS * 3 // 5)}
    merged |= {f"text_{n}": f"third {n}" for n in range(TEXTS * 3 // 5, TEXTS)}
    other = row(3, "sixth") | {f"text_{n}": f"fifth {n}" for n in range(TEXTS // 5)}
    expected = {1: merged, 3: other} | ({2: row(2, "second")} if deletes == "soft" else {})
    assert made.by_key(TABLE) == expected
    made.replay_offsets(TABLE, OffsetRange(0, 1, 5))
    assert made.by_key(TABLE) == expected


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("partitions", [64, 1000])
def test_snapshots_and_late_changes_in_many_partitions(pipeline: Make, partitions: int) -> None:
    many = range(partitions)
    made = pipeline()
    made.create_topic(TABLE, len(many))
    for lsn in (1000, 2000):
        reads = [event("r", {"id": p, "name": f"at {lsn}"}, lsn, partition=p) for p in many]
        late = [
            event("u", {"id": p, "name": f"after {lsn}"}, 900 + p % 64, partition=p)
            for p in many
            if p % 2
        ]
        made.produce(TABLE, [*reads, *late])
        made.merge(TABLE)
        assert names(made) == {p: f"after {lsn}" if p % 2 else f"at {lsn}" for p in many}


def test_fifty_snapshots_in_one_partition(pipeline: Make) -> None:
    made = pipeline()
    made.create_topic(TABLE)
    snapshots = [
        each
        for lsn in range(1000, 60_000, 1000)
        for each in (
            event("r", {"id": 1, "name": f"at {lsn}"}, lsn),
            event("r", {"id": 2, "name": f"at {lsn}"}, lsn),
            event("u", {"id": 2, "name": f"after {lsn}"}, 900),
        )
    ]
    made.produce(TABLE, snapshots)
    made.merge(TABLE)
    assert names(made) == {1: "at 59000", 2: "after 59000"}


def test_fifty_schemas_in_one_batch(pipeline: Make) -> None:
    def with_schema(number: int) -> Message:
        """One column more each time; of two columns the wire type changes once."""
        kind = "int32" if number < 25 else "int64"
        fields = [
            {"field": "id", "type": "int64", "optional": False},
            {"field": "n", "type": kind, "optional": True},
            *({"field": f"c{i}", "type": "string", "optional": True} for i in range(number)),
        ]
        image = {"type": "struct", "fields": fields, "optional": True, "field": "after"}
        value = {"id": number, "n": number, **{f"c{i}": f"{number} {i}" for i in range(number)}}
        plain = event("c", value, 10 + number, commit=9)
        schema = json.dumps({"type": "struct", "fields": [image], "name": "t.Envelope"})
        key = '{"type":"struct","fields":[{"field":"id","type":"int64"}]}'
        return Message(
            b'{"schema":%s,"payload":%s}' % (key.encode(), plain.key or b""),
            b'{"schema":%s,"payload":%s}' % (schema.encode(), plain.value or b""),
        )

    made = start(pipeline, *(with_schema(number) for number in range(50)))
    assert made.by_key(TABLE) == {
        number: {
            "id": number,
            "n": number,
            **{f"c{i}": f"{number} {i}" if i < number else None for i in range(49)},
        }
        for number in range(50)
    }
