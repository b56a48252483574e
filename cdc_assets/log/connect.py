"""Kafka Connect's REST interface: what connectors and their tasks are doing.

Neither a connector's configuration nor the text of its error is ever shown: the one may hold
passwords, the other values of rows. Of the configuration only the names that tell whose topics
a connector writes are kept, and for an assessment what is no secret; of an error only its class.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlsplit

import requests
from requests.utils import get_environ_proxies

from cdc_assets.config import ReplicationConfig
from cdc_assets.config.database import ConnectConfig
from cdc_assets.config.secret import reveal
from cdc_assets.errors import ConfigError, LoginRefusedError, UnreachableError
from cdc_assets.registry import TableEntry

TIMEOUT_SECONDS: Final = 5
WHOLE_SECONDS: Final = 15.0
MAX_REPLY_BYTES: Final = 64 << 20
_OK: Final = 200
RUNNING: Final = "RUNNING"
RESTARTING: Final = "RESTARTING"
_NO_LOGIN: Final = frozenset({401, 403, 407})
_ERROR: Final = re.compile(r"(?<![\w$])[\w$]++(?:\.[\w$]++)+")

_COMMA: Final = re.compile(r"(?<!\\),")
_SECRETS: Final = ("password", "secret", "token", "jaas", "credentials", "user.info")

Document = Mapping[str, Any]
Said = TypeVar("Said")


@dataclass(frozen=True, slots=True)
class ConnectorPart:
    """The connector itself (``task`` is None) or one of its tasks; ``error``: a class, or empty."""

    task: int | None
    state: str
    error: str = ""

    @property
    def words(self) -> str:
        """``task 0 is FAILED (DataException)``."""
        what = "the connector itself" if self.task is None else f"task {self.task}"
        about = f" ({self.error})" if self.error else ""
        return f"{what} is {self.state or 'in an unknown state'}{about}"


@dataclass(frozen=True, slots=True)
class RunningConnector:
    """A connector as Connect tells of it.

    Attributes:
        name: of the connector.
        prefix: first part of its topics' names; empty if it has none.
        slot: its replication slot, of PostgreSQL; empty if its configuration names none.
        own: the connector itself.
        tasks: in their order.
    """

    name: str
    prefix: str
    slot: str
    own: ConnectorPart
    tasks: tuple[ConnectorPart, ...]

    @property
    def down(self) -> tuple[ConnectorPart, ...]:
        """Its parts that do not work; one that is being restarted does."""
        parts = (self.own, *self.tasks)
        return tuple(each for each in parts if each.state not in {RUNNING, RESTARTING})

    @property
    def is_up(self) -> bool:
        """Whether it has tasks, and all of it works."""
        return bool(self.tasks) and not self.down

    @property
    def has_failed(self) -> bool:
        """Whether a part has FAILED: nothing but a person, or a restart, ends that."""
        return any(each.state == "FAILED" for each in self.down)

    def writes(self, topic: str) -> bool:
        """Returns whether a topic is among its own, by its prefix."""
        return bool(self.prefix) and topic.startswith(f"{self.prefix}.")

    @property
    def words(self) -> str:
        """The connector's state in words, without an address."""
        if self.down:
            return f"connector {self.name}: {', '.join(part.words for part in self.down)}"
        if not self.tasks:
            return f"connector {self.name} has no task"
        return f"connector {self.name} and its {len(self.tasks)} task(s) are {RUNNING}"


def prefix_of(settings: Document) -> str:
    """Returns the first part of the names of a connector's topics; empty if none is configured.

    Connectors made of Debezium 1, as YugabyteDB's, name it ``database.server.name``.
    """
    return str(settings.get("topic.prefix") or settings.get("database.server.name") or "")


def captures(settings: Mapping[str, str], schema: str, table: str) -> bool:
    """Returns whether a connector of Debezium captures a table, by its lists of what it includes.

    A list that Python cannot read leaves nothing out.

    Args:
        settings: of the connector.
        schema: the table's schema, or database in MySQL and MariaDB.
        table: its name.
    """
    whole = f"{schema}.{table}"
    for about, name in (("database", schema), ("schema", schema), ("table", whole)):
        included, excluded = (settings.get(f"{about}.{w}.list") for w in ("include", "exclude"))
        if included and is_named(name, included) is False:
            return False
        if excluded and is_named(name, excluded):
            return False
    return True


def is_named(name: str, patterns: str) -> bool | None:
    """Returns whether a list of regular expressions has a name; None if Python cannot read it.

    They match whole names, in any case
    (https://debezium.io/documentation/reference/stable/connectors/postgresql.html).
    """
    texts = [one.strip().replace(r"\,", ",") for one in _COMMA.split(patterns)]
    try:
        each = [re.compile(text, re.IGNORECASE) for text in texts]
    except re.error:  # they are Java's
        return None
    return any(one.fullmatch(name) for one in each)


def connect_of(config: ReplicationConfig, source: str) -> ConnectConfig | None:
    """Returns the source's Kafka Connect: the configured one, or a local stack's in use."""
    configured = config.source(source).connect
    ports = config.stack.ports
    if configured is None and config.kafka.bootstrap_servers == f"127.0.0.1:{ports.kafka}":
        return ConnectConfig(url=f"http://127.0.0.1:{ports.connect}")
    return configured


@dataclass(frozen=True, slots=True)
class CommittedOffsets:
    """The offsets that a connector has committed."""

    name: str
    rest: ConnectRest

    def offsets(self) -> tuple[Document, ...]:
        """Returns the committed offsets, as `ConnectRest.offsets`."""
        return self.rest.offsets(self.name)


def connector_of(config: ReplicationConfig, entry: TableEntry) -> CommittedOffsets | None:
    """Returns the connector that writes a table's topic; None if that, or Connect, is not known.

    Raises:
        UnreachableError: if Connect does not answer.
    """
    connect = connect_of(config, entry.table.source)
    if connect is None:
        return None
    rest = ConnectRest(reveal(connect.url))
    named = writer_of(connect, () if connect.connector else rest.connectors(), entry.topic)
    return None if named is None else CommittedOffsets(named, rest)


def writer_of(
    connect: ConnectConfig, connectors: Iterable[RunningConnector], topic: str
) -> str | None:
    """Returns the name of the connector that writes a topic, of these if none is configured.

    None if it is not exactly one.
    """
    if connect.connector:
        return connect.connector
    names = [each.name for each in connectors if each.writes(topic)]
    return names[0] if len(names) == 1 else None


def described_connector(
    config: ReplicationConfig, entry: TableEntry
) -> tuple[RunningConnector, Mapping[str, str]]:
    """Returns the connector that writes a table's topic, with its settings except for secrets.

    Raises:
        ConfigError: if Connect is not known, or it is not one connector.
        UnreachableError: if Connect does not answer.
    """
    where, source = f"table={entry.table}", entry.table.source
    connect = connect_of(config, source)
    if connect is None:
        what = "no connector is known that writes its topic"
        remedy = f"name its Kafka Connect: sources.{source}.connect.url"
        raise ConfigError(what, where=where, remedy=remedy)
    rest, wanted = ConnectRest(reveal(connect.url)), connect.connector
    found = [
        (each, settings)
        for each, settings in rest.described()[0]
        if each.name == wanted or (wanted is None and each.writes(entry.topic))
    ]
    if len(found) == 1:
        return found[0]
    named = wanted or f"whose topic.prefix begins {entry.topic}"
    what = f"Kafka Connect at {rest.shown} has {len(found) or 'no'} connectors {named}"
    remedy = f"name it: sources.{source}.connect.connector"
    raise ConfigError(what, where=where, remedy=remedy)


class ConnectRest:
    """A Kafka Connect cluster's REST interface.

    Args:
        url: may hold a login, which nothing shows.
    """

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        parts = urlsplit(self._url)
        self.shown = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()

    def connectors(self) -> tuple[RunningConnector, ...]:
        """Returns all of them, by name: one request.

        Raises:
            UnreachableError: if it does not answer, or with something else.
        """
        return tuple(each for each, _ in self.described()[0])

    def described(self) -> tuple[tuple[tuple[RunningConnector, Mapping[str, str]], ...], str]:
        """Returns all of them, by name, with their settings that are no secrets: one request.

        The settings are for rules that judge them, and not to be shown.

        Returns:
            And the reply's ``Date``; empty without one.

        Raises:
            UnreachableError: if it does not answer, or with something else.
        """
        return self._get("/connectors", {"expand": ["info", "status"]}, _described)

    def offsets(self, connector: str) -> tuple[Document, ...]:
        """Returns the source offsets that a connector has committed, one for each part of it.

        Connect commits an offset only once Kafka has acknowledged every record that the
        connector gave it before (Kafka 3.5 and later answer this).

        Raises:
            UnreachableError: if it does not answer, or with something else.
        """
        return self._get(f"/connectors/{quote(connector, safe='')}/offsets", {}, _offsets)[0]

    def _get(
        self, path: str, params: Mapping[str, Any], read: Callable[[Any], Said]
    ) -> tuple[Said, str]:
        """Returns the reply as it is read, and when it was made."""
        try:
            status, date, body = _replied(self._url + path, params)
            if status in _NO_LOGIN:
                raise self._refused(status)
            if status != _OK:
                how = f"answers HTTP {status}"
                raise self._silent(how, "check its address; redirects are not followed")
            found = json.loads(body)
        except (requests.RequestException, ValueError) as error:
            how = f"does not answer ({type(error).__name__})"
            raise self._silent(how, "check its address, and that it runs") from None
        try:
            return read(found), date
        except (AttributeError, TypeError):
            how = "answers as Kafka Connect never does"
            raise self._silent(how, "check its address") from None

    def _silent(self, how: str, remedy: str) -> UnreachableError:
        what = f"Kafka Connect at {self.shown} {how}"
        return UnreachableError(what, remedy=remedy, page="connect-silent")

    def _refused(self, status: int) -> LoginRefusedError:
        what = f"Kafka Connect at {self.shown} refused the login (HTTP {status})"
        remedy = "renew the login in sources.….connect.url; the next request reads it again"
        return LoginRefusedError(what, remedy=remedy)


def _replied(url: str, params: Mapping[str, Any]) -> tuple[int, str, bytes]:
    """Returns status, ``Date`` and body of a reply, within limits of bytes and time.

    Redirects are not followed, and no ``.netrc`` is read: a login could go elsewhere, or another.
    """
    give_up_at, body = time.monotonic() + WHOLE_SECONDS, bytearray()
    with requests.Session() as session:
        session.trust_env = False
        bundle = os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE")
        with session.get(
            url, params=params, timeout=TIMEOUT_SECONDS, allow_redirects=False, stream=True,
            verify=bundle or True, proxies=get_environ_proxies(url),
        ) as answer:  # fmt: skip
            for chunk in answer.iter_content(1 << 16):
                body += chunk
                if len(body) > MAX_REPLY_BYTES or time.monotonic() > give_up_at:
                    raise requests.exceptions.ContentDecodingError
            return answer.status_code, answer.headers.get("Date", ""), bytes(body)


def _described(found: Any) -> tuple[tuple[RunningConnector, dict[str, str]], ...]:
    return tuple(_connector(name, about) for name, about in sorted(found.items()))


def _connector(name: str, about: Any) -> tuple[RunningConnector, dict[str, str]]:
    """Reads a connector and its settings, without secrets, and without those that are null."""
    said = about.get("info", {}).get("config", {}).items()
    shown = ((k, v) for k, v in said if not any(word in k for word in _SECRETS))
    settings = {k: str(v) for k, v in shown if v is not None}
    status = about.get("status", {})
    tasks = tuple(_part(each, each.get("id")) for each in status.get("tasks", ()))
    own, slot = _part(status.get("connector", {}), None), settings.get("slot.name", "")
    return RunningConnector(name, prefix_of(settings), slot, own, tasks), settings


def _offsets(found: Any) -> tuple[Document, ...]:
    return tuple(each.get("offset") or {} for each in found.get("offsets") or ())


def _part(found: Document, task: int | None) -> ConnectorPart:
    trace = str(found.get("trace", ""))
    causes = [line for line in trace.splitlines() if line.startswith("Caused by: ")]
    error = _ERROR.search(causes[-1] if causes else trace)
    shown = error[0].rpartition(".")[2] if error else ""
    return ConnectorPart(task, str(found.get("state", "")), shown)
