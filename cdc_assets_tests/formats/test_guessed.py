"""What values tell of columns, and what they do not."""

from __future__ import annotations

import pytest

from cdc_assets.config import SourceConfig
from cdc_assets.errors import ConfigError, TerminalError
from cdc_assets.formats.guessed import guess, unseen
from cdc_assets.schema.modes import ConnectorModes
from cdc_assets.schema.overrides import apply_overrides
from cdc_assets.schema.parse import parse_spec
from cdc_assets.schema.types import Column, TableSchema, UnmappedColumn

pytestmark = pytest.mark.unit


def configured(rows: list[dict], **types: str) -> TableSchema:
    specs = {name: parse_spec(text) for name, text in types.items()}
    return apply_overrides(guess(rows, ("id",), "UTC"), specs, (), ConnectorModes()).exact()


@pytest.mark.parametrize(
    ("values", "stored"),
    [
        ([1, None, -(2**63)], "bigint"),
        (["a", None], "string"),
        ([True, False], "boolean"),
        ([None], "string"),
    ],
)
def test_what_json_tells_is_stored(values: list, stored: str) -> None:
    (column,) = guess([{"c": value} for value in values], (), None).columns
    assert isinstance(column, Column)
    assert str(column.type) == stored


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([1, 2.5], "decimal from a float"),
        ([1.0], "decimal from a float"),
        ([2**63], "64 bits"),
        ([["a"]], "arrays or objects"),
        ([{"a": 1}, 1], "arrays or objects"),
        (["a", 1], "several kinds"),
        ([True, 1], "several kinds"),
    ],
)
def test_what_json_does_not_tell_is_refused(values: list, reason: str) -> None:
    (column,) = guess([{"c": value} for value in values], (), None).columns
    assert isinstance(column, UnmappedColumn)
    assert reason in column.reason


def test_a_table_with_fractions_stops_until_somebody_says_what_they_are() -> None:
    rows = [{"id": 1, "price": 10.5, "at": "2026-01-31 12:00:00", "raw": "AAE=", "doc": [1]}]
    with pytest.raises(TerminalError, match=r"price .*configure decimal"):
        configured(rows, doc="string")
    table = configured(
        rows, price="decimal(10,2)", at="timestamptz", raw="binary", doc="string", id="int"
    )
    assert [f"{each.type} from {each.wire}" for each in table.columns] == [
        "int from scalar",
        "decimal(10,2) from scalar",
        "timestamp from scalar",
        "binary from scalar",
        "string from json",
    ]


def test_nested_values_are_nothing_but_text() -> None:
    with pytest.raises(ConfigError, match="arrive as json"):
        configured([{"id": 1, "doc": {"a": 1}}], doc="bigint")


def test_a_column_without_values_is_told_of() -> None:
    warnings = guess([{"id": 1, "n": None}], (), None).warnings
    assert warnings[1:] == ("column n: only nulls were seen, taken as string",)


def test_a_column_that_appears_later_is_what_is_configured() -> None:
    found = apply_overrides(unseen("n", None), {"n": parse_spec("double")}, (), ConnectorModes())
    (column,) = found.exact().columns
    assert f"{column.type} from {column.wire}" == "double from scalar"


def test_formats_of_messages_read_what_appears_later_in_the_same_way() -> None:
    from cdc_assets.formats.registered import format_of

    for name in ("maxwell-json", "ogg-json"):
        said = {"format": name, "topics": {"include": [".*"]}}
        found = format_of(SourceConfig.model_validate(said)).unseen("n")
        assert found == unseen("n", None)
