"""Prints the cuts of a source, and SQL that reads its tables at one: ``cdc-assets consistent``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import click

from cdc_assets.config import ReplicationConfig, load_config
from cdc_assets.errors import ConfigError
from cdc_assets.lake.connection import CatalogConnection
from cdc_assets.lake.cuts import ConsistentTables, CutSnapshot, StoredCut
from cdc_assets.lake.cuts import consistent as tables_at
from cdc_assets.operate.cuts import ConsistentCuts, LogCuts

Quote = Callable[[str], str]

_ENGINES: Final[Mapping[str, tuple[Quote, str]]] = {
    "spark": (lambda name: "`" + name.replace("`", "``") + "`", "VERSION AS OF"),
    "trino": (lambda name: '"' + name.replace('"', '""') + '"', "FOR VERSION AS OF"),
}


@click.group()
def consistent() -> None:
    """States of all tables of a source as of one of its commits."""


@consistent.command("list")
@click.argument("source")
@click.option(
    "--limit", type=click.IntRange(min=1), default=10, show_default=True,
    help="Maximum number of cuts.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def list_(source: str, limit: int, *, as_json: bool) -> None:
    """List the newest cuts of SOURCE, and say what the next one waits for."""
    config = _config_of(source)
    cuts = ConsistentCuts(config)
    logs = [log for name, log in cuts.standing() if name == source]
    kept = cuts.kept(source)[:limit]
    if as_json:
        pending = [_pending_dict(log) for log in logs]
        listed = [{**_row(each), "tables": len(each.tables)} for each in kept]
        click.echo(json.dumps({"source": source, "cuts": listed, "next": pending}, indent=2))
        return
    for each in kept:
        row = _row(each)
        click.echo(
            f"{row['number']:>6}  commit {row['committed_at']}  added {row['added_at']}  "
            f"{len(each.tables)} tables  transaction {row['transaction']}"
        )
    for log in logs:
        said = _pending_dict(log)
        state = f"begun {said['begun_at']}" if said["begun_at"] else "not begun"
        click.echo(f"  next  {state}{': ' if said['why'] else ''}{said['why']}")


def _row(cut: StoredCut) -> dict[str, Any]:
    return {
        "number": cut.number,
        "log": cut.log,
        "transaction": cut.transaction,
        "committed_at": _time(cut.committed_at),
        "added_at": _time(cut.added_at),
    }


def _pending_dict(log: LogCuts) -> dict[str, Any]:
    begun = log.pending.begun_at if log.pending else None
    return {"log": log.log, "begun_at": _time(begun) if begun else None, "why": log.why}


def _time(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


@consistent.command("sql")
@click.argument("source")
@click.option(
    "--at", help="Time of the source (UTC), such as 2026-03-01T07:00: the newest cut up to it."
)
@click.option(
    "--engine", type=click.Choice(sorted(_ENGINES)), default="spark", show_default=True,
    help="Dialect of the SQL.",
)  # fmt: skip
@click.option("--views", help="Print views in this namespace instead of clauses.")
@click.option("--log", help="Transaction topic, if the source has several.")
def sql(source: str, at: str | None, engine: str, views: str | None, log: str | None) -> None:
    """Print SQL that reads every table of SOURCE as of the same commit."""
    config = _config_of(source)
    catalog = CatalogConnection(config.lake).catalog
    found = tables_at(catalog, source, _parsed(at), log=log)
    for line in statements(found, config.lake.catalog.name, engine, views):
        click.echo(line)


def statements(
    found: ConsistentTables, catalog: str, engine: str, views: str | None
) -> Iterator[str]:
    """Yields a comment, and for each table a view, or the clause to read it by.

    Args:
        found: the tables.
        catalog: the catalog's name in the engine.
        engine: of `_ENGINES`.
        views: the namespace of the views; None for clauses.

    Raises:
        ConfigError: if two tables would have one view.
    """
    quote, clause = _ENGINES[engine]
    cut = found.cut
    if views:
        _require_own_views(cut.tables)
    yield f"-- cut {cut.number}: transaction {cut.transaction}, committed {_time(cut.committed_at)}"
    for each in cut.tables:
        name = _joined(quote, catalog, each.lake_namespace, each.lake_table)
        table = f"{name} {clause} {each.snapshot}"
        select = f"SELECT * FROM {table};"  # noqa: S608 - quoted
        yield _view(quote, catalog, views, each, select) if views else select


def _require_own_views(tables: Iterable[CutSnapshot]) -> None:
    """Requires that no view replaces another one: a view has its table's name, in any case."""
    owners = dict[str, CutSnapshot]()
    for each in tables:
        other = owners.setdefault(each.lake_table.casefold(), each)
        if other.target != each.target:
            what = f"{other.target} and {each.target} would have one view"
            remedy = "leave out --views, and name the views yourself"
            raise ConfigError(what, where="--views", remedy=remedy)


def _view(quote: Quote, catalog: str, views: str, each: CutSnapshot, select: str) -> str:
    view = _joined(quote, catalog, views, each.lake_table)
    return f"CREATE OR REPLACE VIEW {view} AS {select}"


def _joined(quote: Quote, *parts: str) -> str:
    return ".".join(quote(each) for each in parts)


def _parsed(at: str | None) -> datetime | None:
    if at is None:
        return None
    try:
        found = datetime.fromisoformat(at)
    except ValueError:
        what = "is not a time"
        raise ConfigError(what, where="--at", remedy="write 2026-03-01T07:00 (UTC)") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _config_of(source: str) -> ReplicationConfig:
    config = load_config()
    if source not in config.sources:
        known = ", ".join(sorted(config.sources))
        what = f"{source!r} is no configured source"
        raise ConfigError(what, where="SOURCE", remedy=f"name one of {known}")
    if config.sources[source].consistent is None:
        remedy = "add `consistent: {every: 1m}` to the source; see docs/consistent.md"
        what = "takes no cuts"
        raise ConfigError(what, where=f"sources.{source}", remedy=remedy)
    return config
