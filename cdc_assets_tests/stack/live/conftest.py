"""A shop under light load, and the real ``dagster dev`` that replicates it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from socket import socket

import pytest

from cdc_assets.config import ReplicationConfig
from cdc_assets.devstack.demo_parts import Dagster
from cdc_assets.devstack.layout import HOST, StackLayout
from cdc_assets.devstack.shop.database import TABLES, prepare_shop
from cdc_assets.devstack.shop.load import ShopLoad
from cdc_assets.devstack.stack import LocalStack
from cdc_assets_tests.stack.live.running import SECONDS_TO_APPEAR, Live
from cdc_assets_tests.stack.replicated import CHECKOUT, replicated
from cdc_assets_tests.stack.waiting import until


@pytest.fixture(scope="package")
def live(stack: LocalStack, stack_config: ReplicationConfig) -> Iterator[Live]:
    """Running until the last test of this folder."""
    dsn = stack.postgres.dsn("live")
    prepare_shop(dsn)
    with replicated(stack, stack_config, "live", dsn) as shop:
        layout = StackLayout(shop.instance, stack.layout.ports)
        dagster = Dagster(layout, free_port(), CHECKOUT / "dagster.yaml", shop.env)
        load, stop = ShopLoad(dsn, rate=3), threading.Event()
        worker = threading.Thread(target=load.run, args=(stop,))
        try:
            worker.start()
            dagster.bring_up(lambda _: None)
            running = Live(shop, dagster)
            until(
                lambda: all(shop.publishes(table) for table in TABLES),
                "every table has its first rows",
                within_seconds=SECONDS_TO_APPEAR,
                every_seconds=1,
            )
            yield running
        finally:
            stop.set()
            worker.join(30)
            dagster.stop()


def free_port() -> int:
    with closing(socket()) as listening:
        listening.bind((HOST, 0))
        return listening.getsockname()[1]
