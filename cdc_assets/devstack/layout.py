"""Where the local stack keeps things and which ports it uses: values only."""

from __future__ import annotations

import os
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
        """The defaults with some of them replaced; names that are no part are ignored."""
        known = {field.name for field in fields(cls)}
        return cls(**{name: port for name, port in ports.items() if name in known})

    def as_dict(self) -> dict[str, int]:
        """``{part: port}``."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class StackLayout:
    """Every path of one local stack lies under ``home``.

    Args:
        home: the folder for local state; made absolute.
        ports: which ports to use.
        jars: the JVM pieces, when another home has them; default ``$CDC_ASSETS_JARS``, else
            ``home/jars``.
        config: the configuration file that all this comes from: what is started here is its.
    """

    home: Path
    ports: Ports = Ports()
    jars: Path | None = None
    config: Path | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "home", Path(self.home).absolute())

    @property
    def owner(self) -> str:
        """The configuration file as pidfiles name it; empty without one."""
        return str(self.config.resolve()) if self.config else ""

    @property
    def runs(self) -> Path:
        """Pidfiles, locks and settings of what runs."""
        return self.home / "run"

    def jars_of(self, part: str) -> Path:
        """The jars of one part."""
        shared = self.jars or os.environ.get(JARS_VARIABLE)
        return Path(shared or self.home / "jars").absolute() / part

    def log(self, part: str) -> Path:
        """What a part printed since its last start; the run before is kept as ``….log.1``."""
        return self.home / "logs" / f"{part}.log"

    def pidfile(self, part: str) -> Path:
        """Which process a part is."""
        return self.runs / f"{part}.json"

    def data(self, part: str) -> Path:
        """What a part must find again after a restart."""
        return self.home / part

    def tmp(self, part: str) -> Path:
        """What a part may lose when it stops; emptied before each start."""
        return self.home / "tmp" / part

    def secret(self, name: str) -> Path:
        """A generated password or token, readable by the owner only."""
        return self.home / "secrets" / name
