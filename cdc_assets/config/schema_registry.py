"""Configures the registry of the schemas of a source's Avro records."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, cast
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from cdc_assets.config.paths import absolute_path
from cdc_assets.config.secret import Secret, SecretUrl, Url
from cdc_assets.config.strict import Strict, refuse


def _as_list(given: object) -> object:
    """Allows one URL without brackets."""
    return cast("object", given) if isinstance(given, list | tuple) else [given]


File = Annotated[Path, Field(strict=False)]
Text = Annotated[str, Field(pattern="^[!-~]([ -~]*[!-~])?$")]
"""Characters that a header may hold."""

Urls = Annotated[
    tuple[SecretUrl, ...],
    BeforeValidator(_as_list, json_schema_input_type=SecretUrl | list[SecretUrl]),
    Field(strict=False, min_length=1),
]


class OAuthConfig(Strict):
    """Login by OAuth: the client's credentials buy tokens that are sent to the registry.

    Attributes:
        token_url: URL that issues tokens (RFC 6749, 4.4). A token is renewed after 80 % of its
            validity.
        client_id: the client's name there, sent by basic authentication.
        client_secret: the client's secret there.
        scope: scopes of the tokens, separated by spaces.
        ca_file: PEM file of the authorities that sign the endpoint's certificate. Default: the
            system's.
        logical_cluster: Confluent Cloud: ``lsrc-…``, sent with each token.
        identity_pool: Confluent Cloud: ``pool-…``, sent with each token.
    """

    token_url: Url
    client_id: Text
    client_secret: Secret
    scope: Text | None = None
    ca_file: File | None = None
    logical_cluster: Text | None = None
    identity_pool: Text | None = None

    @field_validator("token_url")
    @classmethod
    def _http(cls, url: str) -> str:
        return _require_http(url, "for example https://login.example/oauth2/token")

    @field_validator("ca_file")
    @classmethod
    def _absolute(cls, file: Path | None, info: ValidationInfo) -> Path | None:
        return None if file is None else absolute_path(file, info)


class SchemaRegistryConfig(Strict):
    """Access to the registry; several URLs are tried in turn.

    Attributes:
        url: address of the registry, or a list that is tried in turn. Not needed with ``api:
            glue``.
        api: ``confluent``: Confluent, Karapace, Redpanda, Apicurio's ``/apis/ccompat/v7``.
            ``apicurio``: ``/apis/registry/v3``. ``glue``: AWS Glue.
        region: AWS's region of ``glue``. Default: the environment's.
        ids: Apicurio: kind of the ids before the data, as in the converter's
            ``apicurio.registry.use-id``. Required there.
        username: user or API key for basic authentication.
        password: password or API secret for basic authentication.
        token: bearer token, instead of user and password.
        oauth: login by OAuth, instead of user and token.
        ca_file: PEM file of the authorities that sign the registry's certificate. Default: the
            system's.
        certificate_file: PEM file of the client's certificate.
        key_file: PEM file of the client's key, unless ``certificate_file`` holds the key.
        timeout_seconds: seconds for connecting, and again for the reply. Failed requests are
            repeated.
    """

    url: Urls | None = None
    api: Literal["confluent", "apicurio", "glue"] = "confluent"
    region: str | None = Field(default=None, min_length=1)
    ids: Literal["content", "global"] | None = None
    username: str | None = Field(default=None, min_length=1)
    password: Secret | None = None
    token: Secret | None = None
    oauth: OAuthConfig | None = None
    ca_file: File | None = None
    certificate_file: File | None = None
    key_file: File | None = None
    timeout_seconds: float = Field(default=10, gt=0, le=300)

    @field_validator("url")
    @classmethod
    def _http(cls, urls: tuple[str | Secret, ...] | None) -> tuple[str | Secret, ...] | None:
        for url in urls or ():
            if isinstance(url, str):
                _require_http(url, "for example http://127.0.0.1:8081")
        return urls

    @field_validator("ca_file", "certificate_file", "key_file")
    @classmethod
    def _absolute(cls, file: Path | None, info: ValidationInfo) -> Path | None:
        return None if file is None else absolute_path(file, info)

    @model_validator(mode="after")
    def _goes_together(self) -> SchemaRegistryConfig:
        if not self.url and self.api != "glue":
            what = "url is missing"
            raise refuse(what, "add it")
        if self.region is not None and self.api != "glue":
            what = "region is of api: glue"
            raise refuse(what, "leave it out, or set api: glue")
        logins = (self.username, self.token, self.oauth, self.certificate_file)
        if self.api == "glue" and any(each is not None for each in logins):
            what = "api: glue logs in by AWS's credentials, and by nothing else"
            raise refuse(what, "leave username, token, oauth and certificate_file out")
        if (self.username is None) != (self.password is None):
            what = "username and password go together"
            raise refuse(what, "give both; password: {env: NAME}")
        if self.username is not None and self.token is not None:
            what = "username and token exclude each other"
            raise refuse(what, "keep the one that the registry asks for")
        if self.oauth is not None and (self.username is not None or self.token is not None):
            what = "oauth excludes username and token"
            raise refuse(what, "keep the one that the registry asks for")
        if self.key_file is not None and self.certificate_file is None:
            what = "key_file needs certificate_file"
            raise refuse(what, "name the file of the client's certificate too")
        if self.ids is not None and self.api != "apicurio":
            what = "ids is of api: apicurio"
            raise refuse(what, "leave it out: Confluent's API has ids of one kind")
        return self

    @property
    def urls(self) -> tuple[str | Secret, ...]:
        """Its URLs; none for Glue, unless it has an endpoint of one's own."""
        return self.url or ()


def _require_http(url: str, remedy: str) -> str:
    if not is_http(url):
        what = "is not an http:// or https:// URL"
        raise refuse(what, remedy)
    return url


def is_http(url: str) -> bool:
    """Returns whether it is the URL of an HTTP server, without query or fragment."""
    try:
        parts = urlsplit(url)
        return (
            parts.scheme in {"http", "https"}
            and bool(parts.hostname)
            and not (parts.query or parts.fragment)
            and parts.port != 0
        )
    except ValueError:
        return False
