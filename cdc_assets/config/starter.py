"""Writes a commented `replication.yaml` to begin with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import yaml


@dataclass(frozen=True, slots=True)
class StarterSource:
    """A source, as far as it is known.

    Attributes:
        name: of the source.
        format: of its records.
        include: regular expressions of its topics.
        tables: the tables that were found, for a comment.
        kind: of its database; empty if unknown.
        variable: the environment variable with the database's DSN.
        keyless: tables without a primary key, according to the database.
        uncaptured: tables of the database that have no topic.
        gone: tables that have a topic but are not in the database.
        unasked: the reason why the database was not asked; empty if it was, or if there is none.
    """

    name: str
    format: str
    include: tuple[str, ...]
    tables: tuple[str, ...] = ()
    kind: str = ""
    variable: str = ""
    keyless: tuple[str, ...] = ()
    uncaptured: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    unasked: str = ""


@dataclass(frozen=True, slots=True)
class Starter:
    """The contents of the file. Relative paths are relative to it.

    Values that may hold a secret are as `spoken` returns them; ``catalog_uri`` is None if the
    catalog needs none.
    """

    kafka: str = "127.0.0.1:9092"
    properties: tuple[tuple[str, object], ...] = ()
    catalog_type: str = "sql"
    catalog_uri: object = "sqlite:///.cdc/lake/catalog.db"
    warehouse: str = ".cdc/lake/warehouse"
    spark: str = "local"
    name: str = ""
    sources: tuple[StarterSource, ...] = field(default=())

    def text(self) -> str:
        """Returns the file's text. It loads as it is, without the secrets that it names."""
        name = f"name: {_text(self.name)}\n" if self.name else _NAME
        known = "\n".join(map(_source, self.sources))
        sources = f"sources:\n{known}" if known else _NO_SOURCE
        return _HEAD.format(
            name=name, kafka=_text(self.kafka), properties=self._properties(),
            type=_text(self.catalog_type), uri=self._uri(),
            warehouse=_text(self.warehouse), spark=_text(self.spark),
        ) + sources  # fmt: skip

    def _uri(self) -> str:
        return "" if self.catalog_uri is None else f"    uri: {_flow(self.catalog_uri)}\n"

    def _properties(self) -> str:
        lines = [f"    {_text(key)}: {_flow(value)}\n" for key, value in self.properties]
        return "".join(("  properties:\n", *lines)) if lines else _PROPERTIES


def spoken(text: str) -> object:
    """Returns an option's value as written in the file: ``env:NAME`` names a variable."""
    variable = text.removeprefix("env:")
    return {"env": variable} if variable != text else text


_HEAD: Final = """\
# Which tables are replicated, from where, to where. Every key: docs/reference/configuration.md.
# Relative paths are relative to this file. Secrets only as {{env: NAME}} or {{file: /PATH}}.

{name}
kafka:
  bootstrap_servers: {kafka}
{properties}
lake:
  catalog:                       # sql | rest | glue | hive
    type: {type}
{uri}  warehouse: {warehouse}

spark:
  remote: {spark}                  # the local server; or sc://host:15002, or master: instead

"""
_PROPERTIES: Final = """\
  # properties:                  # librdkafka's, such as security.protocol: SASL_SSL
  #   sasl.password: {env: KAFKA_PASSWORD}
"""
_NAME: Final = "# name: shop                     # of several replications in one project\n"
_NO_SOURCE: Final = """\
# No source is configured yet. One looks like this; replace `sources: {}` by it:
#
# sources:
#   shop:
#     format: debezium-json      # how its records are written: docs/reference/formats
#     topics:
#       include: ['shop\\..*']    # regular expressions over whole names
#     database:                  # exact types come from its catalog
#       kind: postgres           # or mysql, mariadb
#       dsn: {env: SHOP_DSN}
#     slo: {percent: 95, within_minutes: 5, over_hours: 24}
sources: {}
"""


def _source(source: StarterSource) -> str:
    """Formats one source; the first one opens the mapping."""
    include = ", ".join(map(_text, source.include))
    found = _listed("", source.tables)
    found += _listed("In the database, without a topic as yet:", source.uncaptured)
    found += _listed("With a topic, and not in the database:", source.gone)
    database = _DATABASE.format(kind=source.kind or "postgres", variable=source.variable or "DSN")
    if not (source.kind and source.variable):
        database = "".join(f"    # {line[4:]}\n" for line in database.splitlines())
    return (
        f"  {_text(source.name)}:\n    format: {_text(source.format)}\n    topics:\n"
        f"      include: [{include}]\n{found}{database}{_keys(source.keyless)}"
        "    slo: {percent: 95, within_minutes: 5, over_hours: 24}\n"
    )


def _listed(title: str, tables: Sequence[str]) -> str:
    """Formats a title and some of the tables as comments."""
    if not tables:
        return ""
    lines = [*([title] if title else []), *map(_comment, tables[:_SHOWN])]
    more = len(tables) - _SHOWN
    lines += [f"and {more} more"] if more > 0 else []
    return "".join(f"    # {each}\n" for each in lines)


def _keys(keyless: Sequence[str]) -> str:
    """Formats comments that show how to name a key for tables without one."""
    if not keyless:
        return ""
    tables = "".join(
        f"    #   {_comment(_text(each))}: {{primary_key: [...]}}\n" for each in keyless[:_SHOWN]
    )
    return (
        "    # Without a key, rows are distinguished by all of their values. If some columns\n"
        f"    # identify a row, name these columns:\n    # tables:\n{tables}"
    )


_SHOWN: Final = 20
_DATABASE: Final = """\
    database:                    # exact types of columns come from its catalog
      kind: {kind}
      dsn: {{env: {variable}}}
    # connector: {{decimal_handling_mode: string}}   # its modes, if records have no schemas
"""


def _comment(text: str) -> str:
    """Returns a name as a single line of a comment, whatever the name contains."""
    return "".join(each if each.isprintable() else "?" for each in text)


def _flow(value: object) -> str:
    text = yaml.safe_dump(value, width=10_000, default_flow_style=True, allow_unicode=True)
    return text.removesuffix("...\n").strip()


def _text(value: str) -> str:
    """Returns a YAML scalar for this text."""
    return yaml.safe_dump(value, width=10_000, allow_unicode=True).removesuffix("...\n").strip()
