"""One source for all modules of this folder: its connector and its database start once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cdc_assets_devstack.stack import LocalStack

from cdc_assets.config import ReplicationConfig
from cdc_assets_tests.pipeline import Session
from cdc_assets_tests.stack.merging import Merging
from cdc_assets_tests.stack.replicated import new_database, replicated
from cdc_assets_tests.stack.semantics_schema import CREATE, DEBEZIUM, SOURCE

NAME = "semantics"


@pytest.fixture(scope="package")
def semantics(
    stack: LocalStack, stack_config: ReplicationConfig, spark: Session
) -> Iterator[Merging]:
    """One database with all tables; the connector sends truncates."""
    dsn = new_database(stack, NAME, *CREATE)
    with replicated(stack, stack_config, NAME, dsn, debezium=DEBEZIUM, **SOURCE) as database:
        yield Merging(database, spark)
