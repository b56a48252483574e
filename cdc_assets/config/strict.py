"""The base of every part of the tree: frozen, strictly typed, helpful about unknown keys."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, ValidationInfo, model_validator
from pydantic_core import PydanticCustomError

UNKNOWN_KEY = "unknown_key"
"""Error type of a key that the tree does not have; its context names the key."""

REFUSED = "refused"
"""Error type of a value that a validator of this package refused; the message is its own."""

BASE_DIRECTORY = "base_directory"
"""Key of the validation context: the folder against which relative paths resolve."""


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Returns the known word closest in spelling, if any is close."""
    by_lower = {each.lower(): each for each in known}
    found = get_close_matches(word.lower(), list(by_lower), n=1, cutoff=0.6)
    return by_lower[found[0]] if found else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Returns the remedy for a word that is not among the known ones. Does not repeat the word."""
    choices = sorted(known)
    close = nearest(word, choices)
    return f"did you mean {close!r}?" if close else f"known: {', '.join(choices)}"


def refuse(what: str, remedy: str = "") -> PydanticCustomError:
    """Returns an error for a validator to raise. Neither text may contain the refused value."""
    return PydanticCustomError(REFUSED, "{what}", {"what": what, "remedy": remedy})


def require_pattern(pattern: str, remedy: str) -> None:
    """Refuses text that is not a regular expression.

    Raises:
        PydanticCustomError: if it is not one.
    """
    try:
        re.compile(pattern)
    except re.error as error:
        what = f"{pattern!r} is not a regular expression: {error}"
        raise refuse(what, remedy) from error


def as_mapping(data: object) -> Mapping[object, object]:
    """Returns the data if it is a mapping, else an empty one: pydantic reports the wrong type."""
    return cast("Mapping[object, object]", data) if isinstance(data, Mapping) else {}


def base_directory(info: ValidationInfo) -> Path:
    """Returns the configuration file's folder, or the working directory if there is no file."""
    context = cast("Mapping[str, Any] | None", info.context) or {}
    return Path(context.get(BASE_DIRECTORY, Path.cwd())).absolute()


_FIELDS = re.compile(r"    ((?:\w+, )*\w+): *(.*)")
"""Begins the description of one or several attributes in a docstring."""


def _described(schema: dict[str, Any], model: type[BaseModel]) -> None:
    """Describes the fields in a class's JSON Schema, as its docstring does."""
    summary, _, section = (inspect.getdoc(model) or "").partition("\n\nAttributes:\n")
    schema["description"], names = summary, tuple[str, ...]()
    fields = cast("dict[str, dict[str, str]]", schema.get("properties", {}))
    for line in section.splitlines():
        if begins := _FIELDS.fullmatch(line):
            names, text = tuple(begins[1].split(", ")), begins[2]
        else:
            text = line.strip()
        for field in (fields[name] for name in names if text and name in fields):
            field["description"] = f"{field.get('description', '')} {text}".strip()


class Strict(BaseModel):
    """A mapping whose keys are exactly the fields of the class."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        hide_input_in_errors=True,
        validate_default=True,
        json_schema_extra=_described,
    )

    @model_validator(mode="before")
    @classmethod
    def _name_unknown_key(cls, data: object) -> object:
        for key in as_mapping(data):
            if key not in cls.model_fields:
                remedy = did_you_mean(str(key), cls.model_fields)
                context = {"key": str(key), "remedy": remedy}
                raise PydanticCustomError(UNKNOWN_KEY, "unknown key", context)
        return data
