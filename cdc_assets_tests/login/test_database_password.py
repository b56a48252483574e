"""The password of a database: apart from its DSN, by a command or by AWS's identity."""

from __future__ import annotations

import sys
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from cdc_assets.config import load
from cdc_assets.config.database import DatabaseConfig
from cdc_assets.config.secret import FETCHED
from cdc_assets.databases.mysql.connection import parse_dsn
from cdc_assets.databases.postgres.connection import address_of, conninfo_to_dict
from cdc_assets.errors import ConfigError, LoginRefusedError, UnreachableError
from cdc_assets_tests.login.identity import KEY, as_aws, is_signed

HOST = "shop.abc123.eu-west-1.rds.amazonaws.com"
PASSWORD = "p@ss:/?#[]% ü"
POSTGRES = f"postgresql://etl%40x@{HOST}:5433/shop?sslmode=verify-full"
MYSQL = f"mysql://etl%40x@{HOST}/shop?ssl-mode=verify_identity"


@pytest.fixture(autouse=True)
def _forgotten() -> None:
    FETCHED.forget()


def database(kind: str, dsn: object, password: object) -> DatabaseConfig:
    said = {"kind": kind, "dsn": dsn, "password": password}
    return DatabaseConfig.model_validate(said)


@pytest.mark.unit
def test_a_password_takes_the_place_of_that_in_the_dsn(monkeypatch):
    monkeypatch.setenv("PW", PASSWORD)
    monkeypatch.setenv("URL", POSTGRES.replace("@", ":old@"))
    told = conninfo_to_dict(database("postgres", {"env": "URL"}, {"env": "PW"}).login())
    assert told == {"user": "etl@x", "password": PASSWORD, "host": HOST, "port": "5433",
                    "dbname": "shop", "sslmode": "verify-full"}  # fmt: skip
    server = parse_dsn(database("mysql", MYSQL, {"env": "PW"}).login())
    assert (server.user, server.password, server.port) == ("etl@x", PASSWORD, 3306)


@pytest.mark.unit
def test_the_output_of_a_command_is_a_password():
    words = [sys.executable, "-c", f"print({PASSWORD!r})"]
    server = parse_dsn(database("mysql", MYSQL, {"command": words}).login())
    assert server.password == PASSWORD


@pytest.mark.unit
@pytest.mark.parametrize(("kind", "dsn", "port"), [("postgres", POSTGRES, 5433),
                                                   ("mariadb", MYSQL, 3306)])  # fmt: skip
def test_a_token_of_aws_is_a_password_that_names_the_place_and_the_user(
    monkeypatch, kind, dsn, port
):
    as_aws(monkeypatch)
    found = database(kind, dsn, {"iam": "aws"})
    login = found.login()
    told = (
        conninfo_to_dict(login) if kind == "postgres" else {"password": parse_dsn(login).password}
    )
    url = f"https://{told['password']}"
    assert is_signed(url)
    assert not is_signed(url, "another")
    said = parse_qs(urlsplit(url).query)
    assert (urlsplit(url).netloc, said["DBUser"]) == (f"{HOST}:{port}", ["etl@x"])
    assert said["X-Amz-Credential"][0].startswith(f"{KEY}/")
    assert "/eu-west-1/rds-db/" in said["X-Amz-Credential"][0]
    assert found.login() == login, "one token is used for several connections"


@pytest.mark.unit
def test_a_refused_token_is_replaced(monkeypatch):
    as_aws(monkeypatch)
    monkeypatch.setattr("cdc_assets.config.secret.LEAST_SECONDS", 0)
    tokens = iter(("one", "two"))
    monkeypatch.setattr("cdc_assets.aws.rds_token", lambda *_: next(tokens))
    found = database("postgres", POSTGRES, {"iam": "aws", "region": "eu-west-1"})
    assert ":one@" in found.login()
    LoginRefusedError("no")
    assert ":two@" in found.login()


@pytest.mark.unit
@pytest.mark.parametrize(
    ("dsn", "words"),
    [
        (f"postgresql://etl@{HOST}/shop", "encrypted connections only"),
        (f"postgresql://etl@{HOST}/shop?sslmode=prefer", "encrypted connections only"),
        ("postgresql://etl@db/shop?sslmode=require", "nothing names the region"),
        (f"postgresql://{HOST}/shop?sslmode=require", "host and user"),
        (f"postgresql://etl@{HOST}:99999/shop", "host and user"),
        ("host=db user=etl", "host and user"),
    ],
)
def test_a_dsn_that_does_not_go_with_a_token_is_refused(monkeypatch, dsn, words):
    as_aws(monkeypatch)
    monkeypatch.setenv("URL", dsn)
    with pytest.raises(ConfigError, match=words) as caught:
        database("postgres", {"env": "URL"}, {"iam": "aws"}).login()
    assert "etl" not in str(caught.value)


@pytest.mark.slow
def test_an_identity_that_is_missing_is_named(monkeypatch):
    as_aws(monkeypatch)
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    with pytest.raises(UnreachableError, match="NoCredentialsError") as caught:
        database("postgres", POSTGRES, {"iam": "aws"}).login()
    assert HOST in str(caught.value)


@pytest.mark.unit
def test_a_missing_package_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(ConfigError, match=r"pip install 'cdc-assets\[aws\]'"):
        database("postgres", POSTGRES, {"iam": "aws"}).login()


@pytest.mark.unit
@pytest.mark.parametrize(
    ("password", "key", "words"),
    [
        ({"iam": "azure"}, "database.password.iam", "choose 'aws'"),
        ({"iam": "aws", "regoin": "x"}, "database.password.regoin", "did you mean 'region'"),
        (PASSWORD, "database.password", "must name its place"),
        ({"command": []}, "database.password", "must name its place"),
    ],
)
def test_a_wrong_password_names_its_key(password, key, words):
    said = {"kind": "postgres", "dsn": {"env": "A"}, "password": password}
    source = {"format": "debezium-json", "topics": {"include": ["x"]}, "database": said}
    document = {
        "kafka": {"bootstrap_servers": "x:1"}, "sources": {"shop": source},
        "lake": {"catalog": {"type": "rest", "uri": "http://x"}, "warehouse": "s3://x"},
    }  # fmt: skip
    with pytest.raises(ConfigError) as caught:
        load.read_config(document, Path("/"), "test")
    assert f"sources.shop.{key}" in str(caught.value)
    assert words in str(caught.value)
    assert PASSWORD not in str(caught.value)


@pytest.mark.unit
def test_messages_name_the_address_without_the_password(monkeypatch):
    monkeypatch.setenv("PW", PASSWORD)
    assert address_of(database("postgres", POSTGRES, {"env": "PW"}).login()) == f"{HOST}:5433/shop"
