"""Defines ``cdc-assets dbt``, which prints the lake's tables as dbt's sources.

dagster-dbt gives a source's table the key ``[source, table]``, unless `meta.dagster.asset_key` says
otherwise. So the printed file names the asset of each table, whatever dbt's adapter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, Final

import click
import yaml

from cdc_assets.config import load_config
from cdc_assets.config.strict import did_you_mean
from cdc_assets.errors import ConfigError, TerminalError
from cdc_assets.operate.known_tables import replicated
from cdc_assets.orchestration.keys import default_key
from cdc_assets.registry import RegistryFile, TableEntry

_ABOUT: Final = "# Written by `cdc-assets dbt sources`; asset_key is the asset in Dagster.\n"
_KEY: Final = "{source}/{schema}/{table}"
_FIELDS: Final = ("source", "schema", "table", "namespace", "name")


@click.group("dbt")
def dbt() -> None:
    """What dbt needs to know of the lake's tables."""


@dbt.command("sources")
@click.option(
    "--asset-key",
    default=_KEY,
    show_default=True,
    help="How a translation has named the assets; also {namespace}, {name} of the lake's table.",
)
@click.option("--database", help="The catalog's name in dbt's engine; without it the target's.")
def sources(asset_key: str, database: str | None) -> None:
    """Print a sources.yml for dbt: a source for each namespace, with the keys of assets.

    The tables are those of the registry. Asks neither Kafka nor databases nor the catalog.
    """
    config = load_config()
    entries = replicated(config, RegistryFile(config.registry).load())
    if not entries:
        msg = "no table is known yet"
        raise TerminalError(msg, where=str(config.registry), remedy="cdc-assets replicate")
    said = document(entries, asset_key, database)
    click.echo(_ABOUT + yaml.safe_dump(said, sort_keys=False, default_flow_style=None), nl=False)


def document(
    entries: Iterable[TableEntry], asset_key: str = _KEY, database: str | None = None
) -> dict[str, Any]:
    """Returns the document of a ``sources.yml``.

    Args:
        entries: the tables.
        asset_key: the template of an asset's key, with ``/`` between its parts.
        database: of all sources; None for that of dbt's target.

    Raises:
        ConfigError: if the template names what a table does not have.
    """
    where = {"database": database} if database else {}
    found = sorted(entries, key=lambda each: (each.target.namespace, each.target.name, each.table))
    return {
        "version": 2,
        "sources": [
            {"name": namespace, **where, "schema": namespace, "tables": [*_tables(mine, asset_key)]}
            for namespace, mine in groupby(found, key=lambda each: each.target.namespace)
        ],
    }


def _tables(entries: Iterable[TableEntry], asset_key: str) -> Iterator[dict[str, Any]]:
    """Yields a source's table for each asset, as dbt knows one key of a table.

    Of several tables that are merged into one, all but the first have names of their own.
    """
    seen = set[str]()
    for entry in entries:
        key, name = _key(entry, asset_key), entry.target.name
        other = {"name": "__".join((name, *key)), "identifier": name}
        named = other if name in seen else {"name": name}
        seen.add(name)
        yield {**named, "config": {"meta": {"dagster": {"asset_key": key}}}}


def _key(entry: TableEntry, template: str) -> list[str]:
    parts = (*default_key(entry.table).path, entry.target.namespace, entry.target.name)
    fields = dict(zip(_FIELDS, parts, strict=True))
    try:
        return [each.format(**fields) for each in template.split("/")]
    except (AttributeError, KeyError, IndexError, ValueError) as error:
        what = f"{template!r} cannot be filled in ({type(error).__name__})"
        remedy = did_you_mean(str(error.args[0]), _FIELDS) if error.args else ""
        raise ConfigError(what, where="--asset-key", remedy=remedy) from None
