"""Adds a replication to any Dagster project: in Python, or as a component of `defs.yaml`.

Nothing here depends on the working directory, on `$CDC_ASSETS_CONFIG`, or on other definitions of
the code location, and the location's executor stays unchanged. If there are several replications,
all but one need a name: see `ReplicationConfig.name`.
"""

# No `from __future__ import annotations`: Dagster reads the annotations of the component.

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import dagster as dg
from dagster.components.utils.translation import TranslationFn, TranslationFnResolver
from pydantic import GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from cdc_assets.config import ReplicationConfig, load_config
from cdc_assets.config.load import DEFAULT_FILE, read_config, requirements_of
from cdc_assets.config.secret import TEMPLATE
from cdc_assets.config.starter import Starter
from cdc_assets.orchestration import mounted_definitions
from cdc_assets.orchestration.keys import REPLICATED
from cdc_assets.orchestration.translator import TableProps, Translator
from cdc_assets.reference import page
from cdc_assets.registry import Registry, RegistryFile

Sensors = Literal["running", "stopped"]

__all__ = ["Replication", "TableProps", "Translator", "build_definitions", "when_changed"]


def build_definitions(
    config: ReplicationConfig | Path | str,
    *,
    name: str = "",
    translator: Translator | None = None,
    registry: Registry | None = None,
    sensors: Sensors = "stopped",
) -> dg.Definitions:
    """Returns a replication's assets, checks, sensors, schedules and resource, for merging.

    Contacts neither Kafka nor a database nor the catalog. The tables are those that discovery has
    registered; its sensor reloads the code location when there are more.

    Args:
        config: the configuration, or the path of its file, to which its relative paths relate.
        name: the replication's name, instead of that in the configuration.
        translator: decides how Dagster shows each table.
        registry: the tables, instead of those in the configuration's registry.
        sensors: whether sensors and schedules are ``running`` from the beginning, or ``stopped``
            until somebody starts them: another person's `dg dev` must not merge, alert or prune.

    Raises:
        ConfigError: if the configuration is wrong: names file, line and key.
        TerminalError: if two tables get the same asset key.
    """
    read = config if isinstance(config, ReplicationConfig) else load_config(Path(config))
    known = RegistryFile(read.registry).load() if registry is None else registry
    runs = sensors == "running"
    return mounted_definitions(read, known, translator or Translator(), name, runs=runs)


@dg.template_var
def when_changed() -> dg.AutomationCondition[Any]:
    """Returns a condition that runs an asset when a table that it depends on has changed.

    It does not run an asset that is running. Unlike `AutomationCondition.eager()` it waits neither
    for missing hours of the table (an asset without partitions depends on all of them) nor for runs
    of the table to end: these stay for minutes, and readers see their publishes at once. A change
    while the asset runs, or after its run was requested and before it began, triggers another run.
    An asset with the tables' hours runs for each hour that changed.

    A replicated table has changed when a run has materialized it, which each publish does, and
    once more the run's end. Events without a run change nothing: those that open and close hours,
    idle ones too, and those that say that a table is paused. Of any other dependency each update
    counts.
    """
    ours = dg.AssetSelection.tag(*REPLICATED)
    any_run = dg.AutomationCondition.any_new_update_has_run_tags()  # requires no tag, but a run
    last_run = dg.AutomationCondition.executed_with_tags()  # if the event log was empty before
    by_a_run = dg.AutomationCondition.newly_updated() & (any_run | last_run)
    any_updated = dg.AutomationCondition.any_deps_updated()
    updated = any_updated.ignore(ours) | any_updated.replace("newly_updated", by_a_run).allow(ours)
    handled = dg.AutomationCondition.newly_requested() & ~updated
    in_progress = dg.AutomationCondition.in_progress()
    return (updated.since(handled) & ~in_progress).with_label("when_changed")


class ReplicationScaffolder(dg.Scaffolder):
    """The scaffolder of `dg scaffold defs cdc_assets.Replication PATH`."""

    def scaffold(self, request: dg.ScaffoldRequest[Any]) -> None:
        """Writes a commented configuration and the `defs.yaml` that mounts it.

        A configuration that is there stays, and `defs.yaml` declares its environment variables.
        """
        folder = request.target_path.parent if request.append else request.target_path
        file = folder / DEFAULT_FILE
        if not file.exists():
            file.write_text(Starter().text(), encoding="utf-8")
        dg.scaffold_component(request, {"config": DEFAULT_FILE})
        if request.scaffold_format == "yaml":
            defs = request.target_path if request.append else folder / "defs.yaml"
            with defs.open("a", encoding="utf-8") as out:
                out.write(requirements_of(file))


def _of_props(props: TableProps) -> dict[str, Any]:
    return {"props": props, "table": props.entry.table, "target": props.entry.target}


class _Schema:
    """Gives a mapping the JSON Schema of a configuration; it is validated later."""

    @classmethod
    def __get_pydantic_json_schema__(
        cls, _schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Returns the configuration's own schema."""
        return handler(ReplicationConfig.__pydantic_core_schema__)


def _config_of(context: dg.ResolutionContext, said: Any) -> Any:
    """Returns the name of the configuration's file, or the configuration itself."""
    return context.resolve_value(said) if isinstance(said, str) else _resolved(context, said)


def _resolved(context: dg.ResolutionContext, value: Any) -> Any:
    """Returns a value with its templates resolved, but for variables: some name secrets."""
    if isinstance(value, dict):
        return {key: _resolved(context, each) for key, each in value.items()}
    if isinstance(value, list):
        return [_resolved(context, each) for each in value]
    is_text = isinstance(value, str) and TEMPLATE.fullmatch(value.strip()) is None
    return context.resolve_value(value) if is_text else value


@dg.scaffold_with(ReplicationScaffolder)
@dataclass
class Replication(dg.Component, dg.Resolvable):
    """Tables of operational databases, kept equal in the lake: one asset for each.

    Attributes:
        config: the configuration's file, relative to the folder of the component; or the
            configuration itself, whose relative paths relate to that folder.
        name: the replication's name, instead of that in the configuration: see there.
        sensors: whether sensors and schedules are ``running`` from the beginning, or ``stopped``
            until somebody starts them.
        translation: attributes of the tables' assets. In templates `table` has `source`, `schema`
            and `name`, `target` has `namespace` and `name`, and `spec` is the default asset spec.
    """

    config: Annotated[
        str | dict[str, Any],
        dg.Resolver(_config_of, model_field_type=str | Annotated[dict[str, Any], _Schema()]),
    ] = DEFAULT_FILE
    name: str = ""
    sensors: Sensors = "stopped"
    translation: (
        Annotated[TranslationFn[TableProps], TranslationFnResolver[TableProps](_of_props)] | None
    ) = None

    def get_asset_spec(self, props: TableProps) -> dg.AssetSpec:
        """Returns a table's asset spec; subclasses may override it. See `Translator`."""
        return self.translation(props.spec, props) if self.translation else props.spec

    def execute(self, context: dg.AssetExecutionContext, events: Iterator[Any]) -> Iterator[Any]:
        """Yields the events of a table's step; subclasses may override it. See `Translator`."""
        yield from events

    @classmethod
    def get_spec(cls) -> dg.ComponentTypeSpec:
        """Returns what `dg list components` and the catalogue show."""
        return dg.ComponentTypeSpec(
            description="Tables of operational databases, kept equal in Apache Iceberg.",
            owners=["team:cdc_assets"],
            tags=["cdc", "debezium", "iceberg", "kafka", "spark"],
            metadata={"documentation": page("how-to/run/use-in-a-dagster-project.md")},
        )

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Builds the definitions from the configuration and the registry, and nothing else."""
        folder, said = Path(context.path), self.config
        inline = isinstance(said, dict)
        config = read_config(said, folder, f"{folder}/defs.yaml") if inline else folder / said
        return build_definitions(
            config, name=self.name, translator=_Asks(self), sensors=self.sensors
        )


@dataclass
class _Asks(Translator):
    """A translator that asks the component."""

    component: Replication

    def get_asset_spec(self, props: TableProps) -> dg.AssetSpec:
        """Returns the component's asset spec of a table."""
        return self.component.get_asset_spec(props)

    def execute(self, context: dg.AssetExecutionContext, events: Iterator[Any]) -> Iterator[Any]:
        """Yields the events of a table's step, as the component says."""
        return self.component.execute(context, events)
