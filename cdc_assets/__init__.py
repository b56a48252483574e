"""Keeps Apache Iceberg tables equal to the tables of operational databases.

A Dagster project uses `Replication` (a component) or `build_definitions`, `Translator`, and
`when_changed` for assets that depend on replicated tables. `consistent` reads all tables of a
source as of one of its commits. They are imported at their first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cdc_assets.component import (
        Replication,
        TableProps,
        Translator,
        build_definitions,
        when_changed,
    )
    from cdc_assets.lake.cuts import consistent

__all__ = [
    "Replication",
    "TableProps",
    "Translator",
    "build_definitions",
    "consistent",
    "when_changed",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    home = "cdc_assets.lake.cuts" if name == "consistent" else "cdc_assets.component"
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
