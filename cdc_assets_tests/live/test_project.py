"""The example project, outside of the package, under `dagster dev`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pytest
import yaml
from cdc_assets_devstack.ports import pick_free_ports
from cdc_assets_devstack.spark_server import SparkEndpoint

from cdc_assets.changes.names import LakeName
from cdc_assets.config import ReplicationConfig, load_config
from cdc_assets_tests import waiting
from cdc_assets_tests.lake_view import open_catalog, read_rows
from cdc_assets_tests.orchestration.deployment import dagster_running
from cdc_assets_tests.orchestration.test_table_run import TABLES, Tables, no_session
from cdc_assets_tests.toy.profiles import in_soak

EXAMPLE = Path(__file__).parents[2] / "examples" / "dagster-project"
DEFS = "src/shop_platform/defs"
REPORT = dg.AssetKey("orders_report")

until = partial(waiting.until, within_seconds=240, every_seconds=0.5)


@pytest.mark.slow
def test_the_example_loads_as_it_is(tmp_path: Path) -> None:
    project = Path(shutil.copytree(EXAMPLE, tmp_path / "project"))
    code = (
        "import dagster as dg\n"
        "from shop_platform.definitions import defs\n"
        "repository = defs().get_repository_def()\n"
        "print(*sorted(each.name for each in repository.sensor_defs))\n"
        "print(*(key.to_user_string() for key in repository.asset_graph.get_all_asset_keys()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False,
        cwd=tmp_path, env={"PATH": "", "HOME": str(tmp_path), "PYTHONPATH": str(project / "src")},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert {
        "orders_report",
        "conditions",
        "east_discover",
        "east_replicate",
        "west_discover",
        "west_replicate",
    } <= {*done.stdout.split()}


@pytest.mark.slow
def test_the_report_counts_what_is_in_the_lake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = Path(shutil.copytree(EXAMPLE, tmp_path / "project"))
    (project / ".cdc" / "lake").mkdir(parents=True)
    catalog = open_catalog(load_config(project / DEFS / "east" / "replication.yaml"))
    catalog.create_namespace("east_public")
    rows = pa.table({"id": [1, 2]})
    catalog.create_table("east_public.orders", rows.schema).append(rows)
    for name in [each for each in sys.modules if each.startswith("shop_platform")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(project / "src")

    result = import_module("shop_platform.defs.reports.assets").orders_report()
    assert result.metadata == {"orders": 2}


@pytest.fixture
def project(
    stack_config: ReplicationConfig, kafka_bootstrap: str, spark_endpoint: SparkEndpoint,
    tmp_path: Path,
) -> Path:  # fmt: skip
    """The example, on the tests' stack."""
    assert kafka_bootstrap
    assert spark_endpoint
    assert stack_config.path is not None
    made = Path(shutil.copytree(EXAMPLE, tmp_path / "project"))
    home, platform = stack_config.path.parent, yaml.safe_load(stack_config.path.read_text())
    lake = {
        "catalog": {"type": "sql", "uri": f"sqlite:///{home}/lake/catalog.db"},
        "warehouse": f"{home}/lake/warehouse",
    }
    for name in ("east", "west"):
        file = made / DEFS / name / "replication.yaml"
        kept = {"sources": yaml.safe_load(file.read_text())["sources"], "registry": "tables.json"}
        ours = {**platform, "lake": lake, "home": str(home), **kept}
        file.write_text(yaml.safe_dump(ours))
    return made


@pytest.fixture
def dagster_dev(project: Path) -> Iterator[dg.DagsterInstance]:
    port = pick_free_ports().connect
    own = {"CDC_ASSETS_CONFIG"}
    environment = {
        **{name: value for name, value in os.environ.items() if name not in own},
        "DAGSTER_HOME": str(project), "PYTHONPATH": str(project / "src"),
        "CDC_ASSETS_WEBSERVER": f"http://127.0.0.1:{port}",
    }  # fmt: skip
    serving = ["dev", "-m", "shop_platform.definitions", "-h", "127.0.0.1", "-p", str(port)]
    command = [sys.executable, "-m", "dagster", *serving]
    with dagster_running(command, project, project.parent, environment) as instance:
        yield instance


@in_soak
@pytest.mark.stack
def test_two_replications_make_their_tables_and_what_depends_on_one_runs(
    project: Path, stack_config: ReplicationConfig, dagster_dev: dg.DagsterInstance, tmp_path: Path
) -> None:
    sides = {}
    for name in ("east", "west"):
        sides[name] = made = Tables(stack_config, no_session, tmp_path, {"tables": TABLES}, name)
        made.create_topic("public.orders")
        made.change("orders", "c", 1, datetime.now(UTC))
    configs = {name: load_config(project / DEFS / name / "replication.yaml") for name in sides}

    def ids(name: str) -> set[object]:
        target = LakeName(f"{name}_public", "orders")
        return {row["id"] for row in read_rows(configs[name], target)}

    try:
        for name in sides:
            until(lambda name=name: ids(name) == {1}, f"the table of {name} is made")
            assert told(dagster_dev, dg.AssetKey(["lake", name, "public", "orders"]))
        until(reported(dagster_dev, 1), "the report counted one order")
        sides["east"].change("orders", "c", 2, datetime.now(UTC))
        until(reported(dagster_dev, 2), "the report counted two")
        assert ids("west") == {1}
    except AssertionError:
        print((project / "dagster.log").read_text()[-20_000:])
        raise


def told(instance: dg.DagsterInstance, key: dg.AssetKey) -> bool:
    """Whether its run said so, by the key that the translation gave it."""
    until(lambda: instance.get_latest_materialization_event(key), f"{key} is materialized")
    return True


def reported(instance: dg.DagsterInstance, count: int) -> Callable[[], bool]:
    def look() -> bool:
        event = instance.get_latest_materialization_event(REPORT)
        found = event.asset_materialization if event else None
        return found is not None and found.metadata["orders"].value == count

    return look
