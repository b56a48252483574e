"""The settings of a session that reads rows, whatever the server's own are."""

from __future__ import annotations

from unittest.mock import MagicMock

import pytest

from cdc_assets.databases.mysql.rows import MysqlRows
from cdc_assets.databases.rows import Access
from cdc_assets.schema.types import TableSchema

pytestmark = pytest.mark.unit


def test_readers_get_all_rows_of_the_usual_form() -> None:
    access = Access("mysql://me@db.example:3306/shop", ("shop", "orders"), TableSchema((), ()), "")
    options = MysqlRows(MagicMock(), access, MagicMock()).reader_options()
    said = dict(each.split("=", 1) for each in options["sessionVariables"].split(","))
    assert (
        said.items()
        >= {
            "time_zone": "'+00:00'",
            "sql_mode": "''",
            "sql_select_limit": "18446744073709551615",
        }.items()
    )
