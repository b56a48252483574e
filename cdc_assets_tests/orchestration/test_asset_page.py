"""What the asset page of a failing table says: asked of a real webserver, by GraphQL."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import requests

from cdc_assets.log.hours import hour_of
from cdc_assets.operate.services import utc_now
from cdc_assets.orchestration.assets import table_asset
from cdc_assets.orchestration.keys import (
    CHECK_ASSESSED,
    CHECK_MATCHES,
    SPARK,
    TAG_MODE,
    TAIL,
    table_key,
)
from cdc_assets.orchestration.resources import spark_resource
from cdc_assets.registry import RegistryFile
from cdc_assets_tests.toy.profiles import in_soak
from cdc_assets_tests.waiting import until
from cdc_assets_tests.world import World, entry_of

pytestmark = pytest.mark.stack

CHECKOUT = Path(__file__).parents[2]
PAGE = """
query Page($path: [String!]!) {
  assetNodeOrError(assetKey: {path: $path}) {
    ... on AssetNode {
      assetObservations(limit: 1) {
        description
        metadataEntries { label ... on TextMetadataEntry { text } }
      }
      assetChecksOrError {
        ... on AssetChecks {
          checks {
            name
            executionForLatestMaterialization { status evaluation { success description severity } }
          }
        }
      }
    }
  }
}
"""


Ask = Callable[[], dict[str, Any]]


@pytest.fixture
def home(world: World) -> Path:
    folder = world.folder / "dagster"
    folder.mkdir()
    shutil.copy(CHECKOUT / "dagster.yaml", folder)
    entry = entry_of("orders", world.config, f"{world.prefix}.public.orders")
    RegistryFile(world.config.registry).add([entry])
    return folder


@pytest.fixture
def page(world: World, home: Path) -> Iterator[Ask]:
    """The asset's page, as the webserver gives it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", "dagster_webserver", "-h", "127.0.0.1", "-p", str(port),
         "-m", "cdc_assets.definitions"],
        env={**os.environ, "DAGSTER_HOME": str(home), "CDC_ASSETS_CONFIG": str(world.config.path)},
        stdout=(home / "webserver.log").open("wb"), stderr=subprocess.STDOUT,
        start_new_session=True,
    )  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    path = table_key(world.config, entry_of("orders", world.config)).path

    def is_up() -> bool:
        try:
            return requests.get(f"{url}/server_info", timeout=2).ok
        except requests.RequestException:
            return False

    def ask() -> dict[str, Any]:
        query = {"query": PAGE, "variables": {"path": path}}
        answer = requests.post(f"{url}/graphql", json=query, timeout=60).json()
        assert "errors" not in answer, answer
        return answer["data"]["assetNodeOrError"]

    try:
        until(is_up, "the webserver listens", within_seconds=120)
        yield ask
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(30)


def run(world: World, home: Path) -> bool:
    """A run of the sensor, in the instance that the webserver shows."""
    entry = entry_of("orders", world.config, f"{world.prefix}.public.orders")
    with dg.DagsterInstance.from_config(str(home)) as instance:
        return dg.materialize(
            [table_asset(world.config, entry)], instance=instance, tags={TAG_MODE: TAIL},
            partition_key=hour_of(utc_now()).key, raise_on_error=False,
            resources={SPARK: spark_resource(world.config)},
        ).success  # fmt: skip


def checks(page: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Those that a run writes; the others are a sensor's and a schedule's, which rest here."""
    found = page["assetChecksOrError"]["checks"]
    told = {each["name"]: each["executionForLatestMaterialization"] for each in found}
    assert told.pop(CHECK_ASSESSED) is None
    assert told.pop(CHECK_MATCHES, None) is None
    assert told
    return told


def test_the_page_of_a_failing_table_says_why_and_what_to_do_until_it_goes_on(
    world: World, home: Path, page: Ask
) -> None:
    what, remedy = "the topic does not exist any more", "take the table out of the registry"
    assert not run(world, home)
    failing = page()
    for name, check in checks(failing).items():
        assert check["status"] == "FAILED", name
        description = check["evaluation"]["description"]
        assert what in description
        assert remedy in description
        assert check["evaluation"]["severity"] == "ERROR"
    (observation,) = failing["assetObservations"]
    assert what in observation["description"]
    said = {each["label"]: each.get("text") for each in observation["metadataEntries"]}
    assert said["kind"] == "terminal"
    assert remedy in said["remedy"]

    world.topic("orders")
    assert run(world, home)
    well = page()
    for name, check in checks(well).items():
        assert check["status"] == "SUCCEEDED", name
        assert what not in check["evaluation"]["description"]
    (observation,) = well["assetObservations"]
    assert ": continues" in observation["description"]


@in_soak
def test_a_part_that_is_away_is_named_though_the_checks_cannot_look(
    world: World, home: Path, page: Ask
) -> None:
    """Kafka is needed to judge both; what is known is why the run failed."""
    elsewhere = world.config.kafka.model_copy(update={"bootstrap_servers": "127.0.0.1:1"})
    world.config = world.config.model_copy(update={"kafka": elsewhere})
    assert not run(world, home)
    for name, check in checks(page()).items():
        assert check["status"] == "FAILED", name
        assert "127.0.0.1:1" in check["evaluation"]["description"]
