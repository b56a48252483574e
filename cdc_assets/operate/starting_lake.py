"""Asks where a first configuration's lake and Spark are, or takes what options say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import click

from cdc_assets.config.starter import Starter, spoken

TYPES: Final = ("sql", "rest", "glue", "hive")
_BY_SCHEME: Final[Mapping[str, str]] = {"http": "rest", "https": "rest", "thrift": "hive"}


def placed(said: Mapping[str, str | None], *, is_asking: bool) -> Starter:
    """Returns the beginning of a file: catalog, warehouse and Spark.

    Args:
        said: ``catalog_type``, ``catalog_uri``, ``warehouse`` and ``spark``, as far as they are
            given. Without a type, the URI's scheme tells it. A URI is given as ``env:VARIABLE`` if
            it holds a password.
        is_asking: whether to prompt for what is not given; otherwise it is local.
    """
    usual = Starter()

    def of(name: str, question: str, default: str) -> str:
        given = said.get(name)
        return given or (click.prompt(question, default=default) if is_asking else default)

    kind, uri = said.get("catalog_type"), ""
    if kind != "glue" or said.get("catalog_uri"):
        question = "Iceberg catalog's URI, env:VARIABLE if it holds a password"
        uri = of("catalog_uri", question, str(usual.catalog_uri))
    if not kind and is_asking and uri.startswith("env:"):
        kind = click.prompt("Its type", type=click.Choice(TYPES), default="sql")
    return replace(
        usual,
        catalog_type=kind or _BY_SCHEME.get(uri.partition(":")[0].lower(), "sql"),
        catalog_uri=spoken(uri) if uri else None,
        warehouse=of("warehouse", "Warehouse, the root of the tables' files", usual.warehouse),
        spark=of("spark", "Spark, local or sc://host:15002", usual.spark),
    )
