"""Nessie's server, with its Iceberg REST API, its store on disk and the tables' files in S3."""

from __future__ import annotations

from pathlib import Path

import requests
from cdc_assets_devstack import local_http, secrets_file
from cdc_assets_devstack.jars import require_installed
from cdc_assets_devstack.java import find_java, jvm_options
from cdc_assets_devstack.kafka import properties
from cdc_assets_devstack.layout import HOST, StackLayout
from cdc_assets_devstack.part import Part
from cdc_assets_devstack.process import Command

from cdc_assets_tests.elsewhere.catalog import WAREHOUSE
from cdc_assets_tests.elsewhere.s3 import REGION, S3

_JAVA = 21  # the version for which its classes are compiled
_S3 = "nessie.catalog.service.s3.default-options"


class Nessie(Part):
    """The server. It knows no login."""

    name = "nessie"

    def __init__(self, layout: StackLayout, port: int, s3: S3) -> None:
        super().__init__(layout)
        self._port = port
        self._s3 = s3

    @property
    def port(self) -> int:
        return self._port

    @property
    def uri(self) -> str:
        """Of the Iceberg REST API."""
        return f"http://{HOST}:{self.port}/iceberg"

    def prepare(self) -> None:
        """Write the settings: they hold the key to S3."""
        require_installed(self.layout, self.name)
        store = self.layout.data(self.name)
        store.mkdir(parents=True, exist_ok=True)
        settings = {
            "quarkus.http.host": HOST,
            "quarkus.http.port": self.port,
            "quarkus.http.access-log.enabled": "false",
            "quarkus.management.host": HOST,
            "quarkus.management.port": 0,
            "nessie.version.store.type": "ROCKSDB",
            "nessie.version.store.persist.rocks.database-path": store / "versions",
            "nessie.catalog.default-warehouse": "lake",
            "nessie.catalog.warehouses.lake.location": WAREHOUSE,
            f"{_S3}.endpoint": self._s3.endpoint,
            f"{_S3}.path-style-access": "true",
            f"{_S3}.region": REGION,
            f"{_S3}.request-signing-enabled": "false",
            f"{_S3}.access-key": "urn:nessie-secret:quarkus:lake.s3",
            "lake.s3.name": self._s3.key,
            "lake.s3.secret": self._s3.secret,
        }
        secrets_file.write_private(self._settings, properties(settings))

    def command(self) -> Command:
        (server,) = self.layout.jars_of(self.name).glob("*.jar")
        argv = [
            str(find_java(_JAVA).program),
            *jvm_options(heap="400m", tmp=self.layout.tmp(self.name)),
            f"-Dquarkus.config.locations={self._settings}",
            *("-jar", str(server)),
        ]
        return Command(argv, env=self.environment())

    def ready(self) -> bool:
        try:
            return local_http.request("GET", f"{self.uri}/v1/config", seconds=2).ok
        except requests.RequestException:
            return False

    @property
    def _settings(self) -> Path:
        return self.layout.runs / f"{self.name}.properties"
