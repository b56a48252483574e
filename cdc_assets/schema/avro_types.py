"""Avro's types as trees, as `cdc_assets.schema.avro_parse` builds them from a schema's JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cdc_assets.errors import TerminalError

Props = Mapping[str, object]
"""A schema's attributes, its structure apart: ``logicalType``, ``connect.name``, ``doc``, …."""


class AvroSchemaError(TerminalError):
    """A schema is not Avro's, or its records cannot be read; names the place in the schema."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """A primitive type."""

    type: str
    props: Props


@dataclass(frozen=True, slots=True)
class Array:
    """A list."""

    items: AvroType
    props: Props


@dataclass(frozen=True, slots=True)
class MapOf:
    """A map from text."""

    values: AvroType
    props: Props


@dataclass(frozen=True, slots=True)
class Union:
    """One of several types, none of them a union."""

    branches: tuple[AvroType, ...]

    @property
    def is_optional(self) -> bool:
        """Whether a value may be missing."""
        return any(is_null(each) for each in self.branches)

    @property
    def values(self) -> tuple[AvroType, ...]:
        """The branches that are not ``null``."""
        return tuple(each for each in self.branches if not is_null(each))


@dataclass(frozen=True, slots=True)
class Fixed:
    """A fixed number of bytes."""

    name: str
    size: int
    props: Props


@dataclass(frozen=True, slots=True)
class Enumeration:
    """One of several symbols."""

    name: str
    symbols: tuple[str, ...]
    props: Props


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a record."""

    name: str
    type: AvroType
    props: Props


@dataclass(frozen=True, slots=True)
class Record:
    """A struct."""

    name: str
    fields: tuple[Field, ...]
    props: Props


@dataclass(frozen=True, slots=True)
class Mention:
    """A named type by its full name."""

    name: str


Named = Record | Enumeration | Fixed
AvroType = Scalar | Array | MapOf | Union | Mention
"""A type within a tree; named types are in `AvroSchema.named` only."""

Resolved = Scalar | Array | MapOf | Union | Named


@dataclass(frozen=True, slots=True)
class AvroSchema:
    """A schema and the named types in it.

    Attributes:
        root: the type of a record's bytes.
        named: each named type by its full name, including those of referenced schemas.
        recursive: names of the records that contain themselves.
    """

    root: AvroType
    named: Mapping[str, Named]
    recursive: frozenset[str]

    def resolved(self, node: AvroType) -> Resolved:
        """Returns the type itself, or the named type that a mention refers to."""
        return self.named[node.name] if isinstance(node, Mention) else node


def is_null(node: AvroType) -> bool:
    """Whether a node is the null type."""
    return isinstance(node, Scalar) and node.type == "null"


def fault(place: str, what: str, remedy: str = "") -> AvroSchemaError:
    """Returns the error for a place in a schema; ``what`` continues after "the Avro type"."""
    default = "look at the schema in the registry: did Kafka Connect write it?"
    where = f"field={shortened(place)}"
    return AvroSchemaError(f"the Avro type {what}", where=where, remedy=remedy or default)


def shortened(text: object) -> str:
    """Returns the beginning of a text, which may be long; for any other value, its type."""
    shown = text if isinstance(text, str) else type(text).__name__
    return shown if len(shown) <= 80 else f"{shown[:79]}…"
