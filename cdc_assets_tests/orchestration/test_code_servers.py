"""New tables become assets in each kind of code server, without a webserver that is named.

Real processes: a code server, and a webserver whose workspace names it, as with Helm. The sensor
is evaluated in the code server, as the daemon has it evaluated.
"""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

import pytest
import yaml

from cdc_assets.orchestration.sensors.reloading import ENDS_VARIABLE, WEBSERVER_VARIABLE
from cdc_assets_tests.orchestration.deployment import Deployment
from cdc_assets_tests.toy.profiles import in_soak
from cdc_assets_tests.waiting import until
from cdc_assets_tests.world import NOW, World

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900)]

LOCATION = "theirs"
KINDS: Mapping[str, tuple[str, ...]] = {
    "dagster code-server start": ("code-server", "start"),
    "dagster api grpc": ("api", "grpc"),
}
TICK = """
mutation Tick($sensor: SensorSelector!) { sensorDryRun(selectorData: $sensor, cursor: null) {
  __typename
  ... on PythonError { message }
  ... on DryRunInstigationTick { evaluationResult { skipReason error { message } } }
} }
"""


class Helm(Deployment):
    """A code server, and a webserver whose workspace names it."""

    def __init__(self, world: World, kind: str, **variables: str) -> None:
        folder, self.kind = world.folder / "dagster", kind
        folder.mkdir()
        config = {"CDC_ASSETS_CONFIG": str(world.config.path)}
        super().__init__(folder, {**config, **variables}, {WEBSERVER_VARIABLE, ENDS_VARIABLE})
        (folder / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
        server = {"host": "127.0.0.1", "port": self.port, "location_name": LOCATION}
        workspace = {"load_from": [{"grpc_server": server}]}
        (folder / "workspace.yaml").write_text(yaml.safe_dump(workspace))

    def code_server(self) -> AbstractContextManager[subprocess.Popen[bytes]]:
        where = ("-h", "127.0.0.1", "-p", str(self.port), "-m", "cdc_assets.definitions")
        return self.started("dagster", *KINDS[self.kind], *where)

    @contextmanager
    def webserver(self) -> Iterator[None]:
        """Once the code server answers: the webserver does not ask again for one that does not."""
        until(lambda: is_open(self.port), "the code server answers", within_seconds=240)
        with self.started("dagster_webserver", "-h", "127.0.0.1", "-p", str(self.web)):
            until(self.is_loaded, "the location is loaded", within_seconds=240)
            yield

    def assets(self) -> set[str]:
        """The tables that the webserver shows."""
        nodes = self.asked("{ assetNodes { assetKey { path } } }")["assetNodes"]
        paths = [each["assetKey"]["path"] for each in nodes]
        return {each[-1] for each in paths if len(each) == 3}

    def tick(self) -> str:
        """What `discover` says."""
        sensor = {
            "repositoryName": "__repository__",
            "repositoryLocationName": LOCATION,
            "sensorName": "discover",
        }
        said = self.asked(TICK, sensor=sensor)["sensorDryRun"]
        result = said.get("evaluationResult")
        assert result, said
        assert result["error"] is None, result
        return result["skipReason"] or ""


def new_table(world: World, name: str) -> None:
    world.produce(world.topic(name), [NOW])


def shows(deployment: Helm, *names: str) -> None:
    until(lambda: {*names} <= deployment.assets(), f"{names} are shown", within_seconds=120)


def test_a_code_server_reloads_for_each_new_table(world: World) -> None:
    new_table(world, "orders")
    deployment = Helm(world, "dagster code-server start")
    with deployment.code_server(), deployment.webserver():
        for name in ("orders", "items"):
            said = deployment.tick()
            print(f"{deployment.kind}: {said}")
            assert "Loaded the definitions again for" in said
            assert f".public.{name}" in said
            shows(deployment, name)
            if name == "orders":
                new_table(world, "items")
        assert "No new topics; 2 tables." in deployment.tick()


def test_a_server_that_never_reloads_is_named_at_once(world: World) -> None:
    new_table(world, "orders")
    deployment = Helm(world, "dagster api grpc")
    with deployment.code_server(), deployment.webserver():
        said = deployment.tick()
        print(f"{deployment.kind}: {said}")
        assert "the code server has loaded nothing again" in said
        assert "`dagster code-server start`" in said
        assert ENDS_VARIABLE in said
        assert "orders" not in deployment.assets()


@in_soak
def test_a_server_that_is_started_again_is_ended_for_a_new_table(world: World) -> None:
    new_table(world, "orders")
    deployment = Helm(world, "dagster api grpc", **{ENDS_VARIABLE: "1"})
    with deployment.code_server() as first, deployment.webserver():
        print(f"{deployment.kind}, {ENDS_VARIABLE}=1: {(said := deployment.tick())}")
        assert "Not loaded yet" in said
        until(lambda: "ends, and is to be" in deployment.tick(), "it ends", within_seconds=120)
        assert first.wait(90) == 0
        with deployment.code_server():  # as Kubernetes does
            shows(deployment, "orders")
            said = deployment.tick()
            print(f"{deployment.kind}, {ENDS_VARIABLE}=1, started again: {said}")
            assert "No new topics; 1 tables." in said


def is_open(port: int) -> bool:
    with socket.socket() as each:
        return each.connect_ex(("127.0.0.1", port)) == 0
