"""Configures the Iceberg catalog for Spark."""

from __future__ import annotations

from typing import Final

from sqlalchemy import URL, make_url

from cdc_assets.config import ReplicationConfig
from cdc_assets.databases.postgres.connection import CONNECT_SECONDS, SILENT_SECONDS

_SQLITE_MILLIS: Final = "30000"
_SPARK_TYPES: Final = {"sql": "jdbc", "rest": "rest", "glue": "glue", "hive": "hive"}
_REST: Final = {"rest-metrics-reporting-enabled": "false"}
"""Otherwise Spark reports each scan and commit to the catalog, by a request of its own."""


def spark_conf(config: ReplicationConfig) -> dict[str, str]:
    """Returns the settings that define the catalog on a Spark server that we start.

    Spark's own table cache is off: it would hide another writer's publish for up to 30 s.
    """
    lake = config.lake
    prefix = f"spark.sql.catalog.{lake.catalog.name}"
    values = {
        "type": _SPARK_TYPES[lake.catalog.type],
        "warehouse": lake.warehouse,
        "cache-enabled": "false",
        **(_REST if lake.catalog.type == "rest" else {}),
        **lake.catalog.resolved(),
    }
    if lake.catalog.type == "sql":
        values["uri"], login = _jdbc(values["uri"])
        values["jdbc.schema-version"] = "V1"  # the version that PyIceberg reads and writes
        if values["uri"].startswith("jdbc:sqlite:"):
            values["jdbc.busy_timeout"] = _SQLITE_MILLIS  # tables are committed concurrently
        values = {**_limits(values["uri"]), **login, **values}
    return {
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        **{f"{prefix}.{name}": value for name, value in values.items()},
    }


def _limits(uri: str) -> dict[str, str]:
    """Returns the drivers' limits of time: without them a silent database keeps a task for ever."""
    if uri.startswith("jdbc:postgresql:"):
        seconds = f"{SILENT_SECONDS:.0f}"
        return {
            "jdbc.connectTimeout": f"{CONNECT_SECONDS}",
            "jdbc.socketTimeout": seconds,
            "jdbc.tcpKeepAlive": "true",
        }
    if uri.startswith(("jdbc:mysql:", "jdbc:mariadb:")):
        millis = f"{SILENT_SECONDS * 1000:.0f}"
        return {"jdbc.connectTimeout": f"{CONNECT_SECONDS * 1000}", "jdbc.socketTimeout": millis}
    return {}


def _jdbc(uri: str) -> tuple[str, dict[str, str]]:
    """Returns JDBC's address for one of SQLAlchemy, and the login as properties for the driver.

    ``sqlite:///FILE`` becomes ``jdbc:sqlite:FILE``; other URLs lose the Python driver. PostgreSQL's
    driver would take a login in the address for a part of the host's name.
    """
    if uri.startswith("sqlite:///"):
        return "jdbc:sqlite:" + uri.removeprefix("sqlite:///"), {}
    url = make_url(uri)
    place = URL.create(
        url.get_backend_name(), host=url.host, port=url.port, database=url.database, query=url.query
    )
    login = {"jdbc.user": url.username, "jdbc.password": url.password}
    return f"jdbc:{place}", {name: said for name, said in login.items() if said}
