"""Sends HTTP requests to the stack's parts, never through a proxy of the user's environment."""

from __future__ import annotations

from collections.abc import Mapping

import requests


def request(
    method: str, url: str, *, seconds: float, json: Mapping[str, str] | None = None
) -> requests.Response:
    """Sends a request to a part on this machine.

    Raises:
        requests.RequestException: it does not answer within ``seconds``.
    """
    with requests.Session() as session:
        session.trust_env = False
        return session.request(method, url, json=json, timeout=seconds)
