"""Configures the database behind a source.

Configures where Kafka Connect is asked for a source's connector.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from cdc_assets.config.secret import Secret, SecretUrl
from cdc_assets.config.strict import Strict, refuse

_KIND_ALIASES = {"postgresql": "postgres"}


def _kind(word: object) -> object:
    return _KIND_ALIASES.get(word, word) if isinstance(word, str) else word


DatabaseKind = Annotated[
    Literal["postgres", "mysql", "mariadb"],
    BeforeValidator(
        _kind, json_schema_input_type=Literal["postgres", "postgresql", "mysql", "mariadb"]
    ),
]


class DatabaseConfig(Strict):
    """The source database, for schemas, assessment, snapshots and verification.

    Attributes:
        kind: kind of database. ``mysql`` and ``mariadb`` are read alike.
        dsn: secret with the database's URL: ``postgresql://user:password@host:5432/database``, or
            the same with ``mysql://``.
        publication: PostgreSQL: the connector's ``publication.name``. Needed only if a table is in
            several publications that differ.
    """

    kind: DatabaseKind
    dsn: Secret
    publication: str | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _only_postgres_publishes(self) -> Self:
        if self.publication is not None and self.kind != "postgres":
            what = f"database.publication is PostgreSQL's; {self.kind} has none"
            raise refuse(what, "leave it out")
        return self


class ConnectConfig(Strict):
    """Kafka Connect's REST interface, asked for the connector's state when a table waits for it.

    Attributes:
        url: address of Kafka Connect's REST interface. Default: the local stack's, if it runs.
        connector: name of the connector. Default: the connectors whose ``topic.prefix`` begins the
            table's topic.
    """

    url: SecretUrl
    connector: str | None = Field(default=None, min_length=1)
