"""Defines ``cdc-assets init``, which writes a commented `replication.yaml` from its findings.

Reads the facts about a database's tables that a first configuration needs.

Asks where a first configuration's lake and Spark are, or takes what options say.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from cdc_assets.changes.names import TableName
from cdc_assets.config.database import DatabaseConfig
from cdc_assets.config.starter import Starter, StarterSource, spoken
from cdc_assets.databases.kinds import SourceCatalog, catalog_of
from cdc_assets.errors import CdcError, ConfigError

if TYPE_CHECKING:
    from cdc_assets.operate.starting import ClusterTopics


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


_KAFKA: Final = "127.0.0.1:9092"


@click.command()
@click.option("--kafka", help="Brokers, host:port, separated by commas.")
@click.option(
    "--property", "settings", multiple=True, metavar="NAME=VALUE",
    help="Setting of librdkafka; a secret as NAME=env:VARIABLE.",
)  # fmt: skip
@click.option(
    "--database", "databases", multiple=True, metavar="KIND=VARIABLE",
    help="postgres, mysql or mariadb, and the variable with its DSN.",
)  # fmt: skip
@click.option("--catalog-uri", help="Address of the catalog; env:VARIABLE if it holds a password.")
@click.option(
    "--catalog-type", type=click.Choice(TYPES),
    help="By default rest for https://, hive for thrift://, else sql.",
)  # fmt: skip
@click.option("--warehouse", help="Root of the tables' files: a path or URL.")
@click.option("--spark", help="local, or sc://host:15002.")
@click.option("--source", "wanted", multiple=True, help="Only topics with this prefix.")
@click.option("--name", default="", help="Name, if a project has several replications.")
@click.option(
    "--output", type=click.Path(path_type=Path), default=Path("replication.yaml"),
    show_default=True, help="File to write.",
)  # fmt: skip
@click.option("--force", is_flag=True, help="Replace an existing file.")
@click.option("--dry-run", is_flag=True, help="Print the file and write nothing.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document about what was found.")
def init(  # noqa: PLR0913 (one for each option)
    kafka: str | None, settings: Sequence[str], databases: Sequence[str],
    wanted: Sequence[str], name: str, output: Path, *, force: bool, dry_run: bool, as_json: bool,
    **placing: str | None,
) -> None:  # fmt: skip
    """Write a commented replication.yaml from what Kafka and the databases hold.

    On a terminal without --kafka it prompts; otherwise catalog, warehouse and Spark are local by
    default. Only reads Kafka, and databases whose DSN's variable is set. The file names these
    variables, never a DSN.
    """
    is_asking = kafka is None and sys.stdin.isatty()
    if output.exists() and not (force or dry_run):
        what = f"{output} is there already"
        raise ConfigError(what, remedy="give --force to replace it, or --output FILE")
    brokers = kafka or (click.prompt("Kafka brokers", default=_KAFKA) if is_asking else _KAFKA)
    said, dsns = dict(map(_pair, settings)), _dsns(databases)
    found = _cluster_topics(brokers, said, wanted)
    if is_asking:
        for each in found.sources:
            click.echo(f"{each.name}: {each.format}, {len(each.tables)} tables", err=True)
    sources = _completed_sources(found, wanted, dsns, is_asking=is_asking)
    begun = placed(placing, is_asking=is_asking)
    properties = tuple((key, spoken(value)) for key, value in said.items())
    starter = replace(begun, kafka=brokers, properties=properties, name=name, sources=sources)
    text = starter.text()
    _require_loads(text, output)
    if not dry_run:
        _write(output, text)
    if as_json:
        click.echo(json.dumps(_document(found, sources, output, text if dry_run else None)))
    else:
        _tell(found, sources, output, text if dry_run else None)


def _write(output: Path, text: str) -> None:
    from cdc_assets.files import files_at, replace_file

    try:
        replace_file(*files_at(str(output.absolute())), text.encode())
    except OSError as error:
        what = f"{output} cannot be written ({type(error).__name__})"
        raise ConfigError(what, remedy="give --output FILE") from None


def _cluster_topics(brokers: str, said: dict[str, str], wanted: Sequence[str]) -> ClusterTopics:
    from pydantic import ValidationError

    from cdc_assets.operate.services import Services
    from cdc_assets.operate.starting import look_around, provisional

    try:
        config = provisional(brokers, {name: spoken(value) for name, value in said.items()})
    except ValidationError as error:
        what = str(error.errors(include_url=False, include_input=False)[0]["msg"])
        raise ConfigError(what, where="--kafka, --property") from None
    return look_around(Services(config), wanted)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        msg = "an option that is not NAME=VALUE"
        raise ConfigError(msg, where="--property, --database", remedy="write NAME=VALUE")
    return name, value


def _dsns(databases: Sequence[str]) -> dict[str, str]:
    from cdc_assets.operate.starting import KINDS

    found = dict(map(_pair, databases))
    for kind in found.keys() - {*KINDS.values()}:
        what = f"{kind!r} is no kind of database whose catalog is read"
        raise ConfigError(what, where="--database", remedy=f"one of {', '.join(KINDS.values())}")
    for variable in found.values():
        if not variable.isidentifier():
            what = "--database takes the name of an environment variable, not a DSN"
            raise ConfigError(what, remedy="such as --database postgres=SHOP_DSN")
    return found


def _completed_sources(
    found: ClusterTopics, wanted: Sequence[str], dsns: dict[str, str], *, is_asking: bool
) -> tuple[StarterSource, ...]:
    """Returns all sources, completed from their databases."""
    known = (_with_database(each, dsns, is_asking=is_asking) for each in found.sources)
    sources = (*known, *without_topics(found, wanted, dsns))
    return tuple(completed(each) for each in sources)


def _with_database(
    source: StarterSource, dsns: dict[str, str], *, is_asking: bool
) -> StarterSource:
    """Returns the source with the variable of its DSN, given or prompted for; empty if unknown."""
    kind = source.kind or (next(iter(dsns)) if len(dsns) == 1 else "")
    variable = dsns.get(kind, "")
    if kind and not variable and is_asking:
        question = f"Variable with the DSN of {source.name} ({kind}), empty for none"
        variable = click.prompt(question, default="", show_default=False)
    return replace(source, kind=kind, variable=variable)


def _require_loads(text: str, output: Path) -> None:
    from cdc_assets.config.load import parse_config

    parse_config(text, output.absolute())


def _document(
    found: ClusterTopics, sources: Sequence[StarterSource], output: Path, text: str | None
) -> dict[str, object]:
    return {
        "output": str(output),
        "written": text is None,
        **({"text": text} if text is not None else {}),
        "sources": [
            {
                "name": each.name, "format": each.format, "topics": list(each.include),
                "tables": list(each.tables), "database": each.kind or None,
                "database_not_asked": each.unasked or None, "without_key": list(each.keyless),
                "without_topic": list(each.uncaptured), "not_in_database": list(each.gone),
            }
            for each in sources
        ],
        "other_topics": list(found.others),
        "formats_not_tried": dict(found.unread),
    }  # fmt: skip


def _tell(
    found: ClusterTopics, sources: Sequence[StarterSource], output: Path, text: str | None
) -> None:
    for each in sources:
        click.echo(f"{each.name}: {len(each.tables)} tables as {each.format}", err=True)
        if each.unasked:
            click.echo(f"  its database was not asked: {each.unasked}", err=True)
        for words, tables in (
            ("have no topic", each.uncaptured), ("have no key", each.keyless),
            ("have a topic and are not in the database", each.gone),
        ):  # fmt: skip
            if tables:
                click.echo(f"  {len(tables)} tables {words}: see the file", err=True)
    if not sources:
        click.echo("no topic holds changes yet: the file shows what a source looks like", err=True)
    for name, why in found.unread.items():
        click.echo(f"not tried: {name}: {why}", err=True)
    if text is None:
        click.echo(f"written: {output}; next: cdc-assets replicate --until-caught-up", err=True)
    else:
        click.echo(text, nl=False)


USUAL_FORMAT: Final = "debezium-json"
"""The format of a source that has no topic yet."""


def completed(source: StarterSource) -> StarterSource:
    """Completes a source from its database: tables without a topic, without a key, and gone.

    If the database cannot be asked, only `StarterSource.unasked` is set, with the reason.
    """
    if not (source.kind and source.variable):
        return source
    if not os.environ.get(source.variable):
        return replace(source, unasked=f"${source.variable} is not set")
    database = DatabaseConfig.model_validate({"kind": source.kind, "dsn": {"env": source.variable}})
    try:
        return _completed(source, catalog_of(database))
    except CdcError as error:
        where = f" [{error.where}]" if error.where else ""
        return replace(source, unasked=f"{error.what}{where}")


def without_topics(
    found: ClusterTopics, wanted: Sequence[str], dsns: Mapping[str, str]
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


def _completed(source: StarterSource, catalog: SourceCatalog) -> StarterSource:
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
