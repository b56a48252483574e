"""Reads secrets from environment variables when they are needed; only their names are stored."""

from __future__ import annotations

import os
import re
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, model_validator

from cdc_assets.config.strict import as_mapping, refuse
from cdc_assets.errors import UnsetVariableError

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECRET_NAME = re.compile(
    r"passw|passphrase|secret|credential|token(?!.*(url|endpoint|server))|access[-_.]?key"
    r"|\.key\.pem|private[-_.]?key|sas[-_.]?key|account[-_.]?key|jaas",
    re.IGNORECASE,
)

_NUMERIC_SECRET = re.compile(
    r"(passw(or)?d|passphrase|secret|credentials?|token|key|key[-_.]?id|jaas)$", re.IGNORECASE
)
"""How the names of secrets end: ``token.refresh-window-ms`` is none, and takes a number."""


class Secret(BaseModel):
    """``{env: NAME}``: the only form of a secret. Neither `repr` nor errors show its value."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)

    env: str

    @model_validator(mode="before")
    @classmethod
    def _only_a_variable(cls, data: object) -> object:
        if isinstance(data, Secret):
            return {"env": data.env}
        name = as_mapping(data).get("env") if _is_env(data) else None
        if not isinstance(name, str) or not _VARIABLE.fullmatch(name):
            what = "a secret must name an environment variable; its value is not shown here"
            remedy = "write {env: NAME}, and put the value into that variable"
            raise refuse(what, remedy)
        return data

    def reveal(self) -> str:
        """Returns the value, read from the environment now.

        Raises:
            UnsetVariableError: if the variable is not set or empty.
        """
        value = os.environ.get(self.env, "")
        if not value:
            msg = f"environment variable {self.env} is not set"
            raise UnsetVariableError(msg, remedy=f"export {self.env}=… before starting")
        return value

    def __repr__(self) -> str:
        return f"Secret(env={self.env})"

    __str__ = __repr__


def reveal(value: str | Secret) -> str:
    """Returns the text of a property that may be a secret."""
    return value.reveal() if isinstance(value, Secret) else value


def looks_secret(name: str) -> bool:
    """Returns whether a property of this name usually holds a secret (``sasl.password``, …)."""
    return bool(_SECRET_NAME.search(name))


def _is_env(data: object) -> bool:
    return set(as_mapping(data)) == {"env"}


def _property_value(data: object) -> object:
    """Converts YAML's numbers and booleans where clients expect text."""
    if isinstance(data, bool):
        return str(data).lower()
    if isinstance(data, int | float):
        return str(data)
    if isinstance(data, str | Secret):
        return data
    return Secret.model_validate(data) if _is_env(data) else _refuse_property()


def _refuse_property() -> object:
    what = "must be text, a number, a boolean or {env: NAME}"
    raise refuse(what)


def _refuse_plain_secrets(data: object) -> object:
    """Refuses plain secrets in the raw mapping, before the values are parsed."""
    for name, value in as_mapping(data).items():
        if looks_secret(str(name)) and _is_plain(str(name), value):
            what = f"{name} holds a secret in plain text; its value is not shown here"
            remedy = f"write {name}: {{env: NAME}}, and put the value into that variable"
            raise refuse(what, remedy)
    return data


def _is_plain(name: str, value: object) -> bool:
    """Returns whether a value may be a secret: YAML reads digits alone as a number."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return bool(_NUMERIC_SECRET.search(name))
    return isinstance(value, str)


def _refuse_password_in_url(data: object) -> object:
    if isinstance(data, str) and _password_of(data):
        what = "the URL holds a password in plain text; it is not shown here"
        remedy = "put the whole URL into an environment variable and write {env: NAME}"
        raise refuse(what, remedy)
    return data


def _password_of(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return bool(parts.password) or any(
            looks_secret(pair.partition("=")[0]) for pair in re.split("[&;]", parts.query) if pair
        )
    except ValueError:
        return True


PropertyValue = Annotated[str | Secret, BeforeValidator(_property_value)]
Properties = Annotated[dict[str, PropertyValue], BeforeValidator(_refuse_plain_secrets)]
"""Free properties of a client; those whose names look secret must be ``{env: NAME}``."""

Url = Annotated[str, BeforeValidator(_refuse_password_in_url)]
"""A path or URL without a password in it."""

SecretUrl = Annotated[str | Secret, BeforeValidator(_refuse_password_in_url)]
"""A URL without a password, or ``{env: NAME}`` for one with a password."""
