"""Names and messages do nothing to a terminal or a log, whatever a source calls its tables."""

from __future__ import annotations

import pytest

from cdc_assets.changes.names import TableName
from cdc_assets.errors import TerminalError
from cdc_assets.schema.ddl import ColumnChange, ColumnChangeKind, Relation

pytestmark = pytest.mark.unit

ODD = "a\x1b]0;owned\x07\r\n2026-01-01 ERROR \u202eb\u2028é日"
SHOWN = "a\\x1b]0;owned\\x07\\r\\n2026-01-01 ERROR \\u202eb\\u2028é日"


def test_what_is_not_printable_is_escaped_where_names_are_shown() -> None:
    table = TableName("shop", "public", ODD)
    assert str(table) == f"shop.public.{SHOWN}"
    assert str(Relation("public", ODD)) == f"public.{SHOWN}"
    renamed = ColumnChange(ColumnChangeKind.RENAMED, ODD, ODD)
    assert renamed.describe() == f"rename {SHOWN} to {SHOWN}"


def test_a_name_equals_itself_as_it_is() -> None:
    table = TableName("shop", "public", ODD)
    assert (table.name, table.qualified) == (ODD, f"public.{ODD}")
    assert table != TableName("shop", "public", SHOWN)


def test_errors_escape_all_but_their_own_line_ends() -> None:
    error = TerminalError(f"column {ODD}", where=f"table={ODD}", remedy="do\nthis")
    assert "\x1b" not in str(error)
    assert "\r" not in str(error)
    assert error.where.startswith("table=a\\x1b]0;owned\\x07\\r\n")
    assert error.remedy == "do\nthis"
