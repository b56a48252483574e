"""New tables become assets in each kind of code server, without a webserver that is named.

Real processes: a code server, and a webserver whose workspace names it, as with Helm. The sensor
is evaluated in the code server, as the daemon has it evaluated. It looks at the registry only, so
that no broker is needed; `discover` asks for reloads in the same way.
"""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
import yaml

from cdc_assets.config import load_config
from cdc_assets.orchestration.sensors.reloading import ENDS_VARIABLE, WEBSERVER_VARIABLE
from cdc_assets.registry import RegistryFile
from cdc_assets_tests.orchestration.deployment import Deployment
from cdc_assets_tests.toy.profiles import in_soak
from cdc_assets_tests.waiting import until
from cdc_assets_tests.world import registry_of, write_config

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

LOCATION = "theirs"
KINDS: Mapping[str, tuple[str, ...]] = {
    "dagster code-server start": ("code-server", "start"),
    "dagster api grpc": ("api", "grpc"),
}
PROJECT = """
import dagster as dg

import cdc_assets
from cdc_assets.config import load_config
from cdc_assets.orchestration.sensors.reloading import Reloads
from cdc_assets.registry import RegistryFile

config = load_config()
file, reloads = RegistryFile(config.registry), Reloads()
loaded = file.load()

@dg.sensor(name="look", target=dg.AssetSelection.all())
def look(context):
    missing = sorted(map(str, file.load().tables - loaded.tables))
    return dg.SkipReason(reloads.ask(context, missing) if missing else f"{len(loaded)} tables.")

defs = dg.Definitions.merge(
    cdc_assets.build_definitions(config, registry=loaded), dg.Definitions(sensors=[look])
)
"""
TICK = """
mutation Tick($sensor: SensorSelector!) { sensorDryRun(selectorData: $sensor, cursor: null) {
  __typename
  ... on PythonError { message }
  ... on DryRunInstigationTick { evaluationResult { skipReason error { message } } }
} }
"""


class Helm(Deployment):
    """A code server, and a webserver whose workspace names it."""

    def __init__(self, folder: Path, kind: str, **variables: str) -> None:
        write_config(folder)
        self.kind, self.config = kind, folder / "replication.yaml"
        config = {"CDC_ASSETS_CONFIG": str(self.config)}
        super().__init__(folder, {**config, **variables}, {WEBSERVER_VARIABLE, ENDS_VARIABLE})
        (folder / "theirs.py").write_text(PROJECT)
        (folder / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
        server = {"host": "127.0.0.1", "port": self.port, "location_name": LOCATION}
        workspace = {"load_from": [{"grpc_server": server}]}
        (folder / "workspace.yaml").write_text(yaml.safe_dump(workspace))

    def code_server(self) -> AbstractContextManager[subprocess.Popen[bytes]]:
        where = ("-h", "127.0.0.1", "-p", str(self.port), "-m", "theirs")
        return self.started("dagster", *KINDS[self.kind], *where)

    @contextmanager
    def webserver(self) -> Iterator[None]:
        """Once the code server answers: the webserver does not ask again for one that does not."""
        until(lambda: is_open(self.port), "the code server answers", within_seconds=240)
        with self.started("dagster_webserver", "-h", "127.0.0.1", "-p", str(self.web)):
            until(self.is_loaded, "the location is loaded", within_seconds=240)
            yield

    def find(self, table: str) -> None:
        """Add a table to the registry."""
        config = load_config(self.config)
        RegistryFile(config.registry).add(registry_of(config, table))

    def shows(self, *tables: str) -> bool:
        """Whether the webserver has the tables' assets."""
        nodes = self.asked("{ assetNodes { assetKey { path } } }")["assetNodes"]
        found = {"/".join(each["assetKey"]["path"]) for each in nodes}
        return {f"shop/public/{each}" for each in tables} <= found

    def tick(self) -> str:
        """What the sensor says."""
        repository = {"repositoryName": "__repository__", "repositoryLocationName": LOCATION}
        said = self.asked(TICK, sensor={**repository, "sensorName": "look"})["sensorDryRun"]
        result = said.get("evaluationResult")
        assert result, said
        assert result["error"] is None, result
        print(f"{self.kind}: {result['skipReason']}")
        return result["skipReason"]


def is_open(port: int) -> bool:
    with socket.socket() as each:
        return each.connect_ex(("127.0.0.1", port)) == 0


def test_a_code_server_reloads_for_each_new_table(tmp_path: Path) -> None:
    theirs = Helm(tmp_path, "dagster code-server start")
    with theirs.code_server(), theirs.webserver():
        theirs.find("orders")
        assert theirs.tick() == "Loaded the definitions again for shop.public.orders."
        until(lambda: theirs.shows("orders"), "orders is an asset", within_seconds=120)
        theirs.find("items")
        assert theirs.tick() == "Loaded the definitions again for shop.public.items."
        until(lambda: theirs.shows("orders", "items"), "both are", within_seconds=120)
        assert theirs.tick() == "2 tables."


def test_a_server_that_never_reloads_is_named_at_once(tmp_path: Path) -> None:
    theirs = Helm(tmp_path, "dagster api grpc")
    with theirs.code_server(), theirs.webserver():
        theirs.find("orders")
        said = theirs.tick()
        assert "the code server has loaded nothing again" in said
        assert "`dagster code-server start`" in said
        assert ENDS_VARIABLE in said
        assert not theirs.shows("orders")


@in_soak
def test_a_server_that_is_started_again_is_ended_for_a_new_table(tmp_path: Path) -> None:
    theirs = Helm(tmp_path, "dagster api grpc", **{ENDS_VARIABLE: "1"})
    with theirs.code_server() as first, theirs.webserver():
        theirs.find("orders")
        until(lambda: "ends, and is to be" in theirs.tick(), "it ends", within_seconds=180)
        assert first.wait(120) == 0
        with theirs.code_server():  # as Kubernetes does
            until(lambda: theirs.shows("orders"), "orders is an asset", within_seconds=240)
            assert theirs.tick() == "1 tables."
