"""Reads secrets from environment variables or files when they are needed.

Only the names of these are stored. A mounted file may be replaced while the process runs.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated, Any, Self
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


TEMPLATE = re.compile(r"\{\{ *env\.([A-Za-z_][A-Za-z0-9_]*) *\}\}")
"""``{{ env.NAME }}``, as in Dagster's ``defs.yaml``."""


class Variable(str):
    """The text of an environment variable; empty if it is not set.

    Attributes:
        name: of the variable.
        is_secret: whether a `Secret` has taken the name: then the text is read when it is needed.
    """

    name: str
    is_secret: bool

    def __new__(cls, name: str) -> Self:
        """Reads the variable."""
        made = super().__new__(cls, os.environ.get(name, ""))
        made.name, made.is_secret = name, False
        return made


def _or_template(schema: dict[str, Any]) -> None:
    """Allows ``{{ env.NAME }}`` in the JSON Schema of a secret."""
    mapping = {name: schema.pop(name) for name in [*schema] if name != "title"}
    schema["anyOf"] = [mapping, {"type": "string", "pattern": TEMPLATE.pattern}]


class Secret(BaseModel):
    """``{env: NAME}`` or ``{file: PATH}``. Neither `repr` nor errors show its value.

    The path is absolute. A line end after the value is no part of it.
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        hide_input_in_errors=True,
        json_schema_extra=_or_template,
    )

    env: str = ""
    file: str = ""

    @model_validator(mode="before")
    @classmethod
    def _only_its_place(cls, data: object) -> object:
        if isinstance(data, Secret):
            return {"env": data.env, "file": data.file}
        if isinstance(data, Variable):
            data.is_secret = True
            return {"env": data.name}
        if not _names_place(data):
            what = "a secret must name an environment variable or a file; it is not shown here"
            remedy = "write {env: NAME} or {file: /PATH}, and put the value there"
            raise refuse(what, remedy)
        return data

    @property
    def place(self) -> str:
        """The variable or file that holds it."""
        return f"file {self.file}" if self.file else f"environment variable {self.env}"

    def reveal(self) -> str:
        """Returns the value, read now.

        Raises:
            UnsetVariableError: if the variable is not set or empty, or the file cannot be read.
        """
        if not self.file:
            if value := os.environ.get(self.env, ""):
                return value
            msg, remedy = f"{self.place} is not set", f"export {self.env}=… before starting"
            raise UnsetVariableError(msg, remedy=remedy)
        try:
            value, why = Path(self.file).read_bytes().decode(), "is empty"
        except (OSError, ValueError) as error:
            value, why = "", f"cannot be read ({type(error).__name__})"
        if value := value.removesuffix("\n").removesuffix("\r"):
            return value
        msg = f"{self.place} of a secret {why}"
        raise UnsetVariableError(msg, remedy="write the secret into it, readable for this process")

    def __repr__(self) -> str:
        return f"Secret({self.place})"

    __str__ = __repr__


def reveal(value: str | Secret) -> str:
    """Returns the text of a property that may be a secret."""
    return value.reveal() if isinstance(value, Secret) else value


def looks_secret(name: str) -> bool:
    """Returns whether a property of this name usually holds a secret (``sasl.password``, …)."""
    return bool(_SECRET_NAME.search(name))


def _has_form(data: object) -> bool:
    return set(as_mapping(data)) in ({"env"}, {"file"})


def _names_place(data: object) -> bool:
    if not _has_form(data):
        return False
    ((form, name),) = as_mapping(data).items()
    if not isinstance(name, str):
        return False
    return bool(_VARIABLE.fullmatch(name)) if form == "env" else Path(name).is_absolute()


def _property_value(data: object) -> object:
    """Converts YAML's numbers and booleans where clients expect text."""
    if isinstance(data, bool):
        return str(data).lower()
    if isinstance(data, int | float):
        return str(data)
    if isinstance(data, Variable):
        return Secret.model_validate(data)
    if isinstance(data, str | Secret):
        return data
    return Secret.model_validate(data) if _has_form(data) else _refuse_property()


def _refuse_property() -> object:
    what = "must be text, a number, a boolean, {env: NAME} or {file: /PATH}"
    raise refuse(what)


def _refuse_plain_secrets(data: object) -> object:
    """Refuses plain secrets in the raw mapping, before the values are parsed."""
    for name, value in as_mapping(data).items():
        if looks_secret(str(name)) and _is_plain(str(name), value):
            what = f"{name} holds a secret in plain text; its value is not shown here"
            remedy = f"write {name}: {{env: NAME}} or {{file: /PATH}}, and put the value there"
            raise refuse(what, remedy)
    return data


def _is_plain(name: str, value: object) -> bool:
    """Returns whether a value may be a secret: YAML reads digits alone as a number."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return bool(_NUMERIC_SECRET.search(name))
    return isinstance(value, str) and not isinstance(value, Variable)


def _secret_url(data: object) -> object:
    return (
        Secret.model_validate(data) if isinstance(data, Variable) else _refuse_password_in_url(data)
    )


def _refuse_password_in_url(data: object) -> object:
    if isinstance(data, str) and _password_of(data):
        what = "the URL holds a password in plain text; it is not shown here"
        remedy = (
            "put the whole URL into an environment variable or a file: {env: NAME}, {file: /PATH}"
        )
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


PropertyValue = Annotated[
    str | Secret,
    BeforeValidator(_property_value, json_schema_input_type=str | float | bool | Secret),
]
Properties = Annotated[dict[str, PropertyValue], BeforeValidator(_refuse_plain_secrets)]
"""Free properties of a client; those whose names look secret must be secrets."""

Url = Annotated[str, BeforeValidator(_refuse_password_in_url)]
"""A path or URL without a password in it."""

SecretUrl = Annotated[str | Secret, BeforeValidator(_secret_url)]
"""A URL without a password, or a `Secret` for one with a password."""
