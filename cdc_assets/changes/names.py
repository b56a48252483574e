"""Names of tables at the source and in the lake.

Maps names of source tables to names in the lake: unchanged where harmless, else a substitute.

Sources allow nearly anything in a name: dots, slashes, quotes, line ends, a thousand letters.
Catalogs turn names into folders, tools split them at dots, and some ignore case. So a name is kept
if it consists of letters, digits, ``_`` and ``-`` of any script (in Unicode's composed form, NFC)
and has at most 110 bytes as UTF-8. Otherwise other characters become ``_``, the result is cut if it
is too long, and twelve hexadecimal digits of the SHA-256 of the whole name follow, so that
different names stay different. Even so, the registry refuses two tables that would share a name.

110 bytes leave room in a folder's 255 for the names of side tables, which join namespace and name.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote_plus

from cdc_assets.errors import printable

HELPERS: Final = "_cdc_assets_"
"""Prefix of helper columns that statements add to a table's; refused in a source's column names."""

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
    """The source table of a row, where several share a lake table: part of the key."""

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


CUTS_NAMESPACE: Final = "cdc_assets_consistent"


def cuts_name(source: str) -> LakeName:
    """Returns the table of a source's cuts."""
    return LakeName(CUTS_NAMESPACE, source)


MOST_BYTES: Final = 110
_MOST_ENCODED: Final = 180
"""Most bytes of an encoded partition value: a column name and ``=`` precede it in a folder name."""
_PLAIN: Final = re.compile(r"\w[\w-]*")
_OTHER: Final = re.compile(r"[^\w-]")
_OURS: Final = re.compile(
    r"cdc_assets_(tombstones|quarantine)|.*__rebuild[0-9]+", re.IGNORECASE | re.DOTALL
)
"""Our own namespaces, and the shadow tables of rebuilds."""


def stored_as(name: str) -> str:
    """Returns a namespace or table name in the spelling that the lake and Dagster store."""
    is_composed = unicodedata.is_normalized("NFC", name)
    if _PLAIN.fullmatch(name) and is_composed and _fits(name) and not _OURS.fullmatch(name):
        return name
    readable = _OTHER.sub("_", unicodedata.normalize("NFC", name)).lstrip("-")
    room = MOST_BYTES - DIGEST_DIGITS - 1
    return f"{readable.encode()[:room].decode('utf-8', 'ignore')}_{digest_of(name)}"


def stored_lake_name(namespace: str, name: str) -> LakeName:
    """Returns a lake name with both parts in their stored spelling."""
    return LakeName(stored_as(namespace), stored_as(name))


def stored_value(text: str) -> str:
    """Returns a value that can name a folder, as Iceberg's partitions do: percent-encoded.

    The value is unchanged if it is not empty and short enough when encoded; otherwise it is cut
    and followed by its hash.
    """
    if text and len(quote_plus(text, errors="surrogatepass")) <= _MOST_ENCODED:
        return text
    kept = text[:_MOST_ENCODED]
    while len(quote_plus(kept, errors="surrogatepass")) > _MOST_ENCODED - DIGEST_DIGITS - 1:
        kept = kept[: len(kept) - 1]
    return f"{kept}_{digest_of(text)}"


def stored_parts(table: TableName) -> tuple[str, str, str]:
    """Returns a table's source, schema and name, each harmless on its own."""
    return table.source, stored_as(table.schema), stored_as(table.name)


def _fits(name: str) -> bool:
    return len(name.encode()) <= MOST_BYTES
