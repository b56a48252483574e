"""A secret that this process lacks hides its own part only: the others are asked and judged."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from cdc_assets.changes.names import TableName
from cdc_assets.databases.postgres.server import PostgresServer
from cdc_assets.operate.assess import gather
from cdc_assets.operate.assess.gather import SourceFacts
from cdc_assets.operate.services import Services
from cdc_assets_tests.configuration import platform, source, write
from cdc_assets_tests.world import entry_of

pytestmark = pytest.mark.unit

DATABASE = {"kind": "postgres", "dsn": "postgresql://127.0.0.1:1/shop"}


def test_the_database_is_asked_where_the_address_of_connect_is_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = PostgresServer("logical", None, {}, {})

    def read(_: object, tables: Sequence[TableName], users: set[str]) -> PostgresServer:
        assert (len(tables), users) == (1, set())
        return server

    monkeypatch.setattr(gather, "read_server", read)
    shop = source("shop", connect={"url": {"env": "CONNECT_URL_UNSET"}}, database=DATABASE)
    config = write(tmp_path / "replication.yaml", platform(sources={"shop": shop}))
    entry = entry_of("orders", config)
    known = SourceFacts(Services(config), "shop", [entry])
    database = known.source.database
    assert database is not None
    assert known.server(database)[0] is server
    assert known.connector(entry) is None
