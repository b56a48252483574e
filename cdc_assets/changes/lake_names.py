"""Maps names of source tables to names in the lake: unchanged where harmless, else a substitute.

Sources allow nearly anything in a name: dots, slashes, quotes, line ends, a thousand letters.
Catalogs turn names into folders, tools split them at dots, and some ignore case. So a name is kept
if it consists of letters, digits, ``_`` and ``-`` of any script (in Unicode's composed form, NFC)
and has at most 110 bytes as UTF-8. Otherwise other characters become ``_``, the result is cut if it
is too long, and twelve hexadecimal digits of the SHA-256 of the whole name follow, so that
different names stay different. Even so, the registry refuses two tables that would share a name.

110 bytes leave room in a folder's 255 for the names of side tables, which join namespace and name.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final
from urllib.parse import quote_plus

from cdc_assets.changes.names import DIGEST_DIGITS, LakeName, TableName, digest_of

MOST_BYTES: Final = 110
_MOST_ENCODED: Final = 180
"""Most bytes of an encoded partition value: a column name and ``=`` precede it in a folder name."""
_PLAIN: Final = re.compile(r"\w[\w-]*")
_OTHER: Final = re.compile(r"[^\w-]")
_OURS: Final = re.compile(
    r"cdc_assets_(tombstones|quarantine)|.*__rebuild[0-9]+", re.IGNORECASE | re.DOTALL
)
"""Namespaces of ours, and tables beside those that are being rebuilt."""


def stored_as(name: str) -> str:
    """Returns a namespace or table name as the lake and Dagster store it."""
    is_composed = unicodedata.is_normalized("NFC", name)
    if _PLAIN.fullmatch(name) and is_composed and _fits(name) and not _OURS.fullmatch(name):
        return name
    readable = _OTHER.sub("_", unicodedata.normalize("NFC", name)).lstrip("-")
    room = MOST_BYTES - DIGEST_DIGITS - 1
    return f"{readable.encode()[:room].decode('utf-8', 'ignore')}_{digest_of(name)}"


def stored_lake_name(namespace: str, name: str) -> LakeName:
    """Returns a lake name with both parts as they are stored."""
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
