"""`initial: read`: a new table's rows come from MariaDB, its changes from Debezium."""

from __future__ import annotations

from dataclasses import replace

import pytest
from cdc_assets_devstack.stack import LocalStack

from cdc_assets.config import ReplicationConfig
from cdc_assets_tests.stack.first_reads import target, unread
from cdc_assets_tests.stack.read_beside import MARIADB, WHILE_NOBODY_MERGES, change
from cdc_assets_tests.stack.side import side_of
from cdc_assets_tests.toy.profiles import in_soak

pytestmark = [pytest.mark.stack, pytest.mark.timeout(1200)]


def _made(stack: LocalStack, name: str) -> str:
    dsn = MARIADB.make(stack, name)
    side_of(dsn).execute("CREATE TABLE empty (id int PRIMARY KEY, at datetime(3), word text)")
    return dsn


@in_soak
def test_tables_are_read_without_their_log_and_continue_with_it(
    stack: LocalStack, stack_config: ReplicationConfig
) -> None:
    """With records that carry their schemas, though the tables were made by the catalog."""
    kind = replace(MARIADB, make=_made)
    with unread(stack, stack_config, "firstmaria", kind) as database:
        database.replicate()
        assert database.differences("ledger", "empty") == []
        state = target(database)
        assert state is not None
        assert state.published is not None
        assert state.published.topic_id == ""
        change(database, [each for each in WHILE_NOBODY_MERGES if "repeat" not in each])
        database.execute("INSERT INTO empty VALUES (1, '2026-03-04 05:06:07.089', 'ü')")
        database.wait_until_delivered()
        database.replicate()
        assert database.differences("ledger", "empty") == []
