"""Logins whose server nobody verifies are named, and those that stay on this machine are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cdc_assets.config.assess import FINDINGS
from cdc_assets.operate.assess.finding import Subject, Verdict
from cdc_assets.operate.assess.look import judge_logins
from cdc_assets.operate.plaintext import plaintext_logins
from cdc_assets_tests.configuration import platform, source, write

pytestmark = pytest.mark.unit

SECRET = "hunter2-and-more"
SASL = {
    "sasl.mechanism": "PLAIN",
    "sasl.username": "u",
    "sasl.password": {"env": "PLAIN_SECRET"},
}


def kafka(at: str, **properties: Any) -> dict[str, Any]:
    return {"kafka": {"bootstrap_servers": at, "properties": properties}}


def catalog(uri: str, kind: str = "rest") -> dict[str, Any]:
    login = {"properties": {"credential": {"env": "PLAIN_SECRET"}}} if kind == "rest" else {}
    return {"lake": {"catalog": {"type": kind, "uri": uri, **login}, "warehouse": "s3://a/b"}}


def shop(**keys: Any) -> dict[str, Any]:
    return {"sources": {"shop": source("shop", **keys)}}


def database(kind: str = "postgres") -> dict[str, Any]:
    return shop(database={"kind": kind, "dsn": {"env": "PLAIN_DSN"}})


def registry(url: str) -> dict[str, Any]:
    login = {"username": "u", "password": {"env": "PLAIN_SECRET"}}
    return {"schema_registry": {"url": url, **login}, "format": "debezium-avro"}


def oauth(url: str, token_url: str) -> dict[str, Any]:
    login = {"token_url": token_url, "client_id": "c", "client_secret": {"env": "PLAIN_SECRET"}}
    return {"schema_registry": {"url": url, "oauth": login}, "format": "debezium-avro"}


PG = f"postgresql://u:{SECRET}@db.example/shop"
MY = f"mysql://u:{SECRET}@db.example/shop"
CASES: dict[str, tuple[dict[str, Any], str, str]] = {
    "kafka": (kafka("b:9092", **SASL, **{"security.protocol": "SASL_PLAINTEXT"}), "",
              "Kafka: the login goes over plaintext"),
    "kafka, usual port": (kafka("b", **SASL, **{"security.protocol": "SASL_PLAINTEXT"}), "",
                          "Kafka: the login goes over plaintext"),
    "kafka, any name": (kafka("b:9092", **{"security.protocol": "SSL",
                        "ssl.endpoint.identification.algorithm": "none"}), "", "name is not"),
    "spark": ({"spark": {"remote": "sc://spark.example:15002"}}, "", "Spark: the catalog's"),
    "catalog": (catalog("http://catalog.example"), "", "the catalog: the login goes over plain"),
    "sql catalog": (catalog("postgresql+psycopg://db.example/lake", "sql"), "", "sslmode=prefer"),
    "sql catalog, host in the query": (
        catalog("postgresql+psycopg:///lake?host=db.example", "sql"), "", "sslmode=prefer"
    ),
    "postgres, by address": (database(), f"hostaddr=10.0.0.5 password={SECRET}", "sslmode=prefer"),
    "postgres": (database(), PG, "shop: the database: nothing verifies the server"),
    "postgres, encrypted": (database(), f"{PG}?sslmode=require", "sslmode=require"),
    "mysql": (database("mysql"), MY, "asks whoever answers for the key"),
    "mysql, encrypted": (database("mysql"), f"{MY}?ssl-mode=required", "ssl-mode=required"),
    "registry": (shop(**registry("http://registry.example")), "", "shop: the schema registry"),
    "oauth": (shop(**oauth("https://registry.example", "http://login.example")), "",
              "shop: OAuth's token endpoint: the login goes over plaintext"),
    "registry, oauth": (shop(**oauth("http://registry.example", "https://login.example")), "",
                        "shop: the schema registry"),
}  # fmt: skip


def logins(tmp_path: Path, replaced: dict[str, Any]) -> list[str]:
    config = write(tmp_path / "replication.yaml", {**platform(sources={}), **replaced})
    return [str(each) for each in plaintext_logins(config)]


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAIN_SECRET", SECRET)


@pytest.mark.parametrize(("replaced", "dsn", "words"), CASES.values(), ids=CASES)
def test_a_login_over_plaintext_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replaced: dict[str, Any], dsn: str, words: str
) -> None:
    monkeypatch.setenv("PLAIN_DSN", dsn)
    (found,) = logins(tmp_path, replaced)
    assert words in found
    assert " → " in found
    assert SECRET not in found


GOOD: dict[str, tuple[dict[str, Any], str]] = {
    "this machine": (kafka("127.0.0.1:1,localhost:2,[::1]:3", **SASL,
                           **{"security.protocol": "SASL_PLAINTEXT"}), ""),
    "kafka over TLS": (kafka("b:9092", **SASL, **{"security.protocol": "SASL_SSL"}), ""),
    "kafka without login": (kafka("b:9092"), ""),
    "spark with a token": ({"spark": {"remote": "sc://spark.example:15002",
                                      "token": {"env": "PLAIN_SECRET"}}}, ""),
    "spark here": ({"spark": {"remote": "sc://localhost:15002"}}, ""),
    "catalog over TLS": (catalog("https://catalog.example"), ""),
    "catalog here": (catalog("http://127.0.0.1:8181"), ""),
    "verified postgres": (database(), f"{PG}?sslmode=verify-full&sslrootcert=/ca.pem"),
    "postgres here": (database(), f"postgresql://u:{SECRET}@localhost/shop"),
    "verified mysql": (database("mysql"), f"{MY}?ssl-mode=verify_identity"),
    "mysql here": (database("mysql"), f"mysql://u:{SECRET}@127.0.0.1/shop"),
    "unset": (database(), ""),
    "registry over TLS": (shop(**registry("https://registry.example")), ""),
}  # fmt: skip


@pytest.mark.parametrize(("replaced", "dsn"), GOOD.values(), ids=GOOD)
def test_others_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replaced: dict[str, Any], dsn: str
) -> None:
    monkeypatch.setenv("PLAIN_DSN", dsn)
    assert logins(tmp_path, replaced) == []


def test_it_is_a_finding_of_its_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAIN_DSN", PG)
    config = write(tmp_path / "replication.yaml", platform(**database()))
    assert not [*judge_logins(Subject("other"), plaintext_logins(config))]
    (found,) = judge_logins(Subject("shop"), plaintext_logins(config))
    assert (found.name, found.verdict, found.stops) == ("plaintext_login", Verdict.PARTIAL, False)
    assert found.name in FINDINGS
