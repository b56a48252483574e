"""The one configuration of the tests, as a document: a test replaces the keys it is about."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from cdc_assets_devstack.layout import Ports

from cdc_assets.config import ReplicationConfig, load_config

NOWHERE = "127.0.0.1:1"
"""Where nobody listens."""


def platform(kafka: str = NOWHERE, **replaced: object) -> dict[str, Any]:
    """Everything but the sources, on a local Spark server; the lake lies beside the file."""
    return {
        "kafka": {"bootstrap_servers": kafka},
        "lake": {
            "catalog": {"type": "sql", "uri": "sqlite:///lake/catalog.db"},
            "warehouse": "lake/warehouse",
        },
        "spark": {"remote": "local"},
        "home": ".",
        "registry": "registry.json",
        "runs": {"every_seconds": 6},
        **replaced,
    }


def on_ports(ports: Ports, **replaced: object) -> dict[str, Any]:
    """The same for a local stack of its own."""
    stack = {"stack": {"ports": ports.as_dict()}}
    return platform(f"127.0.0.1:{ports.kafka}", **stack, **replaced)


def source(prefix: str, **keys: object) -> dict[str, Any]:
    """A source of all topics with this prefix."""
    return {"format": "debezium-json", "topics": {"include": [rf"{prefix}\..*"]}, **keys}


def database_of(variable: str) -> dict[str, Any]:
    """A source's key for the PostgreSQL that an environment variable leads to."""
    return {"database": {"kind": "postgres", "dsn": {"env": variable}}}


def write(file: Path, document: Mapping[str, Any]) -> ReplicationConfig:
    """Write a configuration file and read it back."""
    text = yaml.dump(dict(document), Dumper=yaml.CSafeDumper, sort_keys=False)
    file.write_text(text)
    return load_config(file)


def beside(base: ReplicationConfig, name: str, **replaced: object) -> ReplicationConfig:
    """Another configuration in the folder of one, with its platform: it shares the servers."""
    assert base.path is not None
    document = yaml.safe_load(base.path.read_text())
    return write(base.path.with_name(f"{name}.yaml"), {**document, **replaced})
