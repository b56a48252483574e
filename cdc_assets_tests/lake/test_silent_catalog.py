"""A REST catalog that takes connections and says nothing is given up."""

from __future__ import annotations

import socket
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cdc_assets.changes.names import LakeName
from cdc_assets.errors import ConfigError, UnreachableError
from cdc_assets.lake import Lake
from cdc_assets_tests.configuration import platform, write

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("properties", [{}, {"credential": {"env": "SILENT_CREDENTIAL"}}],
                         ids=["asked for its settings", "asked for a token"])  # fmt: skip
def test_a_catalog_that_is_silent_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, properties: dict[str, Any]
) -> None:
    monkeypatch.setattr("cdc_assets.lake.connection.LOOK_SECONDS", 0.2)
    monkeypatch.setenv("SILENT_CREDENTIAL", "somebody:hush-hush")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        uri = f"http://127.0.0.1:{silent.getsockname()[1]}"
        catalog = {"type": "rest", "uri": uri, "properties": properties}
        lake = {"catalog": catalog, "warehouse": "s3://lake/warehouse"}
        config = write(tmp_path / "replication.yaml", platform(lake=lake, sources={}))
        began = time.monotonic()
        with pytest.raises(UnreachableError) as given_up:
            Lake(config).state(LakeName("shop", "orders"))
    assert time.monotonic() - began < 10
    assert uri in str(given_up.value)
    assert "hush" not in str(given_up.value)


def test_a_file_without_its_folder_is_told_from_a_catalog_that_is_silent(tmp_path: Path) -> None:
    config = write(tmp_path / "replication.yaml", platform(sources={}))
    with pytest.raises(UnreachableError, match=r"nor the folder.*lake\.catalog\.uri") as missing:
        Lake(config).state(LakeName("shop", "orders"))
    assert str(tmp_path / "lake" / "catalog.db") in str(missing.value)
    assert not (tmp_path / "lake").exists()


@pytest.mark.parametrize(
    "catalog",
    [
        {"type": "sql", "uri": "nosuch://host/lake"},
        {"type": "sql", "uri": "postgresql+psycopg2://host/lake"},
        {"type": "hive", "uri": "thrift://host:9083"},
    ],
    ids=["dialect", "driver", "hive"],
)
def test_a_client_that_is_not_installed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, catalog: dict[str, Any]
) -> None:
    for module in ("psycopg2", "hive_metastore", "pyiceberg.catalog.hive"):
        monkeypatch.setitem(sys.modules, module, None)
    lake = {"catalog": catalog, "warehouse": "s3://lake/warehouse"}
    config = write(tmp_path / "replication.yaml", platform(lake=lake, sources={}))
    with pytest.raises(ConfigError, match=r"no client for this catalog .*pip install"):
        Lake(config).state(LakeName("shop", "orders"))
