"""A project with pools, sensors, schedules, jobs and assets, before and after it mounts us.

A real `dagster dev`: webserver, daemon and code server. All is read from its GraphQL.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from cdc_assets.orchestration.sensors.reloading import reload_location
from cdc_assets.registry import RegistryFile
from cdc_assets_tests.orchestration.deployment import Deployment
from cdc_assets_tests.waiting import until
from cdc_assets_tests.world import registry_of, write_config

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

LOCATION = "theirs.definitions"
PROJECT = """
[project]
name = "theirs"
version = "0"
[tool.dagster]
module_name = "theirs.definitions"
[tool.dg]
directory_type = "project"
[tool.dg.project]
root_module = "theirs"
"""
INSTANCE = """
telemetry: {enabled: false}
concurrency:
  pools: {granularity: op, default_limit: 7}
  runs: {max_concurrent_runs: 3}
"""
DEFINITIONS = """
from pathlib import Path
import dagster as dg

@dg.definitions
def defs():
    return dg.load_from_defs_folder(path_within_project=Path(__file__).parent)
"""
OWN = """
import dagster as dg

@dg.asset(pool="warehouse", group_name="sales", owners=["team:sales"])
def raw() -> None: ...

@dg.asset(deps=[raw], pool="api", automation_condition=dg.AutomationCondition.on_missing())
def report() -> None: ...

@dg.asset_check(asset=raw)
def raw_is_whole() -> dg.AssetCheckResult:
    return dg.AssetCheckResult(passed=True)

@dg.op(pool="warehouse")
def load() -> None: ...

@dg.job
def nightly() -> None:
    load()

@dg.schedule(job=nightly, cron_schedule="0 3 * * *",
             default_status=dg.DefaultScheduleStatus.RUNNING)
def at_three():
    return dg.SkipReason("not now")

def quiet(name, status):
    def look():
        yield dg.SkipReason("nothing new")
    return dg.SensorDefinition(name=name, job=nightly, evaluation_fn=lambda _: look(),
                               minimum_interval_seconds=5, default_status=status)

files = quiet("files", dg.DefaultSensorStatus.RUNNING)
started_by_hand = quiet("started_by_hand", dg.DefaultSensorStatus.STOPPED)
stopped_by_hand = quiet("stopped_by_hand", dg.DefaultSensorStatus.RUNNING)
"""

LOOK = """{
  repositoriesOrError { ... on RepositoryConnection { nodes {
    name jobs { name }
    sensors { name minIntervalSeconds sensorState { id status ticks { id } } }
    schedules { name cronSchedule scheduleState { status } }
    assetNodes { assetKey { path } groupName pools owners { ... on TeamAssetOwner { team } }
      assetChecksOrError { ... on AssetChecks { checks { name } } } }
  } } }
  instance {
    concurrencyLimits { concurrencyKey limit usingDefaultLimit }
    poolConfig { poolGranularity defaultPoolLimit }
    runQueueConfig { maxConcurrentRuns }
  }
  runsOrError { ... on Runs { count } }
}"""
LIMIT = """mutation Limit($pool: String!) {
  setConcurrencyLimit(concurrencyKey: $pool, limit: 3)
}"""
START = """mutation Start($sensor: SensorSelector!) {
  startSensor(sensorSelector: $sensor) { __typename }
}"""
STOP = """mutation Stop($id: String!) { stopSensor(id: $id) { __typename } }"""


def seen(theirs: Deployment) -> dict[str, Any]:
    """What a person sees of the deployment."""
    said = theirs.asked(LOOK)
    (repository,) = said["repositoriesOrError"]["nodes"]
    return {
        "assets": {
            "/".join(each["assetKey"]["path"]): {
                "group": each["groupName"],
                "pools": each["pools"],
                "owners": [owner["team"] for owner in each["owners"]],
                "checks": sorted(
                    check["name"] for check in each["assetChecksOrError"].get("checks", ())
                ),
            }
            for each in repository["assetNodes"]
        },
        "jobs": {each["name"]: True for each in repository["jobs"]},
        "sensors": {
            each["name"]: [each["sensorState"]["status"], each["minIntervalSeconds"]]
            for each in repository["sensors"]
        },
        "schedules": {
            each["name"]: [each["scheduleState"]["status"], each["cronSchedule"]]
            for each in repository["schedules"]
        },
        "pools": {
            each["concurrencyKey"]: [each["limit"], each["usingDefaultLimit"]]
            for each in said["instance"]["concurrencyLimits"]
        },
        "instance": {
            **said["instance"]["poolConfig"],
            **said["instance"]["runQueueConfig"],
            "runs": said["runsOrError"]["count"],
        },
    }


def ticks(theirs: Deployment) -> dict[str, int]:
    (repository,) = theirs.asked(LOOK)["repositoriesOrError"]["nodes"]
    return {each["name"]: len(each["sensorState"]["ticks"]) for each in repository["sensors"]}


@pytest.fixture
def theirs(tmp_path: Path) -> Iterator[Deployment]:
    package = tmp_path / "theirs"
    (package / "defs").mkdir(parents=True)
    for file, text in (
        (tmp_path / "pyproject.toml", PROJECT),
        (tmp_path / "dagster.yaml", INSTANCE),
        (package / "__init__.py", ""),
        (package / "definitions.py", DEFINITIONS),
        (package / "defs" / "own.py", OWN),
    ):
        file.write_text(text)
    made = Deployment(tmp_path, {}, {"CDC_ASSETS_CONFIG", "CDC_ASSETS_WEBSERVER"})
    command = ("dagster", "dev", "-m", LOCATION, "-h", "127.0.0.1", "-p", str(made.web))
    with made.started(*command):
        until(made.is_loaded, "the location is loaded", within_seconds=300)
        yield made


def configure(theirs: Deployment) -> None:
    """A person sets a limit, starts a sensor, and stops one."""
    assert theirs.asked(LIMIT, pool="warehouse")["setConcurrencyLimit"] is True
    (repository,) = theirs.asked(LOOK)["repositoriesOrError"]["nodes"]
    selector = {"repositoryName": repository["name"], "repositoryLocationName": LOCATION}
    theirs.asked(START, sensor={**selector, "sensorName": "started_by_hand"})
    (state,) = (
        each["sensorState"]["id"]
        for each in repository["sensors"]
        if each["name"] == "stopped_by_hand"
    )
    theirs.asked(STOP, id=state)


def mount(theirs: Deployment) -> None:
    """The component is added, as `dg scaffold defs cdc_assets.Replication shop` adds it."""
    folder = theirs.folder / "theirs" / "defs" / "shop"
    folder.mkdir()
    config = write_config(folder)
    RegistryFile(config.registry).add(registry_of(config, "orders", "items"))
    attributes = {"config": "replication.yaml"}
    document = {"type": "cdc_assets.Replication", "attributes": attributes}
    (folder / "defs.yaml").write_text(yaml.safe_dump(document))
    reload_location(LOCATION, f"http://127.0.0.1:{theirs.web}")


def test_mounting_changes_nothing_of_theirs_and_starts_nothing_of_ours(theirs: Deployment) -> None:
    configure(theirs)
    before = seen(theirs)
    print(f"before: {json.dumps(before)}")
    assert before["sensors"] == {
        "files": ["RUNNING", 5], "started_by_hand": ["RUNNING", 5],
        "stopped_by_hand": ["STOPPED", 5], **automation(before),
    }  # fmt: skip
    assert before["pools"]["warehouse"] == [3, False]
    assert before["instance"]["defaultPoolLimit"] == 7

    mount(theirs)
    until(lambda: len(seen(theirs)["assets"]) > 2, "our assets are there", within_seconds=120)
    at = ticks(theirs)
    for name in ("files", "started_by_hand"):  # the daemon has our sensors, too, by then
        until(lambda name=name: ticks(theirs)[name] > at[name] + 2, f"{name} ticks on",
              within_seconds=180)  # fmt: skip
    after = seen(theirs)
    ours = {
        part: {name: each for name, each in after[part].items() if name not in before[part]}
        for part in before
    }
    kept = {part: {name: after[part].get(name) for name in found} for part, found in before.items()}
    print(f"theirs after: {json.dumps(kept)}")
    print(f"ours: {json.dumps(ours)}")
    assert kept == before
    assert {status for status, _ in ours["sensors"].values()} == {"STOPPED"}
    assert {status for status, _ in ours["schedules"].values()} == {"STOPPED"}
    assert {"discover", "replicate", "maintain"} <= {*ours["sensors"]}
    assert all(ticks(theirs)[name] == 0 for name in ours["sensors"])
    assert {"shop/public/orders", "shop/public/items"} <= {*ours["assets"]}
    assert ours["instance"] == {}


def automation(found: dict[str, Any]) -> dict[str, Any]:
    """Dagster's own sensor, which a project with conditions has."""
    name = "default_automation_condition_sensor"
    return {name: found["sensors"][name]} if name in found["sensors"] else {}
