"""The shop on the tests' stack."""

from collections.abc import Iterator

import pytest
from cdc_assets_devstack.shop.connector import CONNECTOR, EXACT_NUMBERS, connector_config
from cdc_assets_devstack.shop.database import prepare_shop
from cdc_assets_devstack.stack import LocalStack


@pytest.fixture(scope="session")
def shop_dsn(stack: LocalStack) -> Iterator[str]:
    """The shop, with its connector registered, which writes numbers as the demo's does."""
    dsn = stack.postgres.dsn("shop")
    prepare_shop(dsn)
    stack.register_connector(CONNECTOR, connector_config(stack.layout) | EXACT_NUMBERS)
    yield dsn
    stack.connect.unregister(CONNECTOR)
