"""MySQL's types as Maxwell writes them: what is stored, what is refused."""

from __future__ import annotations

import pytest

from cdc_assets.databases.mysql.maxwell_types import describe_maxwell_table, map_maxwell_column
from cdc_assets.databases.mysql.types import MysqlColumn
from cdc_assets.schema.types import Column, UnmappedColumn, Wire, WireDetail

pytestmark = pytest.mark.unit

STORED = [
    ("tinyint(1)", "int from scalar"),
    ("int unsigned", "bigint from scalar"),
    ("bigint", "bigint from scalar"),
    ("bigint(20) unsigned", "decimal(20,0) from scalar"),
    ("decimal(10,2)", "decimal(10,2) from scalar"),
    ("float", "float from scalar"),
    ("double", "double from scalar"),
    ("year", "int from scalar"),
    ("date", "date from scalar"),
    ("datetime(6)", "timestamp_ntz from scalar"),
    ("timestamp", "timestamp from scalar"),
    ("varchar(20)", "string from string"),
    ("enum('a','b')", "string from string"),
    ("set('a','b')", "string from labels"),
    ("json", "string from json"),
    ("blob", "binary from scalar"),
    ("bit(1)", "boolean from scalar"),
    ("bit(8)", "bigint from scalar"),
]
REFUSED = [
    ("time", "below 0", Wire.TIME_TEXT),
    ("bit(9)", "from the wrong end", Wire.SCALAR),
    ("bit(64)", "from the wrong end", Wire.SCALAR),
    ("point", "WKT", Wire.SCALAR),
    ("vector(3)", "does not read it", None),
    ("uuid", "does not read it", None),
    ("nonsense", "no lake type", None),
]


def mapped(type_text: str, zone: str | None = "UTC") -> Column | UnmappedColumn:
    return map_maxwell_column(MysqlColumn("c", type_text), zone)


@pytest.mark.parametrize(("type_text", "stored"), STORED)
def test_a_type_is_stored(type_text: str, stored: str) -> None:
    found = mapped(type_text)
    assert isinstance(found, Column)
    assert f"{found.type} from {found.wire}" == stored


@pytest.mark.parametrize(("type_text", "reason", "wire"), REFUSED)
def test_a_type_is_refused_with_a_reason(type_text: str, reason: str, wire: Wire | None) -> None:
    found = mapped(type_text)
    assert isinstance(found, UnmappedColumn)
    assert reason in found.reason
    assert found.wire is wire


@pytest.mark.parametrize("zone", [None, "Europe/Zurich"])
def test_instants_need_a_maxwell_that_runs_in_utc(zone: str | None) -> None:
    found = mapped("timestamp(6)", zone)
    assert isinstance(found, UnmappedColumn)
    assert "TZ=UTC" in found.reason


def test_bytes_of_fixed_width_know_it() -> None:
    widths = {text: mapped(text) for text in ("binary(16)", "binary", "varbinary(16)")}
    found = {text: each.detail for text, each in widths.items() if isinstance(each, Column)}
    assert found == {
        "binary(16)": WireDetail(width=16),
        "binary": WireDetail(width=1),
        "varbinary(16)": WireDetail(width=0),
    }


def test_a_table_has_the_key_and_comment_of_the_catalog() -> None:
    columns = [MysqlColumn("id", "int", not_null=True, comment="no.")]
    table = describe_maxwell_table(columns, ("id",), zone=None, comment="things").exact()
    assert (table.key, table.comment, table.origin) == (("id",), "things", "database catalog")
    assert table.columns[0].required
