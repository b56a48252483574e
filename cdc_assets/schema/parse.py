"""Parses type names as people write them in the configuration: ``decimal(12,2)``, ``text[]``.

The words are SQL's and Iceberg's: ``timestamp`` has no zone and ``timestamptz`` has one.
(Spark's DDL, which `Primitive` spells, says ``timestamp_ntz`` and ``timestamp``.)
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import assert_never

from cdc_assets.errors import TerminalError
from cdc_assets.schema.types import (
    MAX_DECIMAL_DIGITS,
    ColumnType,
    Decimal,
    ListOf,
    Primitive,
    StructOf,
)

_WORDS: dict[Primitive, tuple[str, ...]] = {
    Primitive.BOOLEAN: ("boolean", "bool"),
    Primitive.INT: ("int", "integer", "int4", "smallint", "int2"),
    Primitive.LONG: ("bigint", "long", "int8"),
    Primitive.FLOAT: ("float", "real", "float4"),
    Primitive.DOUBLE: ("double", "double precision", "float8"),
    Primitive.STRING: ("string", "text", "varchar", "char", "uuid", "json", "jsonb"),
    Primitive.BINARY: ("binary", "bytea"),
    Primitive.DATE: ("date",),
    Primitive.TIMESTAMP: ("timestamp", "timestamp_ntz", "timestamp without time zone"),
    Primitive.TIMESTAMPTZ: ("timestamptz", "timestamp_ltz", "timestamp with time zone"),
}
_BY_WORD = {word: type_ for type_, words in _WORDS.items() for word in words}
_SIZED = {Primitive.TIMESTAMP: 6, Primitive.TIMESTAMPTZ: 6}
_SHAPE = re.compile(
    r"(?P<word>[a-z_0-9](?:[a-z_0-9 ]*[a-z_0-9])?) *(?:\((?P<arguments>[\d, ]+)\))?"
)
_LIST = re.compile(r"(?:list|array) *<(?P<inner>.*)>|(?P<suffixed>.*)\[\]")
_STRUCT = re.compile(r"struct *<(?P<fields>.*)>")


@dataclass(frozen=True, slots=True)
class TypeSpec:
    """A type and, for timestamps, the digits after the second (None if not given)."""

    type: ColumnType
    precision: int | None = None


def parse_type(text: str) -> ColumnType:
    """Returns the type that a text names.

    Raises:
        TerminalError: if it names none; suggests the nearest match.
    """
    return parse_spec(text).type


def parse_spec(text: str) -> TypeSpec:
    """Returns the type that a text names, with the precision of a timestamp.

    Raises:
        TerminalError: if it names none; suggests the nearest match.
    """
    wanted = " ".join(text.lower().split())
    if struct := _STRUCT.fullmatch(wanted):
        return TypeSpec(_struct(struct["fields"], text))
    listed = _LIST.fullmatch(wanted)
    if listed is None:
        return _scalar(wanted, text)
    inner = _scalar((listed["inner"] or listed["suffixed"] or "").strip(), text)
    if isinstance(inner.type, ListOf | StructOf):
        raise _unknown(text, "lists of lists are not supported")
    return TypeSpec(ListOf(inner.type), inner.precision)


def type_text(type_: ColumnType) -> str:
    """Returns the text that `parse_type` reads back as this type."""
    match type_:
        case Decimal(precision, scale):
            return f"decimal({precision},{scale})"
        case ListOf(element):
            return f"{type_text(element)}[]"
        case StructOf(fields):
            return f"struct<{', '.join(f'{name}: {type_text(each)}' for name, each in fields)}>"
        case Primitive():
            return _WORDS[type_][0]
        case _:
            assert_never(type_)


def _struct(fields: str, text: str) -> StructOf:
    found: list[tuple[str, Primitive]] = []
    for part in fields.split(","):
        name, _, type_ = (each.strip() for each in part.partition(":"))
        inner = _BY_WORD.get(type_)
        if inner is None or not name.isidentifier():
            raise _unknown(text, "for example struct<x: double, y: double>")
        found.append((name, inner))
    return StructOf(tuple(found))


def _scalar(wanted: str, text: str) -> TypeSpec:
    shape = _SHAPE.fullmatch(wanted)
    if shape is None:
        raise _unknown(text, "for example decimal(12,2), bigint, timestamptz or text[]")
    word, arguments = shape["word"], _numbers(shape["arguments"], text)
    if word in {"decimal", "numeric"}:
        return TypeSpec(_decimal(arguments, text))
    if word not in _BY_WORD:
        close = get_close_matches(word, [*_BY_WORD, "decimal", "numeric"], n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(sorted(_BY_WORD))}"
        raise _unknown(text, hint)
    return _sized(_BY_WORD[word], word, arguments, text)


def _sized(type_: Primitive, word: str, arguments: tuple[int, ...], text: str) -> TypeSpec:
    if not arguments or word in {"varchar", "char"}:
        return TypeSpec(type_)
    if type_ not in _SIZED or len(arguments) > 1 or max(arguments) > _SIZED[type_]:
        raise _unknown(text, f"{word} takes {'0 to 6 digits' if type_ in _SIZED else 'no number'}")
    return TypeSpec(type_, max(arguments))


def _decimal(arguments: tuple[int, ...], text: str) -> Decimal:
    match arguments:
        case (precision, scale):
            pass
        case (precision,):
            scale = 0
        case _:
            raise _unknown(text, "a decimal needs its digits: decimal(precision,scale)")
    if not (1 <= precision <= MAX_DECIMAL_DIGITS and scale <= precision):
        raise _unknown(text, f"precision is 1 to {MAX_DECIMAL_DIGITS}, scale 0 to the precision")
    return Decimal(precision, scale)


def _numbers(arguments: str | None, text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in arguments.split(",")] if arguments else []
    if not all(part.isdecimal() and part.isascii() and len(part) < 10 for part in parts):
        raise _unknown(text, "write the numbers as in decimal(12,2)")
    return tuple(int(part) for part in parts)


def _unknown(text: str, remedy: str) -> TerminalError:
    return TerminalError(f"{text!r} is not a column type", remedy=remedy)
