"""A replication as a part of any Dagster project: in Python, or as a component of `defs.yaml`.

Nothing here depends on the working directory, on `$CDC_ASSETS_CONFIG`, or on what else is in the
code location; the location's executor is left as it is. Of several replications all but one need a
name: see `ReplicationConfig.name`.
"""

# No `from __future__ import annotations`: Dagster reads the annotations of the component.

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import dagster as dg
from dagster.components.utils.translation import TranslationFn, TranslationFnResolver

from cdc_assets.config import ReplicationConfig, load_config
from cdc_assets.config.load import DEFAULT_FILE
from cdc_assets.config.starter import Starter
from cdc_assets.orchestration import mounted_definitions
from cdc_assets.orchestration.translator import TableProps, Translator
from cdc_assets.registry import Registry, RegistryFile

__all__ = ["Replication", "TableProps", "Translator", "build_definitions", "when_changed"]


def build_definitions(
    config: ReplicationConfig | Path | str,
    *,
    name: str = "",
    translator: Translator | None = None,
    registry: Registry | None = None,
) -> dg.Definitions:
    """The assets, checks, sensors, schedules and the resource of a replication, to be merged.

    Asks nobody: neither Kafka nor a database nor the catalog. The tables are those that discovery
    has registered; its sensor has the code location loaded again when there are more.

    Args:
        config: the configuration, or where its file is. Its relative paths are relative to it.
        name: of the replication, in place of that in the configuration.
        translator: says what Dagster shows of each table.
        registry: the tables, in place of those in the configuration's registry.

    Raises:
        ConfigError: if the configuration is wrong: names file, line and key.
        TerminalError: if two tables get one asset key.
    """
    read = config if isinstance(config, ReplicationConfig) else load_config(Path(config))
    known = RegistryFile(read.registry).load() if registry is None else registry
    return mounted_definitions(read, known, translator or Translator(), name)


def when_changed() -> dg.AutomationCondition[Any]:
    """Run a downstream asset when a table that it depends on has changed, and it is not running.

    Unlike `AutomationCondition.eager()` it waits neither for hours of the table in which nothing
    was replicated (an asset without partitions depends on all of them) nor for runs of the table
    to end: these stay for minutes, and what they have published is there for readers at once.
    A change while the asset runs, or between being asked for and beginning, has it run once more.
    An asset with the tables' hours runs for each hour that changed.
    """
    updated = dg.AutomationCondition.any_deps_updated()
    handled = dg.AutomationCondition.newly_requested() & ~updated
    in_progress = dg.AutomationCondition.in_progress()
    return (updated.since(handled) & ~in_progress).with_label("when_changed")


class ReplicationScaffolder(dg.Scaffolder):
    """`dg scaffold defs cdc_assets.Replication PATH`."""

    def scaffold(self, request: dg.ScaffoldRequest[Any]) -> None:
        """Write a commented configuration and the `defs.yaml` that mounts it."""
        from dagster.components.component_scaffolding import scaffold_component

        folder = request.target_path.parent if request.append else request.target_path
        file = folder / DEFAULT_FILE
        if not file.exists():
            file.write_text(Starter().text(), encoding="utf-8")
        scaffold_component(request, {"config": DEFAULT_FILE})


def _of_props(props: TableProps) -> dict[str, Any]:
    return {"props": props, "table": props.entry.table, "target": props.entry.target}


@dg.scaffold_with(ReplicationScaffolder)
@dataclass
class Replication(dg.Component, dg.Resolvable):
    """Tables of operational databases, kept equal in the lake: one asset for each.

    Attributes:
        config: the configuration's file, relative to the folder of the component.
        name: of the replication, in place of that in the configuration: see there.
        translation: attributes of the tables' assets. In templates `table` has `source`, `schema`
            and `name`, `target` has `namespace` and `name`, and `spec` is the asset as it would be.
    """

    config: str = DEFAULT_FILE
    name: str = ""
    translation: (
        Annotated[TranslationFn[TableProps], TranslationFnResolver[TableProps](_of_props)] | None
    ) = None

    def get_asset_spec(self, props: TableProps) -> dg.AssetSpec:
        """What Dagster shows of a table; for subclasses to say otherwise. See `Translator`."""
        return self.translation(props.spec, props) if self.translation else props.spec

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Read the configuration and the registry, and nothing else."""
        file = Path(context.path) / self.config
        return build_definitions(file, name=self.name, translator=_Asks(self))


@dataclass
class _Asks(Translator):
    """Asks the component."""

    component: Replication

    def get_asset_spec(self, props: TableProps) -> dg.AssetSpec:
        """As the component says."""
        return self.component.get_asset_spec(props)
