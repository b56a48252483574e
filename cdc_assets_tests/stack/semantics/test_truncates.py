"""A truncate amid other changes, merged and replayed."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from cdc_assets.log.hours import hour_of
from cdc_assets.registry import RegistryFile
from cdc_assets_tests.lake_view import read_rows
from cdc_assets_tests.stack.merging import Merging

pytestmark = pytest.mark.stack


def test_a_truncate_amid_other_changes_and_a_replay_of_its_hour(semantics: Merging) -> None:
    database, table = semantics.database, str(semantics.database.entry("cleared").table)
    begin = hour_of(datetime.now(UTC))
    rows = "INSERT INTO cleared SELECT n, '{}', n FROM generate_series({}, {}) AS n"
    database.execute(rows.format("first", 1, 40))
    semantics.require_equal("cleared")

    database.execute("UPDATE cleared SET n = 0 WHERE id < 20", rows.format("gone", 41, 60))
    database.execute(
        "DELETE FROM cleared WHERE id = 7", rows.format("gone", 61, 70), "TRUNCATE cleared",
        rows.format("kept", 5, 15), "UPDATE cleared SET n = -n WHERE id % 2 = 0",
    )  # fmt: skip
    database.execute(rows.format("later", 30, 45), "DELETE FROM cleared WHERE id = 6")
    [batch] = semantics.require_equal("cleared")
    assert len(batch.ranges) > 1
    assert len(read_rows(database.config, database.entry("cleared").target)) == 26

    database.execute("TRUNCATE cleared, by_nothing", rows.format("last", 1, 3))
    database.execute("TRUNCATE cleared", rows.format("last of all", 2, 4))
    semantics.require_equal("cleared", "by_nothing")

    RegistryFile(database.config.registry).add([database.entry("cleared")])
    before, end = content(semantics, "cleared"), hour_of(datetime.now(UTC))
    database.run("replay", "--table", table, "--from", begin.key, "--to", end.key)
    assert content(semantics, "cleared") == before
    assert database.differences("cleared") == []


def content(semantics: Merging, table: str) -> list[str]:
    database = semantics.database
    return sorted(map(repr, read_rows(database.config, database.entry(table).target)))
