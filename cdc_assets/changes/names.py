"""Names of tables at the source and in the lake."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

from cdc_assets.errors import printable

HELPERS: Final = "_cdc_assets_"
"""How columns begin that only statements have, beside the table's: no source may use such names."""

DIGEST_DIGITS: Final = 12


def digest_of(text: str) -> str:
    """Returns a short SHA-256 of any text, for names: `DIGEST_DIGITS` hexadecimal digits."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:DIGEST_DIGITS]


@dataclass(frozen=True, slots=True, order=True)
class TableName:
    """A source table: the source's configured name, its schema (or database) and its name.

    As text it has escapes for characters that are not printable; what it equals is as it is.
    """

    source: str
    schema: str
    name: str

    @property
    def qualified(self) -> str:
        """``schema.name``, as the configuration's ``tables:`` spells it."""
        return f"{self.schema}.{self.name}"

    def __str__(self) -> str:
        return printable(f"{self.source}.{self.schema}.{self.name}")


@dataclass(frozen=True, slots=True, order=True)
class Shard:
    """The table that a row belongs to where several are merged into one: a value in its key."""

    column: str
    value: str

    @property
    def digest(self) -> str:
        """A digest of the value, as a part of names."""
        return digest_of(self.value)


@dataclass(frozen=True, slots=True, order=True)
class LakeName:
    """An Iceberg table: one-level namespace and table name."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}.{self.name}"
