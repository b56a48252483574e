"""The means of an operation on one table, in the test's process."""

from __future__ import annotations

from cdc_assets.config import ReplicationConfig
from cdc_assets.operate.services import Services
from cdc_assets.operations.session import Host, TableSession
from cdc_assets.registry import TableEntry
from cdc_assets_tests.pipeline import Session


def session_of(config: ReplicationConfig, entry: TableEntry, spark: Session) -> TableSession:
    """The session of one table."""
    return TableSession(Services(config), [entry], Host("test", spark))
