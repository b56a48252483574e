"""Broken and strange records: nothing raises, and each is a change or has a reason."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import pytest

from cdc_assets.formats.changes import Reading, decode
from cdc_assets.formats.layout import Layout
from cdc_assets.formats.spec import ReadSpec
from cdc_assets.formats.yugabyte.debezium import without_cells
from cdc_assets.schema.types import Column, Primitive, TableSchema, Wire
from cdc_assets_tests.formats.test_yugabyte_on_spark import SCHEMA, TYPES, frame, reading
from cdc_assets_tests.formats.yugabyte import TABLE, cells, event, record, schema_of, text, yugabyte
from cdc_assets_tests.toy.profiles import in_soak

Pair = tuple[bytes | None, bytes | None]
ODD: list[Any] = [
    None, True, 0, -1, 2**31, 2**63, 1e400, 0.5, "", "x", "\ud800", [], [1], {}, {"value": 1},
    {"set": True}, {"value": None, "set": None}, {"value": {}, "set": True},
    {"value": [1], "set": "yes"}, {"value": "x", "set": True, "more": 1},
]  # fmt: skip
MANY = 400


def mutated(rng: random.Random, document: Any) -> Any:
    """One place of a document replaced, renamed or removed."""
    if not isinstance(document, dict) or not document or rng.random() < 0.15:
        return rng.choice(ODD)
    name = rng.choice(sorted(document))
    match rng.choice(["in", "in", "in", "gone", "named"]):
        case "gone":
            return {key: value for key, value in document.items() if key != name}
        case "named":
            return {(key + "_" if key == name else key): value for key, value in document.items()}
        case _:
            return {**document, name: mutated(rng, document[name])}


def broken(rng: random.Random, said: bytes | None) -> bytes | None:
    """Some bytes gone, doubled or replaced."""
    at = rng.randrange(len(said or b"x"))
    tail = (said or b"")[at:]
    return (said or b"")[:at] + rng.choice([b"", tail[1:], tail * 2, b"\xff" + tail, b'"' + tail])


def generated(rng: random.Random, *, inline: bool) -> list[Pair]:
    row = {"id": 1, "name": "one", "n": 3, "at": 5}
    records: list[Pair] = []
    for number in range(MANY):
        op = rng.choice("crud")
        change: Any = event(op, number, **{"before" if op == "d" else "after": row})
        key: Any = cells({"id": 1})
        if inline:
            change = {"schema": schema_of(TYPES), "payload": change}
        if rng.random() < 0.9:
            change = mutated(rng, change)
        if rng.random() < 0.2:
            key = mutated(rng, key)
        pair = (_written(key), _written(change))
        records.append((broken(rng, pair[0]), broken(rng, pair[1])) if number % 5 == 0 else pair)
    return records


def _written(document: Any) -> bytes:
    made = json.dumps(document, separators=(",", ":"))
    return made.encode()


@pytest.mark.unit
@pytest.mark.parametrize("inline", [False, True], ids=["bare", "inline"])
def test_looking_at_any_record_raises_nothing(inline: bool) -> None:
    fmt, rng = yugabyte(), random.Random(7)
    for key, value in generated(rng, inline=inline):
        raw = replace(record(None, None), key=key, value=value)
        without_cells(raw)
        fmt.look([raw], TABLE)
        fmt.written(raw, Layout("cells-inline"))
        fmt.kind(raw)
        fmt.holds_row(raw, TABLE)
        fmt.mark(raw, only_partition=True)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("record_type", "inline"), [("partial", False), ("full", False), ("partial", True)]
)
def test_decoding_any_record_raises_nothing(spark: Any, record_type: str, inline: bool) -> None:
    rng, fmt = random.Random(11), yugabyte(record_type=record_type)
    key = cells({"id": 1})
    sound: Any = event("c", 1, after={"id": 1, "name": "one", "n": 3, "at": 5})
    if inline:
        key, sound = ({"schema": schema_of(TYPES), "payload": each} for each in (key, sound))
    how = reading(fmt, [(key, sound)])
    given = [(text(key), text(sound)), *generated(rng, inline=inline)]
    found = decode(frame(spark, given), how).collect()
    assert len(found) == len(given)
    nothing = {offset for offset, (_, value) in enumerate(given) if value == b"null"}
    left = {row["offset"] for row in found if row["op"] == "tombstone"}
    assert left - nothing == set(), "a JSON null is a tombstone, and nothing else here is one"
    assert all(row["reject"] for row in found if row["offset"] in nothing - left)
    changes = [row for row in found if not row["reject"] and row["offset"] not in nothing]
    assert all(row["op"] in {"c", "r", "u", "d"} for row in changes)
    assert all(row["key"]["id"] is not None for row in changes)
    assert found[0]["reject"] is None
    assert 0 < sum(row["reject"] is None for row in found) < len(found)


@in_soak
@pytest.mark.spark
def test_a_table_of_many_columns_is_read(spark: Any) -> None:
    names = [f"c{i}" for i in range(1000)]
    wide = (*SCHEMA.columns[:1], *(Column(n, Primitive.LONG, Wire.LONG) for n in names))
    columns = TableSchema(wide, key=("id",))
    change = event("u", 1, after={"id": 1, **dict.fromkeys(names, ...), "c7": 7})
    fmt = yugabyte()
    layout = Layout("cells", scheme=fmt.look([record(None, change)], TABLE).scheme)
    spec = ReadSpec(columns, layout, columns, TABLE, tuple(names))
    raw = frame(spark, [(text(cells({"id": 1})), text(change))])
    (found,) = decode(raw, Reading(fmt, (spec,))).collect()
    assert (found["reject"], found["row"]["c7"]) == (None, 7)
    assert [name for name in names if not found["unset"][name]] == ["c7"]
