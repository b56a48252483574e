from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from dagster.components.testing import create_defs_folder_sandbox
from jsonschema import Draft202012Validator

import cdc_assets
from cdc_assets.config import Secret, load_config
from cdc_assets.config.load import read_config
from cdc_assets.errors import TerminalError
from cdc_assets.log.hours import HOUR, hour_of
from cdc_assets.operate.services import utc_now
from cdc_assets.orchestration.assets import hourly_partitions
from cdc_assets.orchestration.keys import maintenance_key, table_key
from cdc_assets.registry import HOURS_START, Registry, RegistryFile
from cdc_assets_tests.command import run_command
from cdc_assets_tests.world import registry_of, write_config

pytestmark = pytest.mark.slow

TRANSLATION = {
    "key_prefix": "lake",
    "group_name": "replicated_{{ table.schema }}",
    "owners": ["team:data"],
    "tags": {"source": "{{ table.source }}"},
    "metadata": {"lake_table": "{{ target.name }}"},
    "automation_condition": "{{ dg.AutomationCondition.on_missing() }}",
}


@pytest.fixture(autouse=True)
def instance() -> Iterator[None]:
    """Loads components under an instance of its own.

    Dagster asks the current instance for a component's state, and keeps a closed one as the
    current one where a test before let two of them end in the order in which they began.
    """
    with dg.DagsterInstance.ephemeral():
        yield


def write(folder: Path, *tables: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    config = write_config(folder)
    RegistryFile(config.registry).add(registry_of(config, *tables))
    return folder / "replication.yaml"


class Ours(cdc_assets.Translator):
    def get_asset_spec(self, props: cdc_assets.TableProps) -> dg.AssetSpec:
        return props.spec.replace_attributes(key=["lake", *props.spec.key.path])


def test_importing_the_package_imports_neither_dagster_nor_pydantic() -> None:
    code = (
        "import sys, cdc_assets\n"
        "print('Replication' in dir(cdc_assets))\n"
        "print('dagster' in sys.modules, 'pydantic' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False", "False"]


def test_a_component_mounts_a_replication_as_its_translation_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CDC_ASSETS_CONFIG", str(tmp_path / "not_there.yaml"))
    with create_defs_folder_sandbox() as sandbox:
        folder = sandbox.scaffold_component(
            cdc_assets.Replication, defs_path=Path("shop"),
            defs_yaml_contents={
                "type": "cdc_assets.Replication",
                "attributes": {"name": "east", "translation": TRANSLATION},
            },
        )  # fmt: skip
        write(folder, "orders")
        with sandbox.load_component_and_build_defs(defs_path=Path("shop")) as (_, made):
            spec = next(
                each for each in made.resolve_all_asset_specs() if each.key.path[0] == "lake"
            )
            names = {each.name for each in made.sensors or ()}

    assert spec.key == dg.AssetKey(["lake", "shop", "public", "orders"])
    assert (spec.group_name, list(spec.owners)) == ("replicated_public", ["team:data"])
    assert spec.tags["source"] == "shop"
    assert spec.metadata["lake_table"] == "orders"
    assert spec.metadata["topic"] == "shop.public.orders"
    assert spec.automation_condition is not None
    assert names >= {"east_replicate", "east_discover", "east_replication_slo"}


@pytest.mark.parametrize("said", [None, "stopped", "running", "{{ env.OUR_SENSORS }}"])
def test_sensors_and_schedules_run_only_where_that_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str | None
) -> None:
    monkeypatch.setenv("OUR_SENSORS", "running")
    with create_defs_folder_sandbox() as sandbox:
        attributes = {"name": "east", **({"sensors": said} if said else {})}
        folder = sandbox.scaffold_component(
            cdc_assets.Replication,
            defs_path=Path("shop"),
            defs_yaml_contents={"type": "cdc_assets.Replication", "attributes": attributes},
        )
        write(folder, "orders")
        with sandbox.load_component_and_build_defs(defs_path=Path("shop")) as (_, made):
            statuses = {
                each.default_status.value
                for each in (*(made.sensors or ()), *(made.schedules or ()))
            }
    assert statuses == {"STOPPED" if said in {None, "stopped"} else "RUNNING"}


def test_the_file_may_be_named_by_a_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUR_FILE", "production.yaml")
    attributes = {"name": "east", "config": "{{ env.OUR_FILE }}"}
    with create_defs_folder_sandbox() as sandbox:
        folder = sandbox.scaffold_component(
            cdc_assets.Replication,
            defs_path=Path("shop"),
            defs_yaml_contents={"type": "cdc_assets.Replication", "attributes": attributes},
        )
        write(folder, "orders").rename(folder / "production.yaml")
        with sandbox.load_component_and_build_defs(defs_path=Path("shop")) as (_, made):
            assert "east_discover" in {each.name for each in made.sensors or ()}


DOCUMENT = """
type: cdc_assets.Replication
attributes:
  name: east
  config:
    kafka:
      bootstrap_servers: "{{ env.OUR_KAFKA }}"
      properties: {security.protocol: SASL_SSL, sasl.mechanism: PLAIN, sasl.username: us,
        sasl.password: "{{ env.NOT_READ_YET }}"}
    lake: {catalog: {type: sql, uri: "sqlite:///lake.db"}, warehouse: "lake/{{ env.OUR_STAGE }}"}
    sources:
      shop: {format: debezium-json, topics: {include: ['shop\\..*']}}
"""


def test_a_configuration_may_be_a_part_of_the_component(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUR_KAFKA", "kafka:9092")
    monkeypatch.setenv("OUR_STAGE", "test")
    monkeypatch.delenv("NOT_READ_YET", raising=False)
    with create_defs_folder_sandbox() as sandbox:
        folder = sandbox.scaffold_component(
            cdc_assets.Replication,
            defs_path=Path("shop"),
            defs_yaml_contents=yaml.safe_load(DOCUMENT),
        )
        (folder / "replication.yaml").unlink()
        with sandbox.load_component_and_build_defs(defs_path=Path("shop")) as (component, made):
            assert isinstance(component, cdc_assets.Replication)
            assert isinstance(component.config, dict)
            config = read_config(component.config, folder, "defs.yaml")
            assert "east_discover" in {each.name for each in made.sensors or ()}
    assert config.kafka.bootstrap_servers == "kafka:9092"
    assert config.kafka.properties["sasl.password"] == Secret(env="NOT_READ_YET")
    assert config.lake.warehouse.endswith("/shop/lake/test")
    assert config.home.is_relative_to(folder)


def test_a_mistake_in_it_is_found_by_its_schema(tmp_path: Path) -> None:
    """`dg check yaml` compares `defs.yaml` with this schema, in a process without our code."""
    model = cdc_assets.Replication.get_model_cls()
    assert model is not None
    schema = Draft202012Validator(model.model_json_schema())
    attributes = yaml.safe_load(DOCUMENT)["attributes"]
    assert schema.is_valid(attributes)
    for part, value in (
        ("spark", {"remot": "local"}), ("runs", {"every_seconds": "often"}), ("sources", []),
        ("kafka", {}),
    ):  # fmt: skip
        wrong = {**attributes, "config": {**attributes["config"], part: value}}
        assert not schema.is_valid(wrong), part


def test_scaffolding_writes_a_configuration_that_loads(tmp_path: Path) -> None:
    with create_defs_folder_sandbox() as sandbox:
        folder = sandbox.scaffold_component(cdc_assets.Replication, defs_path=Path("shop"))
        assert load_config(folder / "replication.yaml").sources == {}
        assert "Replication" in (folder / "defs.yaml").read_text()
        with sandbox.load_component_and_build_defs(defs_path=Path("shop")) as (_, made):
            assert "discover" in {each.name for each in made.sensors or ()}


VARIABLES = """
kafka:
  bootstrap_servers: "{{ env.BROKERS }}"
  properties: {security.protocol: SASL_SSL, sasl.mechanism: PLAIN, sasl.username: us,
    sasl.password: &p {env: KAFKA_PASSWORD}, ssl.key.password: *p}
lake: {catalog: {type: sql, uri: {env: CATALOG}}, warehouse: "lake/{{ env.STAGE }}"}
sources: {}
"""


def test_scaffolding_declares_the_variables_of_a_configuration_that_is_there() -> None:
    with create_defs_folder_sandbox() as sandbox:
        folder = sandbox.defs_folder_path / "shop"
        folder.mkdir(parents=True)
        (folder / "replication.yaml").write_text(VARIABLES)
        sandbox.scaffold_component(cdc_assets.Replication, defs_path=Path("shop"))
        written = (folder / "defs.yaml").read_text()
        printed = run_command(folder, "config", "env").stdout
    names = ["BROKERS", "CATALOG", "KAFKA_PASSWORD", "STAGE"]
    assert yaml.safe_load(written)["requirements"] == {"env": names}
    assert written.endswith(printed)


def test_a_configuration_without_variables_declares_none(tmp_path: Path) -> None:
    (tmp_path / "replication.yaml").write_text("sources: {}\n")
    assert run_command(tmp_path, "config", "env").stdout == ""


def test_everything_about_a_table_goes_by_its_translated_key(tmp_path: Path) -> None:
    file = write(tmp_path, "orders", "items")
    made = cdc_assets.build_definitions(file, translator=Ours())
    graph = made.resolve_asset_graph()
    key, plain = (dg.AssetKey([*p, "shop", "public", "orders"]) for p in (["lake"], []))

    assert plain not in graph.get_all_asset_keys()
    node = graph.get(key)
    assert node.parent_keys == {dg.AssetKey(["kafka", "shop.public.orders"])}
    assert {each.name for each in node.check_keys} >= {"offsets_contiguous", "replication_slo"}
    config = load_config(file)
    assert key in graph.get(maintenance_key(config, config.sources["shop"].lake_name(
        next(iter(registry_of(config, "orders"))).table))).parent_keys  # fmt: skip


def test_two_tables_with_one_key_are_refused(tmp_path: Path) -> None:
    class OneForAll(cdc_assets.Translator):
        def get_asset_spec(self, props: cdc_assets.TableProps) -> dg.AssetSpec:
            return props.spec.replace_attributes(key="table")

    with pytest.raises(TerminalError, match=r"shop\.public\.items and shop\.public\.orders"):
        cdc_assets.build_definitions(write(tmp_path, "orders", "items"), translator=OneForAll())


def test_replications_are_merged_with_the_projects_own_executor(tmp_path: Path) -> None:
    east = cdc_assets.build_definitions(write(tmp_path / "east", "orders"), name="east")
    west = cdc_assets.build_definitions(write(tmp_path / "west", "items"))
    own = dg.Definitions(assets=[_downstream()], executor=dg.in_process_executor)

    merged = dg.Definitions.merge(own, east, west)
    dg.Definitions.validate_loadable(merged)
    repository = merged.get_repository_def()
    assert repository.get_job("east_replicate_tables").executor_def.name == "side_by_side"
    assert repository.get_job("replicate_tables").executor_def.name == "side_by_side"
    assert repository.get_job("__ASSET_JOB").executor_def.name == "in_process"


def test_a_configuration_that_is_missing_is_named(tmp_path: Path) -> None:
    from cdc_assets.errors import ConfigError

    with pytest.raises(ConfigError, match="does not exist"):
        cdc_assets.build_definitions(tmp_path / "replication.yaml")


def _downstream() -> dg.AssetsDefinition:
    @dg.asset(deps=[["shop", "public", "orders"]])
    def report() -> None: ...

    return report


HOURS = hourly_partitions(HOURS_START)
KEY = dg.AssetKey(["shop", "public", "orders"])
OTHER = dg.AssetKey("rates")


class Untagged(cdc_assets.Translator):
    def get_asset_spec(self, props: cdc_assets.TableProps) -> dg.AssetSpec:
        return props.spec.replace_attributes(tags={}, kinds=set())


def write_event(instance: dg.DagsterInstance, kind: str, hour: str) -> None:
    match kind:
        case "merged":

            @dg.asset(key=KEY, partitions_def=HOURS)
            def merged() -> None: ...

            assert dg.materialize([merged], instance=instance, partition_key=hour).success
        case "closed" | "held":
            partition = hour if kind == "closed" else None
            instance.report_runless_asset_event(dg.AssetMaterialization(KEY, partition=partition))
        case _:
            instance.report_runless_asset_event(dg.AssetMaterialization(OTHER))


def evaluated(
    downstream: dg.AssetsDefinition,
    tmp_path: Path,
    *ticks: Sequence[str],
    first: datetime = HOURS_START,
) -> Sequence[int]:
    """How often a downstream asset is asked for: at first, and after each tick's events."""
    config = load_config(write(tmp_path, "orders"))
    known = Registry.of(replace(e, hours_from=first) for e in registry_of(config, "orders"))
    made = cdc_assets.build_definitions(config, translator=Untagged(), registry=known)
    defs = dg.Definitions.merge(made, dg.Definitions(assets=[downstream, dg.AssetSpec(OTHER)]))
    asked, cursor = list[int](), None
    with dg.DagsterInstance.ephemeral() as instance:
        for events in ([], *ticks):
            for event in events:
                write_event(instance, event, hour_of(utc_now()).key)
            result = dg.evaluate_automation_conditions(defs, instance=instance, cursor=cursor)
            cursor = result.cursor
            asked.append(result.get_num_requested(next(iter(downstream.keys))))
    return asked


@pytest.mark.parametrize("hourly", [False, True], ids=["unpartitioned", "hourly"])
def test_a_downstream_asset_is_asked_for_when_its_table_has_changed(
    tmp_path: Path, *, hourly: bool
) -> None:
    @dg.asset(
        deps=[KEY], partitions_def=HOURS if hourly else None,
        automation_condition=cdc_assets.when_changed(),
    )  # fmt: skip
    def report() -> None: ...

    assert evaluated(report, tmp_path, ["merged"], ["merged"]) == [0, 1, 1]
    # What says that a table is paused, or closes an hour, idle or not, changes nothing.
    still = [["held"], ["held"], ["closed"], ["closed", "held"]]
    assert evaluated(report, tmp_path, *still) == [0, 0, 0, 0, 0]
    assert evaluated(report, tmp_path, ["merged"], *still, ["merged"]) == [0, 1, 0, 0, 0, 0, 1]
    for both in (["merged", "closed"], ["closed", "merged"]):
        assert evaluated(report, tmp_path, ["held"], both, []) == [0, 0, 1, 0]


def test_each_update_counts_of_what_is_no_replicated_table(tmp_path: Path) -> None:
    @dg.asset(deps=[KEY, OTHER], automation_condition=cdc_assets.when_changed())
    def report() -> None: ...

    ticks = [["other"], ["closed"], ["merged"], ["closed", "other"]]
    assert evaluated(report, tmp_path, *ticks) == [0, 1, 0, 1, 1]


def _model(condition: dg.AutomationCondition[Any]) -> dg.AssetsDefinition:
    """An asset as dagster-dbt makes it: a multi-asset without partitions, by its manifest."""
    spec = dg.AssetSpec("stg_orders", deps=[KEY], automation_condition=condition)

    @dg.multi_asset(name="dbt", specs=[spec])
    def dbt() -> None: ...

    return dbt


def test_models_without_partitions_run_when_a_table_of_this_hour_has_changed(
    tmp_path: Path,
) -> None:
    now = hour_of(utc_now()).start
    for condition in (cdc_assets.when_changed(), dg.AutomationCondition.eager()):
        asked = evaluated(_model(condition), tmp_path, ["merged"], [], ["merged"], first=now)
        assert asked == [0, 1, 0, 1]


def test_eager_counts_the_events_that_close_hours_and_needs_them(tmp_path: Path) -> None:
    """Unlike `when_changed`: it runs when an hour is closed, and not while one is missing."""
    eager, now = dg.AutomationCondition.eager(), hour_of(utc_now()).start
    ticks = ["closed"], [], ["closed"], ["merged"]
    asked = evaluated(_model(eager), tmp_path, *ticks, first=now)
    assert asked == [0, 1, 0, 1, 0], "a change right after a request is lost"
    assert evaluated(_model(eager), tmp_path, ["merged"], ["merged"], first=now - HOUR) == [0] * 3


def test_hourly_assets_of_other_hours_map_to_those_of_their_tables(tmp_path: Path) -> None:
    """Their hours may begin later, or earlier with a mapping that says so."""
    now = hour_of(utc_now()).start
    lenient = dg.TimeWindowPartitionMapping(allow_nonexistent_upstream_partitions=True)
    for first, mapping in ((now, None), (HOURS_START, lenient)):

        @dg.asset(
            deps=[dg.AssetDep(KEY, partition_mapping=mapping)],
            partitions_def=hourly_partitions(first),
            automation_condition=cdc_assets.when_changed(),
        )  # fmt: skip
        def report() -> None: ...

        assert evaluated(report, tmp_path, ["merged"], first=now - 3 * HOUR) == [0, 1]


def test_a_job_of_the_project_may_select_all_tables_of_a_replication(tmp_path: Path) -> None:
    config = load_config(write(tmp_path, "orders", "items"))
    job = dg.define_asset_job("nightly", dg.AssetSelection.groups("shop"))
    made = cdc_assets.build_definitions(config)
    dg.Definitions.validate_loadable(dg.Definitions.merge(made, dg.Definitions(jobs=[job])))
    # Inverse: tables with different hours stop the whole code location.
    first, second = registry_of(config, "orders", "items")
    known = Registry.of([first, replace(second, hours_from=HOURS_START + HOUR)])
    made = cdc_assets.build_definitions(config, registry=known)
    with pytest.raises(dg.DagsterInvalidDefinitionError, match="resolve asset job nightly"):
        dg.Definitions.validate_loadable(dg.Definitions.merge(made, dg.Definitions(jobs=[job])))


def test_eager_works_for_an_asset_that_depends_on_the_last_hour(tmp_path: Path) -> None:
    dep = dg.AssetDep(KEY, partition_mapping=dg.LastPartitionMapping())

    @dg.asset(deps=[dep], automation_condition=dg.AutomationCondition.eager())
    def report() -> None: ...

    assert evaluated(report, tmp_path, ["merged"]) == [0, 1]


def test_the_translated_key_is_the_same_for_a_table_that_is_found_later(tmp_path: Path) -> None:
    config = load_config(write(tmp_path, "orders"))
    from cdc_assets.orchestration.mount import Mount

    mounted = config.mounted(
        Mount(lambda config, entry: dg.AssetSpec(["lake", entry.table.name])), "east"
    )
    (later,) = registry_of(config, "later")
    assert table_key(mounted, later) == dg.AssetKey(["lake", "later"])
    assert mounted.path == config.path
    assert config.mount is None
