"""The cheap test for records without a schema: nothing unknown may pass it."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_assets.formats.debezium.usual_layout import usual_layout

NAMES = ("id", "a b", 'quo"te', "größe", "x.y", "back\\slash")
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(),
    st.sampled_from(['","x":1', '"},"source":{', "\\", '\\"', "{}", "[", "__debezium"]),
    st.lists(st.one_of(st.none(), st.integers(), st.text())),
    st.fixed_dictionaries({"scale": st.integers(0, 9), "value": st.text()}),
)
ROWS = st.lists(VALUES, min_size=len(NAMES), max_size=len(NAMES)).map(
    lambda values: dict(zip(NAMES, values, strict=True))
)


def _text(after: dict[str, Any], before: dict[str, Any] | None) -> str:
    envelope = {"before": before, "after": after, "source": {"lsn": 1}, "op": "u"}
    return json.dumps(envelope, separators=(",", ":"), ensure_ascii=False)


def _is_usual(text: str) -> bool:
    return re.match(usual_layout(NAMES), text) is not None


@pytest.mark.property
@given(ROWS, st.one_of(st.none(), ROWS))
def test_the_known_columns_in_their_order_are_usual(after, before):
    assert _is_usual(_text(after, before))


@pytest.mark.property
@given(ROWS, st.integers(0, len(NAMES)), VALUES, st.text(min_size=1))
def test_one_more_field_is_not_wherever_it_stands(after, at, value, name):
    if name in NAMES:
        return
    items = list(after.items())
    assert not _is_usual(_text(dict([*items[:at], (name, value), *items[at:]]), None))


@pytest.mark.property
@given(ROWS, st.sampled_from(NAMES), st.text())
def test_a_renamed_field_is_not(after, old, new):
    if new in NAMES:
        return
    renamed = {(new if name == old else name): value for name, value in after.items()}
    assert not _is_usual(_text(renamed, None))


@pytest.mark.unit
@pytest.mark.parametrize("text", ['{"op":"c","after":{}}', '{"after":{"id":1', "[]", "", "\\"])
def test_what_is_laid_out_otherwise_is_looked_at_closely(text):
    assert not _is_usual(text)


@pytest.mark.unit
def test_a_column_is_missing():
    text = _text({"id": 1, "x.y": 2}, None)
    assert not _is_usual(text)
    assert re.match(usual_layout(NAMES, ("id", "x.y")), text)
    assert not re.match(usual_layout(NAMES, ("id", "a b")), text)


@pytest.mark.property
@given(ROWS, st.sets(st.sampled_from(NAMES)), st.sets(st.sampled_from(NAMES)))
def test_only_columns_that_may_be_missing_are(after, missing, optional):
    given_ = {name: value for name, value in after.items() if name not in missing}
    layout = usual_layout(NAMES, [name for name in NAMES if name not in optional])
    assert (re.match(layout, _text(given_, None)) is not None) == (missing <= optional)
