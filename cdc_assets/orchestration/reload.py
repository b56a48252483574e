"""Asks the webserver to load the definitions again, so that new tables become assets."""

from __future__ import annotations

import os
from typing import Any, Final, cast

import dagster as dg

from cdc_assets.errors import TransientError, UnreachableError

WEBSERVER_VARIABLE: Final = "CDC_ASSETS_WEBSERVER"
DEFAULT_WEBSERVER: Final = "http://127.0.0.1:3000"
DEFAULT_LOCATION: Final = "cdc_assets"
TIMEOUT_SECONDS: Final = 60

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
