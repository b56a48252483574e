"""A rebuild from the log needs a log that has changes of all rows."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cdc_assets.changes.names import LakeName, TableName
from cdc_assets.errors import TerminalError
from cdc_assets.lake import TableState
from cdc_assets.operations.rebuild.table_rebuild import TableRebuild
from cdc_assets.registry import TableEntry

pytestmark = pytest.mark.unit

AT = datetime(2026, 3, 4, tzinfo=UTC)
ENTRY = TableEntry(TableName("s", "public", "t"), "t", LakeName("n", "t"), AT)
LOST = replace(TableState.absent(ENTRY.target), snapshot_id=7, is_lost=True)
"""A table whose publishes were expired, so that nothing tells how it began."""


def require_whole_log(old: TableState, *, reads_first: bool) -> None:
    source = SimpleNamespace(
        reads_first=lambda _: reads_first, rebuild_command=lambda _: "rebuild --from-source"
    )
    session = SimpleNamespace(config=SimpleNamespace(source=lambda _: source))
    rebuild = SimpleNamespace(_session=session, _entry=ENTRY, tables=SimpleNamespace(where=""))
    TableRebuild._require_whole_log(cast("Any", rebuild), old)  # noqa: SLF001


def test_a_table_that_lost_its_offsets_is_not_rebuilt_without_the_rows_that_were_read() -> None:
    with pytest.raises(TerminalError, match=r"initial: read.*--from-source"):
        require_whole_log(LOST, reads_first=True)
    require_whole_log(LOST, reads_first=False)
