"""HTTP to the parts of the stack: never by a proxy, whatever the user's environment names."""

from __future__ import annotations

from collections.abc import Mapping

import requests


def request(
    method: str, url: str, *, seconds: float, json: Mapping[str, str] | None = None
) -> requests.Response:
    """Ask a part on this machine.

    Raises:
        requests.RequestException: it does not answer within that time.
    """
    with requests.Session() as session:
        session.trust_env = False
        return session.request(method, url, json=json, timeout=seconds)
