"""Defines the local stack's paths and ports, as values only."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path

HOST = "127.0.0.1"
JARS_VARIABLE = "CDC_ASSETS_JARS"


@dataclass(frozen=True, slots=True)
class Ports:
    """TCP ports of the parts, all bound to 127.0.0.1."""

    postgres: int = 15432
    kafka: int = 19092
    kafka_controller: int = 19093
    connect: int = 18083
    spark: int = 15002
    mariadb: int = 13306
    registry: int = 18081

    @classmethod
    def of(cls, ports: Mapping[str, int]) -> Ports:
        """Returns the defaults with some replaced; ignores names that are no part."""
        known = {field.name for field in fields(cls)}
        return cls(**{name: port for name, port in ports.items() if name in known})

    def as_dict(self) -> dict[str, int]:
        """Returns ``{part: port}``."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class StackLayout:
    """The paths and ports of one local stack; all paths but that of the jars are below ``home``.

    Args:
        home: the folder for local state; made absolute.
        ports: the ports to use.
        jars: the folder of the JVM pieces if another home has them; default ``$CDC_ASSETS_JARS``,
            else ``home/jars``.
        config: the configuration file of this layout, which owns all processes started with it.
    """

    home: Path
    ports: Ports = Ports()
    jars: Path | None = None
    config: Path | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "home", Path(self.home).absolute())

    @property
    def owner(self) -> str:
        """The configuration file's path, as in pidfiles; empty without one."""
        return str(self.config.resolve()) if self.config else ""

    @property
    def runs(self) -> Path:
        """The folder of pidfiles, locks and settings of running parts."""
        return self.home / "run"

    def jars_of(self, part: str) -> Path:
        """Returns the folder of one part's jars."""
        shared = self.jars or os.environ.get(JARS_VARIABLE)
        return Path(shared or self.home / "jars").absolute() / part

    def log(self, part: str) -> Path:
        """Returns the log of a part since its last start; that of the run before is ``….log.1``."""
        return self.home / "logs" / f"{part}.log"

    def pidfile(self, part: str) -> Path:
        """Returns the file that records a part's process."""
        return self.runs / f"{part}.json"

    @property
    def without_data(self) -> str:
        """The command that removes all local data, for messages."""
        return f"cdc-assets stack down --force && rm -r {shlex.quote(os.path.relpath(self.home))}"

    def data(self, part: str) -> Path:
        """Returns the folder of data that a part needs after a restart."""
        return self.home / part

    def tmp(self, part: str) -> Path:
        """Returns the folder of data that a part may lose; emptied before each start."""
        return self.home / "tmp" / part

    def secret(self, name: str) -> Path:
        """Returns the file of a generated password or token, readable only by its owner."""
        return self.home / "secrets" / name
