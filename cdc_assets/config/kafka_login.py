"""Defines the logins to Kafka: by SASL mechanism, the options of librdkafka and of Java's clients.

The file uses librdkafka's names. Java's clients, Spark's among them, take a login module in
``sasl.jaas.config`` instead: https://kafka.apache.org/documentation/#security_sasl.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from cdc_assets import aws
from cdc_assets.errors import ConfigError

Given = Mapping[str, str]
"""Properties by librdkafka's names, secrets revealed; with ``bootstrap.servers``."""

REGION: Final = "sasl.aws.region"
"""Our own name: librdkafka has no login to MSK by IAM."""

_OAUTH: Final = "sasl.oauthbearer"
_KERBEROS: Final = "sasl.kerberos"
_KAFKA: Final = "org.apache.kafka.common.security"
_MSK: Final = "software.amazon.msk.auth.iam"
MSK_CLASS: Final = f"{_MSK}.IAMClientCallbackHandler"
"""A class of the jar that Spark needs for MSK."""


def _unchanged(given: Given) -> dict[str, Any]:
    return dict(given)


@dataclass(frozen=True, slots=True)
class Mechanism:
    """A SASL mechanism.

    Attributes:
        java: returns the options of Java's clients, without ``sasl.mechanism``.
        needs: the properties without which nobody logs in.
        takes: further properties.
        librdkafka: returns librdkafka's properties.
    """

    java: Callable[[Given], dict[str, str]]
    needs: tuple[str, ...]
    takes: tuple[str, ...] = ()
    librdkafka: Callable[[Given], dict[str, Any]] = _unchanged


def _by_password(module: str, given: Given) -> dict[str, str]:
    login = {"username": given["sasl.username"], "password": given["sasl.password"]}
    return {"sasl.jaas.config": _jaas(f"{_KAFKA}.{module}", login)}


def _by_oauth(given: Given) -> dict[str, str]:
    """Returns Java's options of OAuth's client credentials.

    The authorities of the token endpoint stand in the login module: those of ``ssl.*`` are the
    brokers'.
    """
    names = {"clientId": "client.id", "clientSecret": "client.secret", "scope": "scope"}
    login = {
        to: given[f"{_OAUTH}.{name}"] for to, name in names.items() if f"{_OAUTH}.{name}" in given
    }
    for pair in filter(None, given.get(f"{_OAUTH}.extensions", "").split(",")):
        name, _, value = pair.strip().partition("=")
        login[f"extension_{name}"] = value
    if (authority := pem(given, "https.ca")) is not None:
        login |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": authority}
    endpoint, java = f"{_OAUTH}.token.endpoint.url", f"{_KAFKA}.oauthbearer.OAuthBearerLogin"
    return {
        "sasl.jaas.config": _jaas(f"{java}Module", login),
        "sasl.login.callback.handler.class": f"{java}CallbackHandler",
        endpoint: given[endpoint],
    }


def _with_oidc(given: Given) -> dict[str, Any]:
    """Returns properties; librdkafka itself looks for authorities where it was compiled."""
    found = {} if {"https.ca.location", "https.ca.pem"} & given.keys() else _authorities()
    return {**found, **given, f"{_OAUTH}.method": "oidc"}


def _authorities() -> dict[str, str]:
    from requests.utils import DEFAULT_CA_BUNDLE_PATH

    names = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
    named = next(filter(None, map(os.environ.get, names)), DEFAULT_CA_BUNDLE_PATH)
    return {"https.ca.location": named}


def _by_msk(_: Given) -> dict[str, str]:
    """Returns the options of AWS's login module; Spark's executors find credentials themselves."""
    return {
        "sasl.jaas.config": _jaas(f"{_MSK}.IAMLoginModule", {}),
        "sasl.client.callback.handler.class": MSK_CLASS,
    }


def _with_msk_token(given: Given) -> dict[str, Any]:
    """Returns properties with a function that librdkafka calls for each token.

    Raises:
        ConfigError: if the extra is missing, or nothing names the region.
        UnreachableError: if no credentials are found.
    """
    host, where = given["bootstrap.servers"].partition(",")[0], f"kafka.properties.{REGION}"
    region = aws.region_of(given.get(REGION), host, where)
    aws.msk_token(region)  # whose errors librdkafka would hide
    rest = {name: value for name, value in given.items() if name not in {REGION, "sasl.mechanisms"}}
    return {**rest, "sasl.mechanism": "OAUTHBEARER", "oauth_cb": partial(_msk_token, region)}


def _msk_token(region: str, _: str) -> tuple[str, float]:
    return aws.msk_token(region)


def _by_kerberos(given: Given) -> dict[str, str]:
    """Returns the options of Java's Kerberos: a keytab, or the ticket cache of its user.

    Spark's executors read the keytab at the same path.
    """
    login = {"principal": given[f"{_KERBEROS}.principal"]}
    if keytab := given.get(f"{_KERBEROS}.keytab"):
        login |= {"useKeyTab": "true", "storeKey": "true", "keyTab": keytab}
    else:
        login |= {"useTicketCache": "true", "renewTGT": "true"}
    service = given.get(f"{_KERBEROS}.service.name", "kafka")
    module = "com.sun.security.auth.module.Krb5LoginModule"
    return {"sasl.jaas.config": _jaas(module, login), f"{_KERBEROS}.service.name": service}


def _with_ticket(given: Given) -> dict[str, Any]:
    """Returns properties; without a keytab nothing is to call ``kinit``: a ticket cache is used."""
    if given.keys() & {f"{_KERBEROS}.keytab", f"{_KERBEROS}.kinit.cmd"}:
        return dict(given)
    return {**given, f"{_KERBEROS}.min.time.before.relogin": "0"}


_PASSWORD: Final = ("sasl.username", "sasl.password")
_SCRAM: Final = Mechanism(partial(_by_password, "scram.ScramLoginModule"), _PASSWORD)
MECHANISMS: Final[Mapping[str, Mechanism]] = {
    "PLAIN": Mechanism(partial(_by_password, "plain.PlainLoginModule"), _PASSWORD),
    "SCRAM-SHA-256": _SCRAM,
    "SCRAM-SHA-512": _SCRAM,
    "OAUTHBEARER": Mechanism(
        _by_oauth,
        tuple(f"{_OAUTH}.{n}" for n in ("token.endpoint.url", "client.id", "client.secret")),
        (
            *(f"{_OAUTH}.{n}" for n in ("method", "scope", "extensions", "sub.claim.name")),
            "https.ca.location", "https.ca.pem",
        ),
        _with_oidc,
    ),
    "AWS_MSK_IAM": Mechanism(_by_msk, (), (REGION,), _with_msk_token),
    "GSSAPI": Mechanism(
        _by_kerberos,
        (f"{_KERBEROS}.principal",),
        tuple(
            f"{_KERBEROS}.{n}"
            for n in ("keytab", "service.name", "kinit.cmd", "min.time.before.relogin")
        ),
        _with_ticket,
    ),
}  # fmt: skip

PROPERTIES: Final = frozenset(
    name for each in MECHANISMS.values() for name in (*each.needs, *each.takes)
)


def _jaas(module: str, login: Mapping[str, str]) -> str:
    return " ".join((module, "required", *(f"{n}={_quoted(v)}" for n, v in login.items()))) + ";"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def pem(given: Given, stem: str) -> str | None:
    """Returns the text of a certificate or key; None if there is none.

    Raises:
        ConfigError: if its file cannot be read.
    """
    if (text := given.get(f"{stem}.pem")) is not None:
        return text
    location = given.get(f"{stem}.location")
    if location is None:
        return None
    try:
        return Path(location).read_text(encoding="ascii")
    except (OSError, UnicodeError) as error:
        msg = f"cannot read the PEM file of {stem}.location"
        where = f"kafka.properties.{stem}.location"
        raise ConfigError(msg, where=where, remedy=f"check {location}") from error
