"""What every database does alike to compare rows: it looks the table up, and sorts rows by key."""

import pytest

from cdc_assets.changes.names import TableName
from cdc_assets.databases.rows import Access, SourceKeyRows, table_of
from cdc_assets.errors import TerminalError
from cdc_assets.schema.comparing import Compared, Comparison, Form
from cdc_assets.schema.types import Column, Primitive, TableSchema, Wire

pytestmark = pytest.mark.unit

ID = Compared(Column("id", Primitive.STRING, Wire.STRING), Form.TEXT)
NOTE = Compared(Column("note", Primitive.STRING, Wire.STRING), Form.TEXT)
BOTH = Comparison((ID, NOTE), (ID,), (), is_keyed=True)
ACCESS = Access("dsn", ("public", "orders"), TableSchema((), ()), "table=shop.public.orders")


def test_rows_are_found_by_the_keys_that_were_asked_for_and_by_no_others():
    rows = [
        ("a", "a", "one", "a", "'one'"),
        ("A", "A", "equal by the collation", "A", "'equal by the collation'"),
        ("b", "b", None, "b", None),
    ]
    found = SourceKeyRows.of("0/10", rows, BOTH, [("a",), ("b",), ("c",)])
    assert found == SourceKeyRows(
        "0/10",
        {("a",): ("a", "one"), ("b",): ("b", None)},
        {("a",): ("a", "'one'"), ("b",): ("b", None)},
    )


def test_a_table_is_read_by_its_name_in_the_database():
    asked = []

    def read(dsn, tables):
        asked.extend([dsn, *tables])
        return {TableName("", "public", "orders"): "the table"}

    assert table_of(ACCESS, read) == "the table"
    assert asked == ["dsn", TableName("", "public", "orders")]


def test_a_table_that_the_database_lacks_is_refused():
    with pytest.raises(TerminalError, match=r"no such table.*table=shop\.public\.orders"):
        table_of(ACCESS, lambda dsn, tables: {})
