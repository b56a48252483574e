"""Defines the sensor `discover`, which turns topics into tables and assets while Dagster runs.

The sensor asks the webserver to load the definitions again, so that new tables become assets.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import dagster as dg

from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import TransientError, UnreachableError
from cdc_assets.operate.discovery import discover, not_tables, replicated
from cdc_assets.operate.services import Clock, Services, utc_now
from cdc_assets.orchestration.instance import limit_pools
from cdc_assets.orchestration.keys import named, pool_name, table_key, topic_key
from cdc_assets.orchestration.mount import sensor_status
from cdc_assets.orchestration.sensors.skipping import skipping_when_unreachable
from cdc_assets.registry import Registry, TableEntry

INTERVAL_SECONDS: Final = 15
FIRST_SECONDS: Final = 5
"""The interval until a table is known, since whoever has just started it waits for the first."""

WEBSERVER_VARIABLE: Final = "CDC_ASSETS_WEBSERVER"
DEFAULT_WEBSERVER: Final = "http://127.0.0.1:3000"
DEFAULT_LOCATION: Final = "cdc_assets"
TIMEOUT_SECONDS: Final = 60
SETTLE_SECONDS: Final = 150.0
"""A daemon with a code server of its own notices a reload within a minute."""

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


def discover_sensor(
    config: ReplicationConfig, loaded: Registry, clock: Clock = utc_now
) -> dg.SensorDefinition:
    """Returns the sensor that adds new topics' tables to the registry and reloads definitions.

    Reloading depends on what these definitions lack, not on what this tick found: a reload
    that failed (the webserver was not up yet) is tried again at the next tick, and one that had no
    effect after a while.
    """
    services = Services(config, clock)
    entries, reloads, limited = replicated(config, loaded), Reloads(), set[str]()

    @skipping_when_unreachable
    def evaluate(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        found = discover(services)
        pools = {pool_name(config, each) for each in replicated(config, found.registry)}
        if not pools <= limited:
            _limit(context, pools - limited)
            limited.update(pools)
        missing = [
            entry for entry in replicated(config, found.registry)
            if entry.table not in loaded.tables
        ]  # fmt: skip
        gone = loaded.tables & {entry.table for entry in entries} - found.registry.tables
        events = [_observation(services, entry) for entry in found.added]
        changed = [*(str(entry.table) for entry in missing), *(f"without {each}" for each in gone)]
        said = reloads.ask(context, changed) if changed else _nothing_new(loaded)
        refusals = "".join(f" Not added: {error}" for error in found.refused)
        return dg.SensorResult(
            asset_events=events, skip_reason=said + refusals + _set_aside(config, found.registry)
        )

    return dg.SensorDefinition(
        name=named(config, "discover"),
        evaluation_fn=evaluate,
        minimum_interval_seconds=INTERVAL_SECONDS if loaded.tables else FIRST_SECONDS,
        default_status=sensor_status(config),
        description="Finds new topics, registers their tables and loads the definitions again.",
    )


def _limit(context: dg.SensorEvaluationContext, pools: Collection[str]) -> None:
    """Limits pools; a storage that refuses it holds no table up: two runs of one are only slower.

    It is tried again by the next process.
    """
    try:
        limit_pools(context.instance, pools)
    except Exception as error:  # of whatever storage the instance has
        names = ", ".join(sorted(pools))
        context.log.warning(f"Set the limit 1 by hand for {names}: {type(error).__name__}")


def _nothing_new(loaded: Registry) -> str:
    return f"No new topics; {len(loaded)} tables."


def _set_aside(config: ReplicationConfig, registry: Registry) -> str:
    others = [f"{each.topic} ({each.holds})" for each in not_tables(config, registry)]
    return f" Not tables: {', '.join(others)}." if others else ""


def _observation(services: Services, entry: TableEntry) -> dg.AssetObservation:
    marks = services.log.watermarks([entry.topic]).get(entry.topic)
    records = sum(each.length for each in marks.begin.ranges_to(marks.end)) if marks else 0
    return dg.AssetObservation(
        topic_key(services.config, entry.topic),
        description=f"Topic of {entry.table} discovered",
        metadata={
            "table": str(entry.table),
            "asset": dg.MetadataValue.asset(table_key(services.config, entry)),
            "target": str(entry.target),
            "partitions": len(marks.end.offsets) if marks else 0,
            "offsets": records,
        },
    )


# ── reloading definitions ────────────────────────────────────────────────────────────────


@dataclass
class Reloads:
    """The reloads that loaded definitions have asked for. A reload that takes effect replaces them.

    A code server started by ``dagster api grpc`` answers a reload like any other, and does nothing.
    If the same tables are still missing after `SETTLE_SECONDS`, that is said instead.

    Attributes:
        clock: monotonic, in seconds.
    """

    clock: Callable[[], float] = time.monotonic
    _missing: frozenset[str] = frozenset()
    _at: float = 0.0
    _said: str = ""

    def ask(self, context: dg.SensorEvaluationContext, changed: Sequence[str]) -> str:
        """Asks for a reload, unless the last one may still take effect; says what became of it.

        Args:
            context: the sensor's.
            changed: what the definitions lack, or have too much.
        """
        names, missing = ", ".join(changed), frozenset(changed)
        is_same = bool(self._said) and missing == self._missing
        if is_same and self.clock() - self._at < SETTLE_SECONDS:
            return self._said
        context.log.info(f"The tables have changed, loading the definitions again: {names}")
        try:
            reload_location(location_of(context))
        except TransientError as problem:  # the found tables must be written all the same
            return f"Waiting to load {names}: {problem}"
        self._missing, self._at = missing, self.clock()
        self._said = f"Loaded the definitions again for {names}."
        if is_same:
            self._said = (
                f"Not loaded: {names}, though the webserver has loaded the definitions again. "
                "Restart the code server, and start it by `dagster code-server start` "
                "instead of `dagster api grpc`, which never reloads."
            )
        return self._said


def location_of(context: dg.SensorEvaluationContext) -> str:
    """Returns the code location from which a sensor was loaded."""
    origin = context.code_location_origin
    return origin.location_name if origin else DEFAULT_LOCATION


def reload_location(location: str, webserver: str | None = None) -> None:
    """Reloads a code location's definitions; takes 3 to 4 seconds.

    Args:
        location: the code location's name.
        webserver: base URL; default ``$CDC_ASSETS_WEBSERVER``, else the local one.

    Raises:
        UnreachableError: if the webserver does not answer (at boot it comes up after the
            first tick: ask again at the next one).
        TransientError: if it answers that it could not load them.
    """
    import requests

    base = webserver or os.environ.get(WEBSERVER_VARIABLE) or DEFAULT_WEBSERVER
    url = f"{base.rstrip('/')}/graphql"
    try:
        response = requests.post(
            url,
            json={"query": MUTATION, "variables": {"location": location}},
            timeout=TIMEOUT_SECONDS,
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
