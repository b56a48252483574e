"""A lake that is not ours: a REST catalog with a login, and S3 with a key."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from cdc_assets_devstack.layout import StackLayout
from cdc_assets_devstack.ports import pick_free_ports

from cdc_assets_tests.elsewhere.catalog import WAREHOUSE, RestCatalog, s3_properties
from cdc_assets_tests.elsewhere.front import TOKENS, Front
from cdc_assets_tests.elsewhere.metastore import Metastore
from cdc_assets_tests.elsewhere.s3 import REGION, S3

SECRETS = {"credential": "LAKE_CREDENTIAL", "s3.access-key-id": "LAKE_KEY",
           "s3.secret-access-key": "LAKE_SECRET"}  # fmt: skip


@dataclass(frozen=True)
class LakeElsewhere:
    """A running one."""

    s3: S3
    catalog: RestCatalog
    front: Front

    @property
    def document(self) -> dict[str, Any]:
        """The key ``lake`` of a configuration; its secrets are in the environment."""
        open_ = {name: v for name, v in s3_properties(self.s3).items() if name not in SECRETS}
        secret = {name: {"env": variable} for name, variable in SECRETS.items()}
        tokens = {"oauth2-server-uri": f"{self.front.uri}{TOKENS}", "scope": "catalog"}
        properties = {**open_, **tokens, **secret}
        catalog = {"type": "rest", "uri": self.front.uri, "properties": properties}
        return {"catalog": catalog, "warehouse": WAREHOUSE}

    @property
    def secrets(self) -> dict[str, str]:
        """What the environment has to hold."""
        values = {**s3_properties(self.s3), "credential": self.front.credential}
        return {variable: values[name] for name, variable in SECRETS.items()}


@contextmanager
def lake_elsewhere(layout: StackLayout) -> Iterator[LakeElsewhere]:
    """Start it, with its secrets in the environment; stop it."""
    ports = pick_free_ports()
    s3 = S3(layout, ports.postgres)
    catalog = RestCatalog(layout, ports.kafka, s3)
    with ExitStack() as started:
        for part in (s3, catalog):
            started.callback(part.stop)
            part.bring_up(_silent)
        front = started.enter_context(Front(catalog.port))
        made = LakeElsewhere(s3, catalog, front)
        before = {name: os.environ.get(name) for name in made.secrets}
        os.environ.update(made.secrets)
        started.callback(_restore, before)
        yield made


@dataclass(frozen=True)
class OtherLake:
    """A lake whose catalog is no REST one.

    Attributes:
        document: the key ``lake`` of a configuration; its secrets are in the environment.
    """

    document: dict[str, Any]


@contextmanager
def hive_lake(layout: StackLayout) -> Iterator[OtherLake]:
    """Start Hive's metastore for tables on this machine's disk; stop it."""
    metastore = Metastore(layout, pick_free_ports().connect)
    try:
        metastore.bring_up(_silent)
        catalog = {"type": "hive", "uri": metastore.uri}
        warehouse = layout.data("warehouse").as_uri()
        yield OtherLake({"catalog": catalog, "warehouse": warehouse})
    finally:
        metastore.stop()


@contextmanager
def glue_lake(layout: StackLayout) -> Iterator[OtherLake]:
    """Start moto's Glue and S3, with their key in the environment; stop them.

    moto commits whatever it gets: AWS's Glue would refuse a commit on an older version.
    """
    s3 = S3(layout, pick_free_ports().connect)
    with ExitStack() as started:
        started.callback(s3.stop)
        s3.bring_up(_silent)
        secret = {
            **{name: SECRETS[name] for name in SECRETS if name != "credential"},
            "glue.access-key-id": SECRETS["s3.access-key-id"],
            "glue.secret-access-key": SECRETS["s3.secret-access-key"],
        }
        values = {SECRETS["s3.access-key-id"]: s3.key, SECRETS["s3.secret-access-key"]: s3.secret}
        wanted = {**values, **s3.environment_of_clients}
        before = {name: os.environ.get(name) for name in wanted}
        os.environ.update(wanted)
        started.callback(_restore, before)
        open_ = {name: v for name, v in s3_properties(s3).items() if name not in SECRETS}
        properties = {
            **open_, "glue.endpoint": s3.endpoint, "glue.region": REGION,
            **{name: {"env": variable} for name, variable in secret.items()},
        }  # fmt: skip
        catalog = {"type": "glue", "properties": properties}
        yield OtherLake({"catalog": catalog, "warehouse": WAREHOUSE})


def _silent(_: object) -> None: ...


def _restore(before: dict[str, str | None]) -> None:
    for name, value in before.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value
