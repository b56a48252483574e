"""Fetches secrets when they are needed: from variables, files, commands and Python functions.

Only the places are stored. A mounted file may be replaced while the process runs, so that it is
read at each login. What a command or a function has returned is used again for a while, until a
login is refused.
"""

from __future__ import annotations

import os
import re
import subprocess
import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final, Self, cast
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from cdc_assets.config.strict import as_mapping, refuse
from cdc_assets.errors import LoginRefusedError, UnreachableError, UnsetVariableError

COMMAND_SECONDS: Final = 30.0
"""How long a command may take."""

LEAST_SECONDS: Final = 10.0
"""How long a fetched secret is used at least, whatever is refused: a login that stays refused does
not call the command with each attempt."""

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
HOOK: Final = r"[A-Za-z_][\w.]*:[A-Za-z_]\w*"
"""The form of the name of a function: ``module:function``."""

_FORMS = "{env: NAME}, {file: /PATH}, {command: [PROGRAM, …]} or {hook: 'module:function'}"
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
    """The place of a secret: one of four. Neither `repr` nor errors show its value.

    Attributes:
        env: an environment variable.
        file: an absolute path. A line end after the value is no part of it.
        command: a program and its arguments, run without a shell; the secret is its output, without
            white space around it.
        hook: ``module:function`` in Python, which is called without arguments and returns the text.
        keep_seconds: how long the value of a command or a function is used again.
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
    command: Annotated[tuple[str, ...], Field(strict=False)] = ()
    hook: str = ""
    keep_seconds: float = Field(default=300, ge=0, le=86_400)

    @model_validator(mode="before")
    @classmethod
    def _only_its_place(cls, data: object) -> object:
        if isinstance(data, Secret):
            return data.model_dump()
        if isinstance(data, Variable):
            data.is_secret = True
            return {"env": data.name}
        if not _names_place(data):
            what = "a secret must name its place; it is not shown here"
            remedy = f"write {_FORMS}, and put the value there"
            raise refuse(what, remedy)
        return data

    @property
    def place(self) -> str:
        """The place that holds it, without the arguments of a command."""
        if self.command:
            return f"command {self.command[0]}"
        if self.hook:
            return f"function {self.hook}"
        return f"file {self.file}" if self.file else f"environment variable {self.env}"

    def reveal(self) -> str:
        """Returns the value: read now, or fetched a while ago by a command or a function.

        Raises:
            UnsetVariableError: if the variable is not set or empty, the file cannot be read, or the
                command or function does not exist.
            UnreachableError: if the command or function fails.
        """
        if self.command:
            key = ("command", *self.command)
            return FETCHED.get(key, self.keep_seconds, self._output)
        if self.hook:
            return FETCHED.get(("hook", self.hook), self.keep_seconds, self._returned)
        return self._content() if self.file else self._variable()

    def _variable(self) -> str:
        if value := os.environ.get(self.env, ""):
            return value
        msg, remedy = f"{self.place} is not set", f"export {self.env}=… before starting"
        raise UnsetVariableError(msg, remedy=remedy)

    def _content(self) -> str:
        try:
            value, why = Path(self.file).read_bytes().decode(), "is empty"
        except (OSError, ValueError) as error:
            value, why = "", f"cannot be read ({type(error).__name__})"
        if value := value.removesuffix("\n").removesuffix("\r"):
            return value
        msg = f"{self.place} of a secret {why}"
        raise UnsetVariableError(msg, remedy="write the secret into it, readable for this process")

    def _output(self) -> str:
        """Runs the command. Its output and its errors may hold the secret, and are not repeated."""
        try:
            done = subprocess.run(
                self.command, check=False, capture_output=True, stdin=subprocess.DEVNULL,
                timeout=COMMAND_SECONDS,
            )  # fmt: skip
            value, why = done.stdout.decode().strip(), f"failed (exit code {done.returncode})"
        except subprocess.TimeoutExpired:
            why = f"took longer than {COMMAND_SECONDS:g} s"
            raise self._failed(why) from None
        except ValueError:
            why = "printed no text"
            raise self._failed(why) from None
        except OSError as error:
            msg = f"the {self.place} of a secret cannot be run ({type(error).__name__})"
            remedy = "check its path, and that this user may run it"
            raise UnsetVariableError(msg, remedy=remedy) from None
        if done.returncode or not value:
            raise self._failed(why if done.returncode else "printed nothing")
        return value

    def _returned(self) -> str:
        value = called(self.hook)
        if not isinstance(value, str) or not value:
            why = "returned no text"
            raise self._failed(why)
        return value

    def _failed(self, why: str) -> UnreachableError:
        msg = f"the {self.place} of a secret {why}"
        return UnreachableError(msg, remedy="run it by hand, as the user of this process")

    def __repr__(self) -> str:
        return f"Secret({self.place})"

    __str__ = __repr__


def called(hook: str) -> object:
    """Returns the result of a function of the operator's, ``module:function``.

    Raises:
        UnsetVariableError: if this process has no such function.
        UnreachableError: if the function fails; its text may hold a secret, and is not repeated.
    """
    module, _, name = hook.partition(":")
    try:
        function = cast("Callable[[], object]", getattr(import_module(module), name))
    except (ImportError, AttributeError) as error:
        msg = f"the function {hook} cannot be imported ({type(error).__name__})"
        remedy = "install its module where Dagster's code and the commands run"
        raise UnsetVariableError(msg, remedy=remedy) from None
    try:
        return function()
    except Exception as error:
        msg = f"the function {hook} failed ({type(error).__name__})"
        raise UnreachableError(msg, remedy="call it by hand in this environment") from None


@dataclass(frozen=True, slots=True)
class _Value:
    """A fetched secret, with its moment and the number of logins that were refused before."""

    text: str = field(repr=False)
    at: float
    refusals: int


@dataclass(frozen=True, slots=True)
class Fetched:
    """The fetched secrets of this process, in memory only. May be used from several threads."""

    _values: dict[Hashable, _Value] = field(default_factory=dict[Hashable, _Value], repr=False)
    _locks: dict[Hashable, threading.Lock] = field(
        default_factory=dict[Hashable, threading.Lock], repr=False
    )

    def get(self, key: Hashable, keep_seconds: float, fetch: Callable[[], str]) -> str:
        """Returns a secret; fetches it if it is older, or if a login was refused since.

        Args:
            key: of its place.
            keep_seconds: how long it is used again.
            fetch: gets it.
        """
        with self._locks.setdefault(key, threading.Lock()):
            known, now = self._values.get(key), time.monotonic()
            if known is not None:
                age, is_refused = now - known.at, known.refusals != LoginRefusedError.count
                if age < keep_seconds and (age < LEAST_SECONDS or not is_refused):
                    return known.text
            refusals = LoginRefusedError.count
            self._values[key] = made = _Value(fetch(), now, refusals)
            return made.text

    def forget(self) -> None:
        """Forgets all of them: the next login fetches them again."""
        self._values.clear()


FETCHED: Final = Fetched()


def reveal(value: str | Secret) -> str:
    """Returns the text of a property that may be a secret."""
    return value.reveal() if isinstance(value, Secret) else value


def looks_secret(name: str) -> bool:
    """Returns whether a property of this name usually holds a secret (``sasl.password``, …)."""
    return bool(_SECRET_NAME.search(name))


def _has_form(data: object) -> bool:
    form = set(as_mapping(data)) - {"keep_seconds"}
    return form in ({"env"}, {"file"}, {"command"}, {"hook"})


def _names_place(data: object) -> bool:
    if not _has_form(data):
        return False
    said = as_mapping(data)
    match next(form for form in said if form != "keep_seconds"), *said.values():
        case "env", str(name):
            return bool(_VARIABLE.fullmatch(name))
        case "file", str(name):
            return Path(name).is_absolute()
        case "hook", *_:
            hook = said["hook"]
            return isinstance(hook, str) and bool(re.fullmatch(HOOK, hook))
        case "command", *_:
            return _is_command(said["command"])
        case _:
            return False


def _is_command(given: object) -> bool:
    words = cast("list[object]", given) if isinstance(given, list | tuple) else []
    return bool(words) and all(isinstance(each, str) and each for each in words)


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
    what = f"must be text, a number, a boolean, or a secret's place: {_FORMS}"
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
