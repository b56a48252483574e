"""Records and describes a table that waits for the end of a transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import StalledError
from cdc_assets.operate.connectors import connector_words
from cdc_assets.operate.failures import Hold
from cdc_assets.registry import TableEntry

if TYPE_CHECKING:
    from cdc_assets.merge import Waiting


def hold_of(waiting: Waiting) -> Hold:
    """Returns the recorded wait, which decides when the table is tried again."""
    return Hold(waiting.transaction, waiting.since, waiting.stops_at, waiting.log_end)


def waiting_words(config: ReplicationConfig, entry: TableEntry, waiting: Waiting) -> str:
    """Says what is missing and where, the connector's state, and what to do."""
    return str(_error(config, entry, waiting, waiting.reason))


def stalled(config: ReplicationConfig, entry: TableEntry, waiting: Waiting) -> StalledError:
    """Returns the error of a table that has waited for too long."""
    what = f"waited for too long, since {waiting.since:%Y-%m-%d %H:%M:%S}Z: {waiting.reason}"
    return _error(config, entry, waiting, what)


def _error(
    config: ReplicationConfig, entry: TableEntry, waiting: Waiting, what: str
) -> StalledError:
    unread = f"{waiting.unread} offsets wait"
    remedy = f"{waiting.remedy}: {connector_words(config, entry)}"
    return StalledError(f"{what}; {unread}", where=waiting.where, remedy=remedy)
