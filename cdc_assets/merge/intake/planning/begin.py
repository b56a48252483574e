"""Reads where a table begins in its topic, if that is not the log's beginning."""

from __future__ import annotations

from typing import Final

from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.lake import TableState

BEGIN: Final = "cdc-assets.begin"
"""Property of a lake table: the offsets before its first batch, if not the log's beginning."""
BEGIN_TOPIC: Final = "cdc-assets.begin-topic"
"""Property beside it: the id of the topic that they are of."""
BEGIN_WHOLE: Final = "cdc-assets.begin-whole"
"""Property beside it: the whole table lies behind them, and no snapshot has to be waited for."""


def begin_of(state: TableState | None) -> OffsetVector | None:
    """Returns where a table built from a new snapshot begins; None for the log's beginning.

    Args:
        state: of the lake's table; None if there is no table.

    Returns:
        The first offset to read of each partition, inclusive.
    """
    text = state.properties.get(BEGIN) if state else None
    return OffsetVector.from_json(text) if text else None
