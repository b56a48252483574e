"""Builds the options with which Spark reads the database of an open connection by JDBC."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

import psycopg

from cdc_assets.databases.postgres.connection import CONNECT_SECONDS
from cdc_assets.errors import ConfigError

DRIVER: Final = "org.postgresql.Driver"
FETCH: Final = 5_000
"""So many rows come at a time, and are held by a task."""

_SAME: Final = {
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "gssencmode": "gssEncMode",
    "channel_binding": "channelBinding",
    "options": "options",
}
"""libpq's words, and the driver's for the same."""


def reader_options(
    connection: psycopg.Connection[Any], where: str, silent_seconds: float
) -> Mapping[str, str]:
    """Returns the reader's options for the database that the connection found, by whatever name.

    Args:
        connection: to the database.
        where: for errors.
        silent_seconds: how long the server may take to say something.

    Raises:
        ConfigError: if it is reached by a socket's file, which the driver cannot.
    """
    info = connection.info
    if not info.host or info.host.startswith(("/", "@")):
        what = "the database is reached by a socket of this machine, which Spark cannot read by"
        raise ConfigError(what, where=where, remedy="name host and port in database.dsn")
    host = f"[{info.host}]" if ":" in info.host else info.host
    said = info.get_parameters()
    words = {_SAME[name]: value for name, value in said.items() if name in _SAME and value}
    words |= {
        "ApplicationName": "cdc-assets resnapshot",
        "connectTimeout": f"{CONNECT_SECONDS}",
        "socketTimeout": f"{math.ceil(silent_seconds)}",
        "tcpKeepAlive": "true",
    }
    query = "&".join(f"{name}={quote(value, safe='')}" for name, value in words.items())
    url = f"jdbc:postgresql://{host}:{info.port}/{quote(info.dbname, safe='')}?{query}"
    password = {"password": info.password} if info.password else {}
    return {
        "url": url,
        "driver": DRIVER,
        "user": info.user,
        **password,
        "fetchsize": str(FETCH),
    }
