"""A schema registry: Apicurio Registry, which also answers in the language of Confluent's.

It keeps schemas in an H2 database in a file. A schema's id is in records of Kafka as soon as
the registry has given it out, so every commit is written before it is answered.
"""

from __future__ import annotations

from pathlib import Path

import requests

from cdc_assets.devstack import local_http
from cdc_assets.devstack.jars import require_installed
from cdc_assets.devstack.java import find_java, jvm_options
from cdc_assets.devstack.kafka import properties
from cdc_assets.devstack.layout import HOST, StackLayout
from cdc_assets.devstack.part import Part
from cdc_assets.devstack.process import Command

_JAVA = 21  # what its classes are compiled for

CONFLUENT_API = "/apis/ccompat/v7"
"""Where it speaks as Confluent's schema registry; ids are those of contents."""

OWN_API = "/apis/registry/v3"
"""Its own interface, which tells ids of contents (``contentId``) from those of versions
(``globalId``)."""


class Registry(Part):
    """The schema registry. Started only where it is asked for by name."""

    name = "registry"

    @property
    def port(self) -> int:
        """The port of both interfaces."""
        return self.layout.ports.registry

    @property
    def confluent_url(self) -> str:
        """What a client of Confluent's registry is given as ``schema.registry.url``."""
        return f"http://{self.address}{CONFLUENT_API}"

    @property
    def settings_file(self) -> Path:
        """The server's properties."""
        return self.layout.home / "run" / "registry.properties"

    def prepare(self) -> None:
        """Write the settings; the database is made by the server."""
        require_installed(self.layout, self.name)
        self.layout.data(self.name).mkdir(parents=True, exist_ok=True)
        self.settings_file.write_text(properties(_settings(self.layout)))

    def command(self) -> Command:
        """The server; compiled no further than a start needs: it answers seldom."""
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
        """Whether it lists its subjects, which asks its database."""
        try:
            return local_http.request("GET", f"{self.confluent_url}/subjects", seconds=2).ok
        except requests.RequestException:
            return False


def own_url(layout: StackLayout) -> str:
    """What a client of Apicurio's is given as ``apicurio.registry.url``."""
    return f"http://{HOST}:{layout.ports.registry}{OWN_API}"


def _settings(layout: StackLayout) -> dict[str, object]:
    database = layout.data("registry") / "schemas"
    return {
        "quarkus.http.host": HOST,
        "quarkus.http.port": layout.ports.registry,
        "quarkus.http.access-log.enabled": "false",
        # Of health and metrics; it cannot be left out, so it takes whatever port is free.
        "quarkus.management.host": HOST,
        "quarkus.management.port": 0,
        "quarkus.banner.enabled": "false",
        "quarkus.log.level": "WARN",
        'quarkus.log.category."io.apicurio".level': "WARN",
        'quarkus.log.category."io.quarkus.config".level': "ERROR",  # settings of its own
        "quarkus.log.console.format": "%d{yyyy-MM-dd'T'HH:mm:ss.SSSXXX} %p %c{1}: %s%e%n",
        "apicurio.storage.kind": "sql",
        "apicurio.storage.sql.kind": "h2",
        # By default H2 writes half a second after a commit: a kill would lose ids in use.
        "apicurio.datasource.url": f"jdbc:h2:file:{database};WRITE_DELAY=0",
        "apicurio.datasource.jdbc.initial-size": 1,
        "apicurio.datasource.jdbc.min-size": 1,
        "apicurio.datasource.jdbc.max-size": 8,
        "apicurio.storage.snapshot.location": layout.tmp("registry"),
    }
