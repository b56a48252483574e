"""Defines `ReplicationConfig`, the root of the configuration tree."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, PrivateAttr, ValidationInfo, field_validator

from cdc_assets.config.assess import AssessConfig
from cdc_assets.config.batch import BatchConfig
from cdc_assets.config.kafka import KafkaConfig
from cdc_assets.config.paths import absolute_path, absolute_url
from cdc_assets.config.platform import (
    AlertsConfig,
    LakeConfig,
    OperationsConfig,
    RunsConfig,
    SparkConfig,
    StackConfig,
)
from cdc_assets.config.secret import Url
from cdc_assets.config.source import SourceConfig
from cdc_assets.config.strict import BASE_DIRECTORY, Strict, did_you_mean, refuse
from cdc_assets.errors import ConfigError
from cdc_assets.schema.readers import faults, mode_for

CONFIG_FILE = "config_file"
"""Key of the validation context: the file that is being read."""

_SOURCE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


class ReplicationConfig(Strict):
    """The contents of the file, with defaults filled in and paths made absolute.

    ``home`` and every other relative path resolve against the folder of the file, so that commands
    mean the same wherever they are started from. Secrets are not read here.

    Attributes:
        kafka: brokers, and the properties of Kafka's clients.
        lake: Iceberg catalog, warehouse, and the engines that read the tables.
        spark: Spark server that merges.
        registry: path or fsspec URL of the document of discovered tables, with notes in the same
            folder. Keep the document and ``….desired/``.
        home: folder of local state: locks, logs, jars, secrets, data of the local stack.
            Configurations with other ``stack.ports``, ``lake`` or ``spark`` need another.
        runs: lifetime and pace of runs.
        stack: settings of the local stack.
        sources: sources by name. A name has letters, digits and underscores, starts with a letter,
            and begins the asset keys.
        alerts: address and form of alerts.
        operations: operations that Dagster's UI offers.
        name: prefix of names in Dagster (jobs, sensors, pools, resources). Must differ between
            replications of one code location.
        assess: interval and depth of assessments.
    """

    kafka: KafkaConfig
    lake: LakeConfig
    spark: SparkConfig = SparkConfig()
    registry: Url = ".cdc/registry.json"
    home: Annotated[Path, Field(strict=False)] = Path(".cdc")
    runs: RunsConfig = RunsConfig()
    stack: StackConfig = StackConfig()
    sources: dict[str, SourceConfig] = Field(default_factory=dict)
    alerts: AlertsConfig = AlertsConfig()
    operations: OperationsConfig = OperationsConfig()
    name: str = ""
    assess: AssessConfig = AssessConfig()

    _path: Path | None = PrivateAttr(default=None)
    _directory: Path = PrivateAttr(default_factory=Path.cwd)
    _mount: object | None = PrivateAttr(default=None)

    def model_post_init(self, context: dict[str, Path] | None, /) -> None:
        """Remembers the file and its folder."""
        if context:
            self._path = context.get(CONFIG_FILE)
            self._directory = context.get(BASE_DIRECTORY, self._directory)

    @field_validator("home")
    @classmethod
    def _home(cls, home: Path, info: ValidationInfo) -> Path:
        return absolute_path(home, info)

    @field_validator("registry")
    @classmethod
    def _registry(cls, registry: str, info: ValidationInfo) -> str:
        return absolute_url(registry, info)

    @field_validator("name")
    @classmethod
    def _is_identifier(cls, name: str) -> str:
        if name and not _SOURCE_NAME.fullmatch(name):
            what = f"{name!r} cannot name a replication"
            raise refuse(what, "letters, digits and underscores, starting with a letter")
        return name

    @field_validator("sources")
    @classmethod
    def _source_names(cls, sources: dict[str, SourceConfig]) -> dict[str, SourceConfig]:
        for name in sources:
            if not _SOURCE_NAME.fullmatch(name):
                what = f"{name!r} cannot name a source"
                raise refuse(what, "letters, digits and underscores, starting with a letter")
        return sources

    @field_validator("sources")
    @classmethod
    def _are_read(
        cls, sources: dict[str, SourceConfig], info: ValidationInfo
    ) -> dict[str, SourceConfig]:
        lake: LakeConfig | None = info.data.get("lake")
        if lake is None or not lake.readers:
            return sources
        for name, source in sources.items():
            for table, said in source.tables.items():
                version = said.layout.format_version or lake.format_version
                mode = said.layout.files.delete_mode or mode_for(lake.readers, version)
                fault = mode and next(faults(lake.readers, version, mode), "")
                if fault:
                    what = f"the layout of {name}.{table} does not suit lake.readers: {fault}"
                    remedy = "leave out its format_version and delete_mode, or this reader"
                    raise refuse(what, remedy)
        return sources

    @property
    def path(self) -> Path | None:
        """The file that this was read from, if any."""
        return self._path

    @property
    def mount(self) -> object | None:
        """The mount in Dagster, if a project has mounted it."""
        return self._mount

    def mounted(self, mount: object, name: str = "") -> Self:
        """Returns a copy as mounted by a project, under another name if one is given."""
        made = self.model_copy(update={"name": name} if name else None)
        made._mount = mount  # noqa: SLF001 (one of this class)
        return made

    def resolve(self, path: str | Path) -> Path:
        """Returns a path of the configuration as an absolute one."""
        return self._directory / Path(path).expanduser()

    def max_record_bytes(self, topic: str) -> int:
        """Returns the largest size of a record read from a topic, by the most generous source.

        For a topic that no source includes, such as some transaction topics, all sources count;
        without any source, the default does.
        """
        sources = self.sources.values()
        mine = [each for each in sources if each.topics.matches(topic)] or sources
        usual = BatchConfig().max_record_bytes
        return max((each.batch.max_record_bytes for each in mine), default=usual)

    def source(self, name: str) -> SourceConfig:
        """Returns the source of this name.

        Raises:
            ConfigError: if there is none; suggests the nearest match.
        """
        if name not in self.sources:
            msg = f"no source is named {name!r}"
            remedy = did_you_mean(name, self.sources) if self.sources else "add it under sources"
            raise ConfigError(msg, where=str(self._path or "configuration"), remedy=remedy)
        return self.sources[name]
