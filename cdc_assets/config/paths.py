"""Resolves relative paths in the configuration against the folder of its file."""

from __future__ import annotations

import re
from pathlib import Path

from pydantic import ValidationInfo

from cdc_assets.config.strict import base_directory

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_SQLITE = re.compile(r"(sqlite(?:\+\w+)?:///)(?!/)(.+)")


def absolute_path(path: Path, info: ValidationInfo) -> Path:
    """Returns the path resolved against the configuration's folder; ``~`` is the home directory."""
    return base_directory(info) / path.expanduser()


def absolute_url(text: str, info: ValidationInfo) -> str:
    """Returns a path as an absolute ``file://`` URL; keeps URLs.

    The path is not percent-coded: fsspec, PyIceberg and Hadoop take what follows ``file://`` as it
    is.
    """
    return text if _SCHEME.match(text) else f"file://{absolute_path(Path(text), info)}"


def absolute_sqlite(uri: str, info: ValidationInfo) -> str:
    """Turns ``sqlite:///relative.db`` into ``sqlite:////absolute.db``; keeps other URIs."""
    found = _SQLITE.fullmatch(uri)
    if found is None or found[2] == ":memory:":
        return uri
    return f"{found[1]}{absolute_path(Path(found[2]), info)}"
