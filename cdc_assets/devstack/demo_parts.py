"""What the demo runs beside the stack: the load on the shop, and Dagster."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

import requests

from cdc_assets.devstack.layout import HOST, StackLayout
from cdc_assets.devstack.part import Part
from cdc_assets.devstack.process import Command


class ShopLoadProcess(Part):
    """The load generator; it listens nowhere, so it is ready when it runs."""

    name = "shop-load"

    def __init__(self, layout: StackLayout, dsn: str, rate: float) -> None:
        super().__init__(layout)
        self._dsn = dsn
        self._rate = rate

    @property
    def port(self) -> int:
        """None: 0."""
        return 0

    def fingerprint(self) -> str:
        """The rate: another one needs a restart."""
        return f"rate={self._rate:g}"

    def prepare(self) -> None:
        """Nothing: the shop exists already."""

    def command(self) -> Command:
        """The generator; the DSN holds a password, so it goes by the environment."""
        argv = [sys.executable, "-m", "cdc_assets.devstack.shop.load", "--rate", str(self._rate)]
        return Command(argv, env={"SHOP_DSN": self._dsn})

    def ready(self) -> bool:
        """Whether it runs."""
        running = self.running
        return running is not None and running.alive


class Dagster(Part):
    """``dagster dev``: webserver and daemon.

    Args:
        layout: its instance lies in ``<home>/dagster``.
        port: of the webserver.
        instance_file: a ``dagster.yaml`` to copy there, if it exists.
        env: what its runs need: configuration and secrets.
    """

    name = "dagster"
    ready_within_seconds = 180
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
        """For a browser."""
        return f"http://{self.address}"

    def prepare(self) -> None:
        """Make the instance's folder."""
        home = self.layout.data(self.name)
        home.mkdir(parents=True, exist_ok=True)
        if self._instance_file.exists():
            shutil.copy(self._instance_file, home / "dagster.yaml")

    def command(self) -> Command:
        """Dagster; by SIGINT it stops its own servers and runs in good order."""
        return Command(
            [
                *(sys.executable, "-m", "dagster", "dev", "-m", "cdc_assets.definitions"),
                *("-h", HOST, "-p", str(self._port)),
            ],
            env={
                **self._env,
                "DAGSTER_HOME": str(self.layout.data(self.name)),
                "CDC_ASSETS_WEBSERVER": f"http://{HOST}:{self._port}",
                "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
            },
            stop_signal=signal.SIGINT,
        )

    def ready(self) -> bool:
        """Whether the webserver answers."""
        try:
            return requests.get(f"{self.url}/server_info", timeout=5).ok
        except requests.RequestException:
            return False
