"""Configures the database behind a source, and the login there.

Configures where Kafka Connect is asked for a source's connector.
"""

from __future__ import annotations

import re
from contextlib import suppress
from functools import partial
from typing import Annotated, Final, Literal, Self
from urllib.parse import SplitResult, parse_qs, quote, unquote, urlsplit

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from cdc_assets import aws
from cdc_assets.config.secret import FETCHED, Secret, SecretUrl, reveal
from cdc_assets.config.strict import Strict, as_mapping, refuse
from cdc_assets.errors import ConfigError

_DEFAULT_PORTS: Final = {"postgres": 5432, "mysql": 3306, "mariadb": 3306}
_WHERE: Final = "sources.*.database.dsn"
_ENCRYPTED: Final = re.compile("require|required|verify[-_](ca|full|identity)")

_KIND_ALIASES = {"postgresql": "postgres"}


def _kind(word: object) -> object:
    return _KIND_ALIASES.get(word, word) if isinstance(word, str) else word


DatabaseKind = Annotated[
    Literal["postgres", "mysql", "mariadb"],
    BeforeValidator(
        _kind, json_schema_input_type=Literal["postgres", "postgresql", "mysql", "mariadb"]
    ),
]


class IamPassword(Strict):
    """A password that is a token of AWS's identity: IAM authentication of RDS and Aurora.

    Attributes:
        iam: ``aws``: a token of RDS or Aurora is the password.
        region: AWS's region of the database. Default: the host name's.
    """

    iam: Literal["aws"]
    region: str | None = Field(default=None, min_length=1)


def _kind_of_password(data: object) -> str:
    is_iam = isinstance(data, IamPassword) or "iam" in as_mapping(data)
    return "IamPassword" if is_iam else "Secret"


Password = Annotated[
    Annotated[Secret, Tag("Secret")] | Annotated[IamPassword, Tag("IamPassword")],
    Discriminator(_kind_of_password),
]


class DatabaseConfig(Strict):
    """The source database, for schemas, assessment, snapshots and verification.

    Attributes:
        kind: kind of database. ``mysql`` and ``mariadb`` are read alike.
        dsn: URL ``postgresql://user:password@host:5432/database``, or the same with ``mysql://``. A
            secret if it holds the password.
        password: password of the DSN's user, fetched for each connection. ``{iam: aws}``: a token
            of RDS.
        publication: PostgreSQL: the connector's ``publication.name``. Needed only if a table's
            publications differ.
    """

    kind: DatabaseKind
    dsn: SecretUrl
    password: Password | None = None
    publication: str | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _only_postgres_publishes(self) -> Self:
        if self.publication is not None and self.kind != "postgres":
            what = f"database.publication is PostgreSQL's; {self.kind} has none"
            raise refuse(what, "leave it out")
        return self

    def login(self) -> str:
        """Returns the DSN with the password, both fetched now.

        Raises:
            ConfigError: if a secret is missing, or the DSN does not go with ``password``.
            UnreachableError: if the password cannot be fetched.
        """
        dsn = reveal(self.dsn)
        if self.password is None:
            return dsn
        url = _url(dsn)
        if isinstance(self.password, Secret):
            password = self.password.reveal()
        else:
            password = self._token(url, self.password)
        user, _, address = url.netloc.rpartition("@")
        login = f"{user.partition(':')[0]}:{quote(password, safe='')}"
        return url._replace(netloc=f"{login}@{address}").geturl()

    def _token(self, url: SplitResult, password: IamPassword) -> str:
        """Returns a token; one is used for several connections, as it is valid for a while."""
        host, user = url.hostname or "", unquote(url.username or "")
        port = url.port or _DEFAULT_PORTS[self.kind]
        said = {name: values[-1] for name, values in parse_qs(url.query).items()}
        mode = said.get("ssl-mode") or said.get("sslmode") or ""
        if not _ENCRYPTED.fullmatch(mode.lower()) and "ssl-ca" not in said:
            msg = "a token of AWS is sent over encrypted connections only"
            remedy = "add ?sslmode=verify-full (MySQL: ?ssl-mode=verify_identity) to the URL"
            raise ConfigError(msg, where=_WHERE, remedy=remedy)
        region = aws.region_of(password.region, host, "sources.*.database.password")
        at = (host, port, user, region)
        return FETCHED.get(("rds", *at), aws.RDS_SECONDS, partial(aws.rds_token, *at))


def _url(dsn: str) -> SplitResult:
    """Returns the parts of a DSN that a password is added to."""
    with suppress(ValueError):
        url = urlsplit(dsn)
        if url.scheme and url.hostname and url.username and (url.port is None or url.port):
            return url
    msg = "password needs a DSN that is a URL with host and user; it is not shown here"
    remedy = "write postgresql://user@host:5432/database, special signs percent-coded"
    raise ConfigError(msg, where=_WHERE, remedy=remedy)


class ConnectConfig(Strict):
    """Kafka Connect's REST interface, asked for the connector's state when a table waits for it.

    Attributes:
        url: address of Kafka Connect's REST interface. Default: the local stack's, if it runs.
        connector: name of the connector. Default: the connectors whose ``topic.prefix`` begins the
            table's topic.
    """

    url: SecretUrl
    connector: str | None = Field(default=None, min_length=1)
