"""Merges hours of a table once more, for `cdc-assets replay`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import ConfigError
from cdc_assets.log.hours import HourWindow, hour_of
from cdc_assets.operate.discovery import find_table
from cdc_assets.orchestration.command_work import Failed, working
from cdc_assets.orchestration.keys import REPLAY

RANGE_START: Final = "dagster/asset_partition_range_start"
RANGE_END: Final = "dagster/asset_partition_range_end"


def run_replay(config: ReplicationConfig, table: str, first: str, last: str) -> Failed:
    """Merges the hours from ``first`` to ``last`` (both inclusive) once more.

    Hours before the table's first one belong to the first.

    Raises:
        CdcError: if the table or the hours do not exist.
    """
    start, end = parse_hour(first), parse_hour(last)
    if end < start:
        msg = f"--to {end.key} is before --from {start.key}"
        raise ConfigError(msg, remedy="give the earlier hour first")
    with working(config) as work:
        entry = find_table(config, work.services.registry.load(), table)
        start, end = (hour_of(each.start, entry.hours_from) for each in (start, end))
        tags = {RANGE_START: start.key, RANGE_END: end.key}
        work.run([entry], REPLAY, tags=tags)
        return work.failed


def parse_hour(text: str) -> HourWindow:
    """Parses ``2026-03-01-07:00`` (a partition key) or ISO 8601, which is UTC without a zone.

    Raises:
        ConfigError: if the text is neither, or the hour is outside of the partitions.
    """
    try:
        return HourWindow.from_key(text)
    except ValueError:
        pass
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        msg = f"{text!r} is not an hour"
        raise ConfigError(msg, remedy="write 2026-03-01T07:00, in UTC") from None
    return hour_of(at if at.tzinfo else at.replace(tzinfo=UTC))
