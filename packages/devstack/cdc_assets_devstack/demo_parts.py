"""Runs the demo's own parts, outside of the stack: the load on the shop, and Dagster."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

import requests

from cdc_assets.local_stack import require
from cdc_assets_devstack import environment, local_http
from cdc_assets_devstack.layout import HOST, StackLayout
from cdc_assets_devstack.part import Part
from cdc_assets_devstack.process import Command, RunningProcess

_INSTANCE = Path(__file__).with_name("dagster.yaml")


class ShopLoadProcess(Part):
    """The load generator; it does not listen, so it is ready when it runs."""

    name = "shop-load"
    inherits = environment.PYTHON
    stop_within_seconds = 5

    def __init__(self, layout: StackLayout, dsn: str, rate: float) -> None:
        super().__init__(layout)
        self._dsn = dsn
        self._rate = rate

    @property
    def port(self) -> int:
        """0, as the load has no port."""
        return 0

    def fingerprint(self) -> str:
        """Returns a digest of the rate and the database, whose change needs a restart."""
        return _digest(f"{self._rate:g}", self._dsn)

    def users(self, running: RunningProcess) -> tuple[str, ...]:
        """Returns no users, as only the demo uses the load."""
        return ()

    def prepare(self) -> None:
        """Does nothing: the shop exists already."""

    def command(self) -> Command:
        """Returns the command; the DSN contains a password, so it is in the environment."""
        argv = [sys.executable, "-m", "cdc_assets_devstack.shop.load", "--rate", str(self._rate)]
        return Command(argv, env=self.environment({"SHOP_DSN": self._dsn}))

    def ready(self) -> bool:
        """Whether the load runs."""
        running = self.running
        return running is not None and running.alive


class Dagster(Part):
    """``dagster dev``: webserver and daemon.

    Args:
        layout: the layout; the instance is in ``<home>/dagster``.
        port: the port of the webserver.
        instance_file: a ``dagster.yaml`` to copy there; if it does not exist, one like the
            project's is used.
        env: the configuration and secrets that its runs need.
    """

    name = "dagster"
    inherits = (
        *environment.PYTHON,
        *environment.NETWORK,
        *environment.CLOUD,
        *environment.OWN,
    )
    ready_within_seconds = 300
    stop_within_seconds = 10

    def __init__(
        self, layout: StackLayout, port: int, instance_file: Path, env: Mapping[str, str]
    ) -> None:
        super().__init__(layout)
        self._port = port
        self._instance_file = instance_file
        self._env = env

    @property
    def port(self) -> int:
        """The webserver's port."""
        return self._port

    @property
    def url(self) -> str:
        """The URL for a browser."""
        return f"http://{self.address}"

    def fingerprint(self) -> str:
        """Returns a digest of settings and the instance's file, whose change needs a restart."""
        told = (f"{name}={value}" for name, value in sorted(self._settings().items()))
        return _digest(self._instance().read_text(), *told)

    def users(self, running: RunningProcess) -> tuple[str, ...]:
        """Returns no users, as none would lose anything: a browser finds its page again."""
        return ()

    def prepare(self) -> None:
        """Creates the instance's folder.

        Raises:
            TerminalError: if the webserver is not installed.
        """
        require("dagster_webserver", "Dagster's webserver is", "demo")
        home = self.layout.data(self.name)
        home.mkdir(parents=True, exist_ok=True)
        shutil.copy(self._instance(), home / "dagster.yaml")

    def command(self) -> Command:
        """Returns the command; on SIGINT Dagster stops its own servers and runs cleanly."""
        return Command(
            [
                *(sys.executable, "-m", "dagster", "dev", "-m", "cdc_assets.definitions"),
                *("-h", HOST, "-p", str(self._port)),
            ],
            env=self.environment({**environment.named_in(self._instance()), **self._settings()}),
            cwd=self.layout.data(self.name),  # a `.env` of the user's folder is not meant for it
            stop_signal=signal.SIGINT,
        )

    def _instance(self) -> Path:
        return self._instance_file if self._instance_file.exists() else _INSTANCE

    def _settings(self) -> dict[str, str]:
        programs = Path(sys.executable).parent
        return {
            **self._env,
            "DAGSTER_HOME": str(self.layout.data(self.name)),
            "CDC_ASSETS_WEBSERVER": f"http://{HOST}:{self._port}",
            "PATH": f"{programs}{os.pathsep}{os.environ.get('PATH', '')}",
        }

    def ready(self) -> bool:
        """Whether the webserver answers."""
        try:
            return local_http.request("GET", f"{self.url}/server_info", seconds=5).ok
        except requests.RequestException:
            return False


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()
