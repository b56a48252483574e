"""Starts and stops the parts of the local stack together."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from cdc_assets.errors import ConfigError
from cdc_assets_devstack.connect import Connect
from cdc_assets_devstack.kafka import Kafka
from cdc_assets_devstack.layout import StackLayout
from cdc_assets_devstack.mariadb import MariaDB
from cdc_assets_devstack.part import Part, PartState, PartStatus, Progress, stop_recorded
from cdc_assets_devstack.postgres import Postgres
from cdc_assets_devstack.process import RunningProcess
from cdc_assets_devstack.registry import Registry
from cdc_assets_devstack.spark_server import SparkServer

DEFAULT_PARTS = ("postgres", "kafka", "connect", "spark")


@dataclass(frozen=True, slots=True)
class StackStatus:
    """All parts at one moment."""

    parts: tuple[PartStatus, ...]

    def __getitem__(self, name: str) -> PartStatus:
        return next(part for part in self.parts if part.name == name)

    @property
    def ready(self) -> bool:
        """Whether every default part is ready."""
        return all(self[name].state is PartState.READY for name in DEFAULT_PARTS)

    def to_json(self) -> str:
        """Returns ``{"parts": [{"name": …, "state": …, …}]}``."""
        return json.dumps({"parts": [asdict(part) for part in self.parts]}, indent=2, default=str)


class LocalStack:
    """PostgreSQL, Kafka, Kafka Connect and Spark Connect on this machine.

    MariaDB and a schema registry are further parts, which are started only on request.

    Args:
        layout: paths and ports.
        spark_conf: settings of the Spark server; None accepts a running server with any settings.
        spark_memory: heap of the Spark server.
    """

    def __init__(
        self,
        layout: StackLayout,
        *,
        spark_conf: Mapping[str, str] | None = None,
        spark_memory: str = "2g",
    ) -> None:
        self.layout = layout
        self.postgres = Postgres(layout)
        self.kafka = Kafka(layout)
        self.connect = Connect(layout)
        self.spark = SparkServer(layout, spark_conf, spark_memory)
        self.mariadb = MariaDB(layout)
        self.registry = Registry(layout)
        self.parts: tuple[Part, ...] = (
            *(self.postgres, self.kafka, self.connect, self.spark),
            *(self.mariadb, self.registry),
        )

    def up(
        self, parts: Sequence[str] = DEFAULT_PARTS, progress: Progress | None = None
    ) -> StackStatus:
        """Starts parts and those they need, at the same time; waits until all are ready.

        Parts that run already are left alone. If one fails, the others stay up: a second call
        starts only the missing ones. Ctrl-C ends the wait at once, and what was started stays up.

        Raises:
            ConfigError: an unknown part.
            TerminalError: a port that another program holds.
            PartOfOthersError: a part runs for another configuration, with other settings.
            PartInUseError: a part runs with older settings, and a client is connected to it.
            PartDiedError: a part ended before it was ready.
        """
        chosen = self._with_needs(parts)
        for part in chosen:
            part.require_startable()
        with ThreadPoolExecutor(len(chosen) or 1) as pool:
            futures = [pool.submit(each.bring_up, progress or _silent) for each in chosen]
            try:
                for future in futures:
                    future.result()
            except KeyboardInterrupt:
                for part in chosen:
                    part.interrupt.set()
                raise
        return self.status()

    def down(self, *, spare_others: bool = False) -> tuple[str, ...]:
        """Stops all that runs in this home, first the parts that need others.

        Args:
            spare_others: whether to spare the parts that another configuration started.

        Returns:
            The spared parts, each with its owner.
        """
        spared = self.of_others() if spare_others else {}
        mine = [part for part in self.parts if part.name not in spared]
        beside = self._beside() - spared.keys()
        with ThreadPoolExecutor(len(beside) or 1) as pool:
            list(pool.map(lambda name: stop_recorded(self.layout, name), beside))
        stop_together([part for part in mine if part.needs])
        stop_together([part for part in mine if not part.needs])
        return tuple(f"{name}, {running}" for name, running in spared.items())

    def of_others(self) -> dict[str, RunningProcess]:
        """Returns what runs in this home for another configuration; nothing without one here.

        Parts that were started without a configuration belong to everybody who names the home.
        """
        mine = self.layout.owner
        found = {name: RunningProcess.read(file) for name, file in self._pidfiles().items()}
        return {
            name: running
            for name, running in found.items()
            if running and mine and running.config not in {"", mine} and running.alive
        }

    def _beside(self) -> set[str]:
        """Returns what runs in this home and is no part of the stack: the demo's, the warm-up."""
        return self._pidfiles().keys() - {part.name for part in self.parts}

    def _pidfiles(self) -> dict[str, Path]:
        return {file.stem: file for file in self.layout.runs.glob("*.json")}

    def status(self) -> StackStatus:
        """Returns each part's status."""
        with ThreadPoolExecutor(len(self.parts)) as pool:
            return StackStatus(tuple(pool.map(lambda part: part.status(), self.parts)))

    def require_alive(self) -> None:
        """Raises if a part that was started has ended by itself.

        Raises:
            PartDiedError: names the first such part and ends with its log.
        """
        for part in self.parts:
            part.require_alive()

    def register_connector(self, name: str, config: Mapping[str, str]) -> None:
        """Creates or updates a Debezium connector, and waits until it runs.

        The topic of its signals is created first: the connector looks for it only once.
        """
        if topic := config.get("signal.kafka.topic"):
            self.kafka.make_topic(topic)
        self.connect.register(name, config)

    def _with_needs(self, names: Sequence[str]) -> list[Part]:
        known = {part.name: part for part in self.parts}
        for name in names:
            if name not in known:
                built = ", ".join(known)
                msg = f"no part is called {name}"
                raise ConfigError(msg, where="stack", remedy=f"choose from: {built}")
        wanted = {*names, *(need for name in names for need in known[name].needs)}
        return [part for part in self.parts if part.name in wanted]


def stop_together(parts: Sequence[Part]) -> None:
    """Stops parts that do not need each other, at the same time."""
    with ThreadPoolExecutor(len(parts) or 1) as pool:
        list(pool.map(lambda part: part.stop(), parts))


def _silent(_: PartStatus) -> None: ...
