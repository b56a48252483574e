"""Has the definitions loaded again, by the sensor's own code server or by a webserver.

A code server started by ``dagster code-server start``, or by ``dagster dev``, reloads when asked,
and whoever shows its definitions notices: no webserver has to be known. One started by
``dagster api grpc``, the default of Dagster's Helm chart, answers and does nothing; new definitions
need a new process. A webserver is asked where one is named, and where the code server cannot be.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol, cast
from urllib.parse import urlsplit

import dagster as dg

from cdc_assets.config.secret import Secret
from cdc_assets.errors import ConfigError, TransientError, UnreachableError

WEBSERVER_VARIABLE: Final = "CDC_ASSETS_WEBSERVER"
TOKEN_VARIABLE: Final = "CDC_ASSETS_WEBSERVER_TOKEN"  # noqa: S105 the name of a variable
ENDS_VARIABLE: Final = "CDC_ASSETS_END_CODE_SERVER"
DEFAULT_WEBSERVER: Final = "http://127.0.0.1:3000"
DEFAULT_LOCATION: Final = "cdc_assets"
TIMEOUT_SECONDS: Final = 60
SETTLE_SECONDS: Final = 150.0
"""A daemon with a code server of its own notices a reload within a minute."""

YOUNG_SECONDS: Final = 60.0
"""The age below which a code server is not ended, lest it end again and again."""

MUTATION: Final = """
mutation Reload($location: String!) {
  reloadRepositoryLocation(repositoryLocationName: $location) {
    __typename
    ... on WorkspaceLocationEntry { locationOrLoadError { __typename ... on PythonError { message } } }
    ... on ReloadNotSupported { message }
    ... on RepositoryLocationNotFound { message }
    ... on UnauthorizedError { message }
    ... on PythonError { message }
  }
}
"""  # noqa: E501

_THOUGH: Final = "though the webserver has loaded the definitions again"
_DID_NOTHING: Final = "as the code server has loaded nothing again"
_REMEDY: Final = (
    "Restart the code server, and start it by `dagster code-server start` instead of "
    f"`dagster api grpc`, which never reloads; or set {ENDS_VARIABLE}=1 for it, if something "
    "starts it again when it ends, as Kubernetes does."
)


@dataclass
class Reloads:
    """The reloads that loaded definitions have asked for. A reload that takes effect replaces them.

    If the same tables are still missing after `SETTLE_SECONDS`, that is said instead.

    Attributes:
        clock: monotonic, in seconds.
    """

    clock: Callable[[], float] = time.monotonic
    _made: float = field(init=False)
    _missing: frozenset[str] = frozenset()
    _at: float = 0.0
    _outcome: str = ""

    def __post_init__(self) -> None:
        self._made = self.clock()

    def ask(self, context: dg.SensorEvaluationContext, changed: Sequence[str]) -> str:
        """Asks for a reload, unless the last one may still take effect; says what became of it.

        Args:
            context: the sensor's.
            changed: what the definitions lack, or have too much.
        """
        names, missing = ", ".join(changed), frozenset(changed)
        is_same = bool(self._outcome) and missing == self._missing
        if is_same and self.clock() - self._at < SETTLE_SECONDS:
            return self._outcome
        server = code_server_of(context)
        if server is not None and os.environ.get(ENDS_VARIABLE):
            return self._end(server, names)
        context.log.info(f"The tables have changed, loading the definitions again: {names}")
        try:
            reloads = _reload(server, location_of(context))
        except (
            TransientError,
            ConfigError,
        ) as problem:  # found tables are written anyhow
            return f"Waiting to load {names}: {problem}"
        self._missing, self._at = missing, self.clock()
        self._outcome = f"Loaded the definitions again for {names}."
        if is_same or not reloads:
            self._outcome = (
                f"Not loaded: {names}, {_THOUGH if reloads else _DID_NOTHING}. {_REMEDY}"
            )
        return self._outcome

    def _end(self, server: CodeServer, names: str) -> str:
        """Ends the code server, unless it is young; says so."""
        left = YOUNG_SECONDS - (self.clock() - self._made)
        if left > 0:
            return (
                f"Not loaded yet: {names}. In {left:.0f} s the code server ends, to be restarted."
            )
        try:
            with _translated_errors("end"):
                server.shutdown_server()
        except TransientError as problem:
            return f"Waiting to load {names}: {problem}"
        return f"The code server ends, and is to be started again, for {names}."


class CodeServer(Protocol):
    """The part of Dagster's client of a code server that is used."""

    def get_server_id(self) -> str:
        """Returns what differs between the processes that load definitions."""
        ...

    def reload_code(self, timeout: int) -> object:
        """Reloads, or, in a server that cannot, does nothing."""
        ...

    def shutdown_server(self) -> object:
        """Ends the server once its calls have ended, after 60 seconds at the latest."""
        ...


def code_server_of(context: dg.SensorEvaluationContext) -> CodeServer | None:
    """Returns the client of the code server that a sensor was loaded by; None if it has no address.

    It has one in each deployment whose workspace names code servers, and under ``dagster dev``.
    """
    connect = getattr(context.code_location_origin, "create_client", None)
    return cast("CodeServer", connect()) if callable(connect) else None


def location_of(context: dg.SensorEvaluationContext) -> str:
    """Returns the code location from which a sensor was loaded."""
    origin = context.code_location_origin
    return origin.location_name if origin else DEFAULT_LOCATION


def _reload(server: CodeServer | None, location: str) -> bool:
    """Returns whether the definitions may have been loaded again.

    Raises:
        TransientError: if they could not be.
    """
    if server is None or os.environ.get(WEBSERVER_VARIABLE):
        reload_location(location)
        return True
    with _translated_errors("reload"):
        before = server.get_server_id()
        server.reload_code(timeout=TIMEOUT_SECONDS)
        return server.get_server_id() != before


@contextmanager
def _translated_errors(what: str) -> Iterator[None]:
    """Converts errors of Dagster's client."""
    try:
        yield
    except dg.DagsterError as error:
        msg = f"the code server did not {what} ({type(error).__name__})"
        raise UnreachableError(msg, remedy="look into its log") from None


def reload_location(location: str, webserver: str | None = None) -> None:
    """Reloads a code location's definitions by a webserver; takes 3 to 4 seconds.

    Args:
        location: the code location's name.
        webserver: base URL; default ``$CDC_ASSETS_WEBSERVER``, else the local one. Of Dagster+
            that of a deployment.

    Raises:
        UnreachableError: if the webserver does not answer (at boot it comes up after the
            first tick: ask again at the next one).
        TransientError: if it answers that it could not load them.
        ConfigError: if the file with the token cannot be read.
    """
    import requests

    base = webserver or os.environ.get(WEBSERVER_VARIABLE) or DEFAULT_WEBSERVER
    url = f"{base.rstrip('/')}/graphql"
    try:
        response = requests.post(
            url,
            json={"query": MUTATION, "variables": {"location": location}},
            headers=login_of(url),
            timeout=TIMEOUT_SECONDS,
            allow_redirects=False,  # to nobody else with the token
        )
        response.raise_for_status()
        answer = cast("dict[str, Any]", response.json())
    except (requests.RequestException, ValueError) as error:
        msg = f"the Dagster webserver did not reload the definitions ({type(error).__name__})"
        remedy = f"check that it runs, and that ${WEBSERVER_VARIABLE} is its address"
        raise UnreachableError(msg, where=url, remedy=remedy) from None
    if problem := _problem(answer):
        msg = f"the definitions could not be loaded again: {problem}"
        raise TransientError(msg, where=f"{url} location={location}")


def login_of(url: str) -> dict[str, str]:
    """Returns the header with the webserver's token, if one is set: Dagster+ has its own."""
    file = os.environ.get(f"{TOKEN_VARIABLE}_FILE")
    token = Secret(file=str(Path(file).absolute())).reveal() if file else ""
    if not (token := token or os.environ.get(TOKEN_VARIABLE, "")):
        return {}
    if (urlsplit(url).hostname or "").endswith(".dagster.cloud"):
        return {"Dagster-Cloud-Api-Token": token}
    return {"Authorization": f"Bearer {token}"}


def _problem(answer: dict[str, Any]) -> str:
    """Says why the location was not reloaded; empty if it was."""
    if errors := answer.get("errors"):
        return str(errors[0].get("message", "GraphQL error"))
    result = answer["data"]["reloadRepositoryLocation"]
    if result["__typename"] != "WorkspaceLocationEntry":
        return result.get("message") or result["__typename"]
    loaded = result["locationOrLoadError"]
    if loaded is None or loaded["__typename"] == "RepositoryLocation":
        return ""
    return loaded.get("message") or loaded["__typename"]
