"""Runs a schema registry: Apicurio Registry, which also has the API of Confluent's registry.

It keeps schemas in an H2 database in a file. A schema's id appears in Kafka's records as soon as
the registry has assigned it, so every commit is written before it is answered.
"""

from __future__ import annotations

from pathlib import Path

import requests

from cdc_assets_devstack import local_http
from cdc_assets_devstack.jars import require_installed
from cdc_assets_devstack.java import find_java, jvm_options
from cdc_assets_devstack.kafka import properties
from cdc_assets_devstack.layout import HOST, StackLayout
from cdc_assets_devstack.part import Part
from cdc_assets_devstack.process import Command

_JAVA = 21  # the version for which its classes are compiled

CONFLUENT_API = "/apis/ccompat/v7"
"""The path of the API of Confluent's schema registry; ids are those of contents."""

OWN_API = "/apis/registry/v3"
"""The path of its own API, which distinguishes ids of contents (``contentId``) from those of
versions (``globalId``)."""


class Registry(Part):
    """The schema registry. It is started only if it is requested by name."""

    name = "registry"

    @property
    def port(self) -> int:
        """The port of both APIs."""
        return self.layout.ports.registry

    @property
    def confluent_url(self) -> str:
        """The ``schema.registry.url`` for clients of Confluent's registry."""
        return f"http://{self.address}{CONFLUENT_API}"

    @property
    def settings_file(self) -> Path:
        """The server's properties."""
        return self.layout.home / "run" / "registry.properties"

    def prepare(self) -> None:
        """Writes the settings; the server creates the database."""
        require_installed(self.layout, self.name)
        self.layout.data(self.name).mkdir(parents=True, exist_ok=True)
        self.settings_file.write_text(properties(_settings(self.layout)))

    def command(self) -> Command:
        """Returns the server's command; compiled for a quick start, as requests are rare."""
        (server,) = self.layout.jars_of(self.name).glob("*/quarkus-run.jar")
        return Command(
            [
                str(find_java(_JAVA).program),
                *jvm_options(heap="192m", tmp=self.layout.tmp(self.name)),
                "-XX:TieredStopAtLevel=1",
                f"-Dquarkus.config.locations={self.settings_file}",
                *("-jar", str(server)),
            ],
            env=self.environment(),
        )

    def ready(self) -> bool:
        """Returns whether it lists its subjects, which needs its database."""
        try:
            return local_http.request("GET", f"{self.confluent_url}/subjects", seconds=2).ok
        except requests.RequestException:
            return False


def own_url(layout: StackLayout) -> str:
    """Returns the ``apicurio.registry.url`` for clients of Apicurio's registry."""
    return f"http://{HOST}:{layout.ports.registry}{OWN_API}"


def _settings(layout: StackLayout) -> dict[str, object]:
    database = layout.data("registry") / "schemas"
    return {
        "quarkus.http.host": HOST,
        "quarkus.http.port": layout.ports.registry,
        "quarkus.http.access-log.enabled": "false",
        # For health and metrics; it cannot be disabled, so it takes any free port.
        "quarkus.management.host": HOST,
        "quarkus.management.port": 0,
        "quarkus.banner.enabled": "false",
        "quarkus.log.level": "WARN",
        'quarkus.log.category."io.apicurio".level': "WARN",
        'quarkus.log.category."io.quarkus.config".level': "ERROR",  # settings of its own
        "quarkus.log.console.format": "%d{yyyy-MM-dd'T'HH:mm:ss.SSSXXX} %p %c{1}: %s%e%n",
        "apicurio.storage.kind": "sql",
        "apicurio.storage.sql.kind": "h2",
        # By default H2 writes half a second after a commit, so a kill would lose ids in use.
        "apicurio.datasource.url": f"jdbc:h2:file:{database};WRITE_DELAY=0",
        "apicurio.datasource.jdbc.initial-size": 1,
        "apicurio.datasource.jdbc.min-size": 1,
        "apicurio.datasource.jdbc.max-size": 8,
        "apicurio.storage.snapshot.location": layout.tmp("registry"),
    }
