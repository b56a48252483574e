"""What `cdc-assets assess` says, for tests."""

from __future__ import annotations

import json
from pathlib import Path

from cdc_assets.config import ReplicationConfig
from cdc_assets_tests.command import run_command

Document = dict[str, list[dict[str, str]]]


def assessment(config: ReplicationConfig, folder: Path, *arguments: str) -> Document:
    """The document of all sources of a configuration."""
    done = run_command(folder, "assess", "--json", *arguments, config=config.path)
    return json.loads(done.stdout)


def findings(document: Document, source: str) -> list[dict[str, str]]:
    """Those of one source."""
    return [each for each in document["findings"] if each["source"] == source]


def places(found: list[dict[str, str]]) -> set[tuple[str, str]]:
    """Name, and table or ``table.column``, of each; "" for the source."""
    told = set[tuple[str, str]]()
    for each in found:
        table = (each["table"] or "").rpartition(".")[2]
        told.add((each["name"], f"{table}.{each['column']}" if each["column"] else table))
    return told
