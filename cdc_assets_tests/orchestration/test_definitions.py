from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

from cdc_assets.changes.names import TableName
from cdc_assets.cli import CONFIG_VARIABLE
from cdc_assets.definitions import defs
from cdc_assets.errors import ConfigError
from cdc_assets.orchestration import build_definitions
from cdc_assets.orchestration.keys import (
    CHECK_ASSESSED,
    CHECK_MATCHES,
    MAINTENANCE,
    op_name,
    pool_name,
)
from cdc_assets_tests.world import registry_of, write_config

SNAPSHOT = Path(__file__).with_name("definitions.json")


def described(definitions: dg.Definitions) -> dict[str, object]:
    """What users and other code locations rely on: keys, lineage, partitions, checks, pools."""
    repository = definitions.get_repository_def()
    graph = repository.asset_graph
    assets = {
        node.key.to_user_string(): {
            "external": node.is_external,
            "upstream": sorted(key.to_user_string() for key in node.parent_keys),
            "group": node.group_name,
            "kinds": sorted(node.kinds),
            "partitions": str(node.partitions_def) if node.partitions_def else None,
            "backfill": str(node.backfill_policy.policy_type) if node.backfill_policy else None,
            "fresh": str(node.freshness_policy) if node.freshness_policy else None,
            "checks": sorted(key.name for key in node.check_keys),
            "pools": sorted(node.pools or ()) if not node.is_external else [],
            "table_name": node.metadata.get("dagster/table_name"),
        }
        for node in sorted(graph.asset_nodes, key=lambda node: node.key)
    }
    sensors = {
        each.name: [each.minimum_interval_seconds, each.default_status.value]
        for each in sorted(repository.sensor_defs, key=lambda each: each.name)
    }
    schedules = {each.name: each.cron_schedule for each in repository.schedule_defs}
    return {"assets": assets, "sensors": sensors, "schedules": schedules}


@pytest.mark.unit
def test_definitions_of_three_tables_are_as_recorded(tmp_path: Path) -> None:
    config = write_config(tmp_path)
    found = described(build_definitions(config, registry_of(config, "items", "orders", "users")))

    recorded = json.loads(SNAPSHOT.read_text())
    assert json.loads(json.dumps(found)) == recorded, json.dumps(found, indent=1)


@pytest.mark.unit
def test_all_tables_share_one_partitions_definition(tmp_path: Path) -> None:
    config = write_config(tmp_path)
    graph = build_definitions(config, registry_of(config, "a", "b")).resolve_asset_graph()

    keys = {key for key in graph.materializable_asset_keys if key.path[0] != MAINTENANCE}
    assert len({graph.get(key).partitions_def for key in keys}) == 1
    assert len(keys) == 2


@pytest.mark.unit
def test_loading_opens_no_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = write_config(tmp_path)
    monkeypatch.setattr(socket.socket, "connect", _refuse)

    dg.Definitions.validate_loadable(build_definitions(config, registry_of(config, "a")))


def _refuse(*_: object) -> None:
    msg = "loading definitions must not touch the network"
    raise AssertionError(msg)


@pytest.mark.unit
def test_tables_of_a_source_that_is_no_longer_configured_are_left_out(tmp_path: Path) -> None:
    config = write_config(tmp_path)
    other = config.model_copy(update={"sources": {}})

    graph = build_definitions(other, registry_of(config, "a")).resolve_asset_graph()
    assert not graph.get_all_asset_keys()


@pytest.mark.unit
@pytest.mark.parametrize("names", [("a-b", "a_b"), ("a.b", "a_b"), ("a.b", "a-b")], ids=str)
def test_table_names_that_look_alike_get_ops_of_their_own(
    tmp_path: Path, names: tuple[str, str]
) -> None:
    config = write_config(tmp_path)
    tables = [TableName("shop", "public", name) for name in names]

    definitions = build_definitions(config, registry_of(config, *names))
    dg.Definitions.validate_loadable(definitions)
    checked = definitions.resolve_asset_graph().asset_check_keys
    assert len({key for key in checked if key.name == CHECK_ASSESSED}) == 2
    assert len({key for key in checked if key.name == CHECK_MATCHES}) == 2
    assert len({op_name(config, table) for table in tables}) == 2
    assert len({pool_name(config, each) for each in registry_of(config, *names)}) == 2


@pytest.mark.unit
def test_the_resource_shows_no_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_TOKEN", "t0k3n")
    config = write_config(
        tmp_path, spark={"remote": "sc://spark.example:15002", "token": {"env": "SPARK_TOKEN"}}
    )
    assert config.spark.token is not None

    resource = build_definitions(config, registry_of(config)).resources["pyspark"]
    assert "t0k3n" not in repr(resource)
    assert "t0k3n" not in json.dumps(resource.spark_config)
    assert resource.late_config()["spark.remote"] == "sc://spark.example:15002/;token=t0k3n"


def load(folder: Path) -> subprocess.CompletedProcess[str]:
    code = (
        "import dagster as dg\n"
        "from cdc_assets.definitions import defs\n"
        "loaded = defs()\n"
        "dg.Definitions.validate_loadable(loaded)\n"
        "print([spec.key.to_user_string() for spec in loaded.resolve_all_asset_specs()])\n"
    )
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder, env={"PATH": "", "HOME": str(folder)},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


@pytest.mark.unit
def test_without_a_configuration_the_definitions_say_how_to_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(CONFIG_VARIABLE, raising=False)
    keys = {spec.key.to_user_string() for spec in defs().resolve_all_asset_specs()}
    assert keys == {"cdc_assets/how_to_begin"}


@pytest.mark.unit
def test_a_wrong_configuration_is_a_load_error_that_names_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "other.yaml"
    file.write_text("kafka: {bootstrap_server: x}\n")
    monkeypatch.setenv(CONFIG_VARIABLE, str(file))
    with pytest.raises(ConfigError, match="bootstrap_servers") as caught:
        defs()
    assert "other.yaml" in str(caught.value)


@pytest.mark.slow
def test_unreachable_kafka_and_catalog_do_not_keep_definitions_from_loading(
    tmp_path: Path,
) -> None:
    config = write_config(tmp_path)
    from cdc_assets.registry import RegistryFile

    RegistryFile(config.registry).add(registry_of(config, "orders"))
    done = load(tmp_path)
    assert done.returncode == 0, done.stderr
    assert "shop/public/orders" in done.stdout


@pytest.mark.unit
def test_replications_with_names_share_no_name(tmp_path: Path) -> None:
    found = list[dict[str, set[str]]]()
    for name in ("", "east", "west"):
        folder = tmp_path / (name or "unnamed")
        folder.mkdir()
        config = write_config(folder, **({"name": name} if name else {}))
        repository = build_definitions(config, registry_of(config, "orders")).get_repository_def()
        nodes = [node for node in repository.asset_graph.asset_nodes if node.is_executable]
        externals = [node for node in repository.asset_graph.asset_nodes if node.is_external]
        found.append({
            "sensors": {each.name for each in repository.sensor_defs},
            "schedules": {each.name for each in repository.schedule_defs},
            "jobs": {each.name for each in repository.get_all_jobs()} - {"__ASSET_JOB"},
            "ops": {node.assets_def.op.name for node in nodes},
            "pools": {pool for node in nodes for pool in node.pools or ()},
            "resources": set(repository.get_top_level_resources()),
            "parents": {node.key.to_user_string() for node in externals},
        })  # fmt: skip
    for kind in found[0]:
        names = [name for each in found for name in each[kind]]
        assert names, kind
        assert len(names) == len(set(names)), kind


@pytest.mark.slow
def test_loading_imports_nothing_that_only_runs_need() -> None:
    needless = "{'pyiceberg', 'sqlalchemy', 'sqlglot', 'pyarrow', 'pandas'}"
    code = f"import sys, cdc_assets.definitions; print({needless} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "set()\n"
