"""Reads the facts about a database's tables that a first configuration needs."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from cdc_assets.changes.names import TableName
from cdc_assets.config.database import DatabaseConfig
from cdc_assets.config.starter import StarterSource
from cdc_assets.databases.catalog import SourceCatalog, catalog_of
from cdc_assets.errors import CdcError

if TYPE_CHECKING:
    from cdc_assets.operate.starting import Found

USUAL_FORMAT: Final = "debezium-json"
"""The format of a source that has no topic yet."""


def asked(source: StarterSource) -> StarterSource:
    """Completes a source from its database: tables without a topic, without a key, and gone.

    If the database cannot be asked, only `StarterSource.unasked` is set, with the reason.
    """
    if not (source.kind and source.variable):
        return source
    if not os.environ.get(source.variable):
        return replace(source, unasked=f"${source.variable} is not set")
    database = DatabaseConfig.model_validate({"kind": source.kind, "dsn": {"env": source.variable}})
    try:
        return _told(source, catalog_of(database))
    except CdcError as error:
        where = f" [{error.where}]" if error.where else ""
        return replace(source, unasked=f"{error.what}{where}")


def without_topics(
    found: Found, wanted: Sequence[str], dsns: Mapping[str, str]
) -> tuple[StarterSource, ...]:
    """Returns named sources that have no topic yet; none unless exactly one database is given."""
    if len(dsns) != 1:
        return ()
    ((kind, variable),) = dsns.items()
    there = {each.name for each in found.sources}
    there |= {name for name in wanted if any(t.startswith(f"{name}.") for t in found.others)}
    return tuple(
        StarterSource(name, USUAL_FORMAT, (rf"{re.escape(name)}\..*",), (), kind, variable)
        for name in wanted
        if name not in there and name.isidentifier()
    )


def _told(source: StarterSource, catalog: SourceCatalog) -> StarterSource:
    names = {each.qualified: each for each in _names(source.name, catalog.listed())}
    captured = [names[each] for each in source.tables if each in names]
    tables = catalog.read(captured or names.values())
    keyless = (each.qualified for each, table in tables.items() if not table.primary_key)
    return replace(
        source,
        keyless=tuple(sorted(keyless)),
        uncaptured=tuple(each for each in names if each not in source.tables),
        gone=tuple(each for each in source.tables if each not in names),
    )


def _names(source: str, listed: Sequence[tuple[str, str]]) -> list[TableName]:
    return [TableName(source, schema, name) for schema, name in listed]
