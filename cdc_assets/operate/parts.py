"""Asks the parts that a survey does without: databases, schema registries, Spark and the store.

A table that has nothing to merge needs none of them, so that no run would notice that they are
away. Each is asked once, all at the same time, in threads of their own: one that hangs is not asked
again before it has ended, and keeps nobody waiting for longer than `SECONDS`.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from cdc_assets.config import ReplicationConfig, SourceConfig
from cdc_assets.errors import CdcError, UnreachableError

if TYPE_CHECKING:
    from cdc_assets.changes.names import LakeName
    from cdc_assets.lake import Lake

SECONDS: Final = 15.0
_CONNECT_SECONDS: Final = 5.0
_SPARK_PORT: Final = 15002

Ask = Callable[[], None]
PartKey = tuple[str, str]
"""The only source that needs a part, empty if all do; and the part's name."""


@dataclass(frozen=True, slots=True)
class UnreachablePart:
    """A part that does not answer, or refuses.

    Attributes:
        source: the only source that needs it; empty if all do.
        part: its name, without its address.
        problem: what it is like, and what to do.
    """

    source: str
    part: str
    problem: CdcError


@dataclass(frozen=True, slots=True)
class PartAnswers:
    """The parts that were asked, and those of them that are away."""

    parts: frozenset[PartKey] = frozenset()
    away: tuple[UnreachablePart, ...] = ()


@dataclass
class _Asking:
    """A part that is being asked."""

    thread: threading.Thread
    problem: CdcError | None = None


class Parts:
    """The parts of one configuration. One thread at a time may ask for those that are away."""

    def __init__(self, config: ReplicationConfig, lake: Callable[[], Lake]) -> None:
        self._config = config
        self._lake = lake
        self._asking: dict[tuple[str, str], _Asking] = {}

    def ask(
        self, sources: Iterable[str], stored: LakeName | None, seconds: float = SECONDS
    ) -> PartAnswers:
        """Asks the parts that some tables need; one that does not answer in time is away.

        Args:
            sources: the tables' sources.
            stored: one of the tables that is in the lake; None if none is.
            seconds: how long an answer is waited for.
        """
        wanted = dict(self._wanted(sources, stored))
        for key, ask in wanted.items():
            if key not in self._asking:
                self._asking[key] = _started(ask)
        end = time.monotonic() + seconds
        answers = {key: self._answer(key, end) for key in wanted}
        away = (
            UnreachablePart(*key, problem)
            for key, problem in answers.items()
            if problem is not None
        )
        return PartAnswers(frozenset(wanted), tuple(away))

    def _answer(self, key: PartKey, end: float) -> CdcError | None:
        """Returns why a part is away; None if it has answered."""
        asking = self._asking[key]
        asking.thread.join(max(0.0, end - time.monotonic()))
        if asking.thread.is_alive():
            what = f"the {key[1]} does not answer: it was asked, and is silent"
            return UnreachableError(what, where=key[0], remedy="look at its log, or restart it")
        del self._asking[key]
        return asking.problem

    def _wanted(
        self, sources: Iterable[str], stored: LakeName | None
    ) -> Iterator[tuple[PartKey, Ask]]:
        for name in sorted(set(sources)):
            yield from _of_source(name, self._config.source(name))
        remote = self._config.spark.remote
        if isinstance(remote, str) and not self._config.spark.is_local_server:
            yield ("", "Spark server"), partial(_connect, remote)
        if stored is not None:
            yield ("", "lake's store"), partial(_read, self._lake, stored)


def _of_source(name: str, source: SourceConfig) -> Iterator[tuple[PartKey, Ask]]:
    if source.database is not None:
        yield (name, "source database"), partial(_ask_database, source)
    if source.schema_registry is not None:
        yield (name, "schema registry"), partial(_ask_registry, source)


def _started(ask: Ask) -> _Asking:
    def run() -> None:
        try:
            ask()
        except CdcError as problem:
            asking.problem = problem
        except Exception as error:  # a client's own: it has not answered either
            what = f"it cannot be asked ({type(error).__name__})"
            asking.problem = UnreachableError(what, remedy="cdc-assets assess says more")

    asking = _Asking(threading.Thread(target=run, daemon=True))
    asking.thread.start()
    return asking


def _ask_database(source: SourceConfig) -> None:
    from cdc_assets.databases.kinds import catalog_of

    if source.database is not None:
        catalog_of(source.database).existing(())


def _ask_registry(source: SourceConfig) -> None:
    from cdc_assets.formats.registry import SchemaRegistry

    if source.schema_registry is not None:
        SchemaRegistry(source.schema_registry, rounds=1).ask()


def _connect(remote: str) -> None:
    at = urlsplit(remote)
    host, port = at.hostname or "", at.port or _SPARK_PORT
    try:
        socket.create_connection((host, port), timeout=_CONNECT_SECONDS).close()
    except OSError as error:
        what = f"Spark does not answer ({type(error).__name__})"
        remedy = "check that its Connect server runs, and spark.remote"
        raise UnreachableError(
            what, where=f"{host}:{port}", remedy=remedy, page="spark-silent"
        ) from None


def _read(lake: Callable[[], Lake], name: LakeName) -> None:
    lake().read_from_store(name)
