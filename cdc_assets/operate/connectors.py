"""Asks Kafka Connect about the connectors that tables wait for.

Each Connect is asked once for all its connectors, and what it said stays good for a few seconds:
so it costs a run of a thousand tables no more than one of a single one, also while it is away.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final
from urllib.parse import quote

from cdc_assets.config import ReplicationConfig
from cdc_assets.config.database import ConnectConfig
from cdc_assets.config.secret import reveal
from cdc_assets.errors import CdcError, ConfigError, UnreachableError
from cdc_assets.log.connect import ConnectRest, RunningConnector, connect_of
from cdc_assets.registry import TableEntry

GOOD_FOR_SECONDS: Final = 5
_AT_ONCE: Final = 16


class Working(StrEnum):
    """Whether a table's connector brings changes."""

    UP = "up"
    DOWN = "down"
    """It has failed, or is not there: a person has to restart it."""
    HELD = "held"
    """Somebody has paused or stopped it, or its tasks are being given to a worker."""
    UNKNOWN = "unknown"
    """Nobody can be asked, or Connect does not answer."""


@dataclass(frozen=True, slots=True)
class ConnectorView:
    """The connectors of one table.

    Attributes:
        working: the worst of them.
        words: how they are, and where to look; without logins, configuration and values.
        connectors: those that may write the table's topic.
        is_configured: somebody can be asked.
        away: why Connect does not answer; None if it does.
    """

    working: Working
    words: str
    connectors: tuple[RunningConnector, ...] = ()
    is_configured: bool = True
    away: CdcError | None = None

    @property
    def trouble(self) -> str:
        """The words if changes do not come, or may not come; else empty."""
        return self.words if self.is_configured and self.working is not Working.UP else ""


@dataclass(frozen=True, slots=True)
class _Answer:
    """The answer of a Connect, or why there is none."""

    rest: ConnectRest
    connectors: tuple[RunningConnector, ...] = ()
    problem: UnreachableError | None = None


class Connects:
    """The Kafka Connects of one configuration.

    Args:
        config: names them.
        monotonic: seconds, which decide how long an answer is good.
    """

    def __init__(
        self, config: ReplicationConfig, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._config = config
        self._now = monotonic
        self._answers: dict[str, tuple[float, _Answer]] = {}

    def ask(self, entries: Sequence[TableEntry]) -> None:
        """Asks the Connects of these tables at the same time, as far as an answer is too old."""
        sources = {each.table.source: each for each in entries}
        urls = {self._url(connect) for each in sources.values() if (connect := self._of(each))}
        stale = [url for url in urls if url and self._fresh(url) is None]
        if stale:
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                for url, answer in zip(stale, pool.map(_answer_of, stale), strict=True):
                    self._answers[url] = (self._now(), answer)

    def view(self, entry: TableEntry) -> ConnectorView:
        """Returns the state of a table's connectors. A Connect that does not answer never raises.

        That of the local stack counts only if it has a connector: nobody has said that it should.
        """
        connect = self._of(entry)
        if connect is None:
            return ConnectorView(Working.UNKNOWN, _where_to_look(entry), is_configured=False)
        url = self._url(connect)
        if not url:
            words = "the address of Kafka Connect is a secret whose variable is not set"
            return ConnectorView(Working.UNKNOWN, words, away=ConfigError(words))
        if self._fresh(url) is None:
            self.ask([entry])
        view = _view(self._answers[url][1], connect.connector, entry.topic)
        if not view.connectors and self._config.source(entry.table.source).connect is None:
            return replace(view, working=Working.UNKNOWN, is_configured=False, away=None)
        return view

    def _of(self, entry: TableEntry) -> ConnectConfig | None:
        return connect_of(self._config, entry.table.source)

    def _url(self, connect: ConnectConfig) -> str:
        try:
            return reveal(connect.url)
        except ConfigError:
            return ""

    def _fresh(self, url: str) -> _Answer | None:
        at, answer = self._answers.get(url, (0.0, None))
        return answer if answer and self._now() - at < GOOD_FOR_SECONDS else None


def connector_words(config: ReplicationConfig, entry: TableEntry) -> str:
    """Says how the connector of a table is, as far as somebody can be asked; else where to look."""
    return Connects(config).view(entry).words


def _answer_of(url: str) -> _Answer:
    rest = ConnectRest(url)
    try:
        return _Answer(rest, rest.connectors())
    except UnreachableError as problem:
        return _Answer(rest, problem=problem)


def _view(answer: _Answer, name: str | None, topic: str) -> ConnectorView:
    if answer.problem:
        return ConnectorView(Working.UNKNOWN, answer.problem.what, away=answer.problem)
    mine = tuple(
        each
        for each in answer.connectors
        if each.name == name or (name is None and each.writes(topic))
    )
    if not mine:
        named = name or "whose topic.prefix begins the topic"
        words = f"Kafka Connect at {answer.rest.shown} has no connector {named}"
        return ConnectorView(Working.DOWN, words)
    return ConnectorView(_worst(mine), _words(mine, answer.rest.shown), mine)


def _worst(connectors: Sequence[RunningConnector]) -> Working:
    if any(each.has_failed for each in connectors):
        return Working.DOWN
    return Working.UP if all(each.is_up for each in connectors) else Working.HELD


def _words(connectors: Sequence[RunningConnector], url: str) -> str:
    return "; ".join(
        each.words
        if each.is_up
        else f"{each.words}: see {url}/connectors/{quote(each.name)}/status"
        for each in connectors
    )


def _where_to_look(entry: TableEntry) -> str:
    return (
        "look at the connector in Kafka Connect (sources."
        f"{entry.table.source}.connect.url lets this message say how it is)"
    )
