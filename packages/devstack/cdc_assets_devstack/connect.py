"""Runs Kafka Connect with Debezium, in distributed mode with one worker.

That mode keeps connectors and their offsets in Kafka: a connector registered by REST exists after a
restart, and continues where it stopped.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import requests

from cdc_assets.errors import TerminalError, TransientError
from cdc_assets_devstack import local_http, secrets_file
from cdc_assets_devstack.jars import require_installed
from cdc_assets_devstack.java import find_java, jvm_options
from cdc_assets_devstack.kafka import plain_logging, properties
from cdc_assets_devstack.layout import HOST
from cdc_assets_devstack.part import POLL_SECONDS, Part
from cdc_assets_devstack.process import Command

_PROVIDERS = "org.apache.kafka.common.config.provider"
_PLUGINS = ("connect-postgres", "connect-mariadb")
_RUNS_WITHIN_SECONDS = 60.0
_RESTARTS = 3
_RESTART_SHOWS_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class ConnectorState:
    """The state of a connector; ``failure`` is the first line of the reason if it failed."""

    runs: bool = False
    failure: str | None = None
    known: bool = True


class Connect(Part):
    """The worker; its REST interface listens on 127.0.0.1 only."""

    name = "connect"
    needs = ("kafka",)

    @property
    def port(self) -> int:
        """The port of the REST interface."""
        return self.layout.ports.connect

    @property
    def settings_file(self) -> Path:
        """The worker's properties."""
        return self.layout.home / "run" / "connect.properties"

    @property
    def plugins(self) -> Path:
        """The folder of plugins: each connector has a folder, and a class loader, of its own."""
        return self.layout.tmp(self.name) / "plugins"

    def prepare(self) -> None:
        """Writes the worker's settings, and a secret: the worker needs that folder to exist."""
        for part in (self.name, *_PLUGINS):
            require_installed(self.layout, part)
        self.plugins.mkdir()
        for part in _PLUGINS:
            (self.plugins / part).symlink_to(self.layout.jars_of(part))
        secrets_file.read_or_create(self.layout.secret("postgres"))
        self.settings_file.write_text(properties(self._settings()))

    def command(self) -> Command:
        """Returns the command of the worker."""
        return Command(
            [
                str(find_java().program),
                *jvm_options(heap="1g", tmp=self.layout.tmp(self.name)),
                *plain_logging(),
                "-Dorg.slf4j.simpleLogger.log.io.debezium=info",
                *("-cp", f"{self.layout.jars_of(self.name)}/*"),
                "org.apache.kafka.connect.cli.ConnectDistributed",
                str(self.settings_file),
            ],
            env=self.environment(),
        )

    def ready(self) -> bool:
        """Returns whether it has joined its group and lists connectors."""
        try:
            return local_http.request("GET", f"http://{self.address}/connectors", seconds=2).ok
        except requests.RequestException:
            return False

    def register(self, name: str, config: Mapping[str, str]) -> None:
        """Creates or updates a connector, and waits until it and its task run.

        Raises:
            TerminalError: Connect refuses the configuration, or the task failed.
            TransientError: it did not run in time, or Connect does not answer.
        """
        deadline = time.monotonic() + _RUNS_WITHIN_SECONDS
        while (answer := self._put(name, config)).status_code == requests.codes.conflict:
            self._pause(name, deadline)  # the worker is still taking its assignments
        if not answer.ok:
            msg = f"Kafka Connect refuses connector {name}: {_message(answer)}"
            raise TerminalError(
                msg,
                where=f"log={self.layout.log(self.name)}",
                remedy="correct the connector's configuration; the log may say more",
            )
        failures = 0
        while not (state := self.state_of(name)).runs:
            if state.failure is not None:
                failures += 1
                if failures > _RESTARTS:
                    raise self._failed(name, state.failure)
                self.restart(name)  # a failed one stays failed, even with a new configuration
                self._settle(name, deadline)
            self._pause(name, deadline)

    def unregister(self, name: str) -> None:
        """Deletes a connector; its offsets in Kafka stay."""
        local_http.request("DELETE", f"http://{self.address}/connectors/{name}", seconds=10)

    def state_of(self, name: str) -> ConnectorState:
        """Returns the state of a connector and its tasks.

        Raises:
            TransientError: Connect does not answer.
        """
        answer = self._ask("GET", f"/connectors/{name}/status")
        if not answer.ok:
            return ConnectorState(known=False)
        status = answer.json()
        parts = [status["connector"], *status["tasks"]]
        failed = (part for part in parts if part["state"] == "FAILED")
        reasons = (str(part.get("trace", "")).split("\n", 1)[0] for part in failed)
        return ConnectorState(
            runs=bool(status["tasks"]) and all(part["state"] == "RUNNING" for part in parts),
            failure=next(reasons, None),
        )

    def restart(self, name: str) -> None:
        """Restarts the failed parts of a connector."""
        self._ask("POST", f"/connectors/{name}/restart?includeTasks=true&onlyFailed=true")

    def _put(self, name: str, config: Mapping[str, str]) -> requests.Response:
        return self._ask("PUT", f"/connectors/{name}/config", dict(config))

    def _ask(
        self, method: str, path: str, content: Mapping[str, str] | None = None
    ) -> requests.Response:
        url = f"http://{self.address}{path}"
        try:
            return local_http.request(method, url, seconds=30, json=content)
        except requests.RequestException as error:
            what = f"Kafka Connect does not answer ({type(error).__name__})"
            raise TransientError(what, where=url, remedy="cdc-assets stack status") from error

    def _settle(self, name: str, deadline: float) -> None:
        """Waits until a restart shows: until then Connect reports the earlier state."""
        shows = time.monotonic() + _RESTART_SHOWS_SECONDS
        while self.state_of(name).failure is not None and time.monotonic() < shows:
            self._pause(name, deadline)

    def _failed(self, name: str, reason: str) -> TerminalError:
        msg = f"connector {name} failed: {reason}"
        return TerminalError(
            msg,
            where=f"log={self.layout.log(self.name)}",
            remedy="correct what it names and register the connector again",
        )

    def _pause(self, name: str, deadline: float) -> None:
        self.require_alive()
        if time.monotonic() > deadline:
            msg = f"connector {name} does not run yet"
            raise TransientError(
                msg,
                where=f"log={self.layout.log(self.name)}",
                remedy=f"curl http://{self.address}/connectors/{name}/status",
            )
        time.sleep(POLL_SECONDS)

    def _settings(self) -> dict[str, object]:
        json_converter = "org.apache.kafka.connect.json.JsonConverter"
        return {
            "bootstrap.servers": f"{HOST}:{self.layout.ports.kafka}",
            "group.id": "cdc-assets-connect",
            "listeners": f"http://{HOST}:{self.port}",
            "rest.advertised.host.name": HOST,
            "rest.advertised.port": self.port,
            "key.converter": json_converter,
            "value.converter": json_converter,
            "config.storage.topic": "connect-configs",
            "offset.storage.topic": "connect-offsets",
            "status.storage.topic": "connect-status",
            "config.storage.replication.factor": 1,
            "offset.storage.replication.factor": 1,
            "status.storage.replication.factor": 1,
            "offset.storage.partitions": 1,
            "status.storage.partitions": 1,
            "offset.flush.interval.ms": 1000,
            "scheduled.rebalance.max.delay.ms": 0,
            "plugin.discovery": "service_load",
            "plugin.path": self.plugins,
            # Connectors name secrets as ${directory:PATH:FILE}; REST never shows their values.
            "config.providers": "directory",
            "config.providers.directory.class": f"{_PROVIDERS}.DirectoryConfigProvider",
            "config.providers.directory.param.allowed.paths": self.layout.home / "secrets",
        }


def _message(answer: requests.Response) -> str:
    try:
        return str(answer.json().get("message", answer.reason))
    except ValueError:
        return answer.reason
