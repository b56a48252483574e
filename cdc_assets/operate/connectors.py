"""What Kafka Connect says about the connector that a table waits for.

Asked only when a table waits. Neither a connector's configuration nor the text of its error is
ever shown: the one may hold passwords, the other values of rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast
from urllib.parse import urlsplit

import requests

from cdc_assets.config import ReplicationConfig
from cdc_assets.config.secret import reveal
from cdc_assets.config.source import ConnectConfig
from cdc_assets.registry import TableEntry

TIMEOUT_SECONDS: Final = 5
_RUNNING: Final = "RUNNING"
_ERROR: Final = re.compile(r"[\w$]+(?:\.[\w$]+)+")

Document = Mapping[str, Any]


def connector_words(config: ReplicationConfig, entry: TableEntry) -> str:
    """Says how the connector of a table is, as far as somebody can be asked; else where to look.

    Never raises for a Connect that does not answer: that is what it says then.
    """
    connect = connect_of(config, entry)
    if connect is None:
        return (
            "look at the connector in Kafka Connect (sources."
            f"{entry.table.source}.connect.url lets this message say how it is)"
        )
    url = reveal(connect.url).rstrip("/")
    shown = _without_login(url)
    try:
        found = dict(_connectors(url, connect.connector, entry.topic))
    except (requests.RequestException, ValueError) as error:
        return f"Kafka Connect at {shown} does not answer ({type(error).__name__})"
    if not found:
        named = connect.connector or "whose topic.prefix begins the topic"
        return f"Kafka Connect at {shown} has no connector {named}"
    return "; ".join(_words(name, status, shown) for name, status in sorted(found.items()))


def connect_of(config: ReplicationConfig, entry: TableEntry) -> ConnectConfig | None:
    """The source's Kafka Connect: the configured one, or the local stack's if it is in use."""
    configured = config.source(entry.table.source).connect
    ports = config.stack.ports
    if configured is None and config.kafka.bootstrap_servers == f"127.0.0.1:{ports.kafka}":
        return ConnectConfig(url=f"http://127.0.0.1:{ports.connect}")
    return configured


def _connectors(url: str, name: str | None, topic: str) -> Iterator[tuple[str, Document]]:
    """The connectors that may write a topic, and their states."""
    answer = requests.get(
        f"{url}/connectors", params={"expand": ["info", "status"]}, timeout=TIMEOUT_SECONDS
    )
    answer.raise_for_status()
    for each, about in cast("Mapping[str, Document]", answer.json()).items():
        prefix = str(about.get("info", {}).get("config", {}).get("topic.prefix", ""))
        if each == name or (name is None and prefix and topic.startswith(f"{prefix}.")):
            yield each, about.get("status", {})


def _words(name: str, status: Document, url: str) -> str:
    parts: list[Document] = [status.get("connector", {}), *status.get("tasks", ())]
    bad = [part for part in parts if part.get("state") != _RUNNING]
    if not bad:
        return f"connector {name} and its {len(parts) - 1} task(s) are {_RUNNING}"
    said = ", ".join(_part_words(part) for part in bad)
    return f"connector {name}: {said}: see {url}/connectors/{name}/status"


def _part_words(part: Document) -> str:
    what = f"task {part['id']}" if "id" in part else "the connector itself"
    causes = [
        line for line in str(part.get("trace", "")).splitlines()
        if line.startswith("Caused by: ")
    ]  # fmt: skip
    error = _ERROR.search(causes[-1] if causes else str(part.get("trace", "")))
    about = f" ({error[0].rpartition('.')[2]})" if error else ""
    return f"{what} is {part.get('state', 'in an unknown state')}{about}"


def _without_login(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
