"""Finds logins that go over connections whose server nobody verifies, by the configuration alone.

What leads to this machine alone is left out. A secret whose variable is not set says nothing here:
whoever uses the part reports that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final
from urllib.parse import parse_qs, urlsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict

from cdc_assets.config import ReplicationConfig
from cdc_assets.config.database import DatabaseConfig
from cdc_assets.config.schema_registry import SchemaRegistryConfig
from cdc_assets.config.secret import Secret, reveal
from cdc_assets.databases.mysql.connection import TlsMode, parse_dsn
from cdc_assets.errors import CdcError

_VERIFIES: Final = "verify-full"
_PORT: Final = re.compile(r":[0-9]+$")
_LOGINS: Final = ("credential", "token", "header.authorization")


@dataclass(frozen=True, slots=True)
class Plaintext:
    """A login whose server is not verified; ``source`` is empty for the parts of all sources."""

    part: str
    problem: str
    remedy: str
    source: str = ""

    def __str__(self) -> str:
        at = f"{self.source}: " if self.source else ""
        return f"{at}{self.part}: {self.problem} → {self.remedy}"


def plaintext_logins(config: ReplicationConfig) -> tuple[Plaintext, ...]:
    """Returns these logins: those of all sources first."""
    return tuple(_logins(config))


def is_of_this_machine(host: str) -> bool:
    """Returns whether a host is this machine, or a socket's file of it."""
    bare = host.strip("[]")
    try:
        return ip_address(bare).is_loopback
    except ValueError:
        return bare in {"", "localhost"} or bare.startswith(("/", "@"))


def _logins(config: ReplicationConfig) -> Iterator[Plaintext]:
    yield from _of_kafka(config)
    yield from _of_spark(config)
    with suppress(CdcError):
        yield from _of_catalog(config)
    for name, source in config.sources.items():
        if source.database is not None:
            with suppress(CdcError):
                yield from _of_database(source.database, name)
        if source.schema_registry is not None:
            yield from _of_registry(source.schema_registry, name)
        if source.connect is not None:
            with suppress(CdcError):
                yield from _of_http("Kafka Connect", source.connect.url, name)


def _of_registry(registry: SchemaRegistryConfig, name: str) -> Iterator[Plaintext]:
    has_login = bool(registry.username or registry.token or registry.oauth)
    for url in registry.urls:
        with suppress(CdcError):
            yield from _of_http("the schema registry", url, name, has_login=has_login)
    if registry.oauth is not None:
        url = registry.oauth.token_url
        yield from _of_http("OAuth's token endpoint", url, name, has_login=True)


def _of_kafka(config: ReplicationConfig) -> Iterator[Plaintext]:
    given = config.kafka.properties
    protocol = str(given.get("security.protocol", "plaintext")).upper()
    brokers = (each.strip() for each in config.kafka.bootstrap_servers.split(","))
    if all(is_of_this_machine(_PORT.sub("", each)) for each in brokers):
        return
    if protocol == "SASL_PLAINTEXT":
        problem = "the login goes over plaintext (SASL_PLAINTEXT)"
        yield Plaintext("Kafka", problem, "security.protocol: SASL_SSL")
    elif given.get("ssl.endpoint.identification.algorithm") == "none":
        problem = "the server's name is not verified (ssl.endpoint.identification.algorithm: none)"
        yield Plaintext("Kafka", problem, "leave the property out, and name brokers as they do")


def _of_spark(config: ReplicationConfig) -> Iterator[Plaintext]:
    remote = config.spark.remote if isinstance(config.spark.remote, str) else ""
    host = urlsplit(remote).hostname or ""
    has_tls = config.spark.token is not None or "use_ssl=true" in remote
    if remote.startswith("sc://") and not has_tls and not is_of_this_machine(host):
        problem = "the catalog's, Kafka's and databases' secrets go to it over plaintext (sc://)"
        yield Plaintext(
            "Spark", problem, "spark.token, or sc://…/;use_ssl=true, with TLS before it"
        )


def _of_catalog(config: ReplicationConfig) -> Iterator[Plaintext]:
    catalog = config.lake.catalog
    uri = reveal(catalog.uri) if catalog.uri is not None else ""
    if catalog.type == "rest":
        has_login = any(name in catalog.properties for name in _LOGINS)
        yield from _of_http("the catalog", uri, has_login=has_login)
    elif catalog.type == "sql":
        parts = urlsplit(uri)
        said = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        is_postgres = parts.scheme.startswith("postgresql")
        host = parts.hostname or said.get("host", "")  # SQLAlchemy takes either
        if is_postgres and not is_of_this_machine(host):
            yield from _of_sslmode("the catalog", said.get("sslmode"), "", "lake.catalog.uri")


def _of_database(database: DatabaseConfig, source: str) -> Iterator[Plaintext]:
    dsn, part = reveal(database.dsn), "the database"
    if database.kind == "postgres":
        with suppress(psycopg.ProgrammingError):  # whoever connects reports it
            said = conninfo_to_dict(dsn)
            if not is_of_this_machine(str(said.get("host") or said.get("hostaddr") or "")):
                mode = said.get("sslmode")
                yield from _of_sslmode(part, str(mode) if mode else None, source, "database.dsn")
        return
    server = parse_dsn(dsn)
    mode = server.tls.mode
    if mode is TlsMode.VERIFY_IDENTITY or is_of_this_machine(server.host):
        return
    more = ""
    if mode in {TlsMode.DISABLED, TlsMode.PREFERRED}:
        more = "; unencrypted, it asks whoever answers for the key that hides the password"
    problem = f"nothing verifies the server (ssl-mode={mode}){more}"
    yield Plaintext(part, problem, "ssl-mode=verify_identity&ssl-ca=… in database.dsn", source)


def _of_sslmode(part: str, mode: str | None, source: str, key: str) -> Iterator[Plaintext]:
    if mode != _VERIFIES:
        problem = f"nothing verifies the server (sslmode={mode or 'prefer'})"
        remedy = f"sslmode={_VERIFIES}&sslrootcert=… in {key}"
        yield Plaintext(part, problem, remedy, source)


def _of_http(
    part: str, url: str | Secret, source: str = "", *, has_login: bool = False
) -> Iterator[Plaintext]:
    parts = urlsplit(reveal(url))
    has_login = has_login or bool(parts.username)
    if has_login and parts.scheme == "http" and not is_of_this_machine(parts.hostname or ""):
        yield Plaintext(part, "the login goes over plaintext (http://)", "https://", source)
