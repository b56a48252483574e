"""Judges a table and its columns by rules on its database's catalog."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from cdc_assets.changes.mode import Mode
from cdc_assets.config.table import TableOverrides
from cdc_assets.databases.catalog import SourceTable
from cdc_assets.databases.mysql.table import CatalogTable as MysqlTable
from cdc_assets.databases.postgres.server import Odd
from cdc_assets.databases.postgres.table import CatalogTable as PostgresTable
from cdc_assets.databases.postgres.table import ReplicaIdentity
from cdc_assets.errors import TerminalError
from cdc_assets.operate.assess.connector import NAME_CONVERTER, Connector
from cdc_assets.operate.assess.finding import Finding, Place, no, yes_but
from cdc_assets.schema.described import Described
from cdc_assets.schema.silent import SilentPolicy, doubt_remedy, remedy_of
from cdc_assets.schema.types import Column, Decimal, Primitive, UnmappedColumn

_SENDS: Final = "PostgreSQL sends no change of it"


@dataclass(frozen=True, slots=True)
class Table:
    """A table in its database, and its configuration.

    Attributes:
        found: the table in the catalog; None if the database does not have it.
        described: its columns, by the connector's actual modes.
        publication: the connector's publication; None for all publications of the table.
        needs_publication: whether the connector reads publications (``pgoutput``).
        overrides: the table's configured overrides.
        connector: the connector that sends it; None if unknown.
        odd: the odd values found in it; None if it was not searched.
        rejects_stop: whether a record that cannot be merged stops the table.
        unreadable_by: the connector's user if it has no right to read the table; else empty.
        mode: the mode of its lake table.
        silent: the policy for rows that change without events.
    """

    found: SourceTable | None
    described: Described | None = None
    publication: str | None = None
    needs_publication: bool = False
    overrides: TableOverrides = field(default_factory=TableOverrides)
    connector: Connector | None = None
    odd: Odd | None = None
    rejects_stop: bool = True
    unreadable_by: str = ""
    mode: Mode = Mode.MIRROR
    silent: SilentPolicy = field(default_factory=SilentPolicy)


def judge_table(at: Place, table: Table) -> Iterator[Finding]:
    """Yields all findings on a table and its columns."""
    found = table.found
    if found is None:
        yield yes_but(
            "table_gone", at, "the database does not have the table, or does not show it",
            "nothing but its records tells its columns",
            "grant a right on it to the user of database.dsn; if it was dropped, see "
            "dropped_table",
        )  # fmt: skip
        return
    match found:
        case PostgresTable():
            yield from _published(at, found, table)
            yield from _identity(at, found, table)
            if found.heirs:
                yield from _silent(at, found, table)
        case MysqlTable():
            yield from _binlog(at, found)
            yield from _silent(at, found, table)
        case _:
            pass
    yield from _transactions(at, found, table)
    yield from _told(at, found, table)
    yield from _columns(at, found, table)
    yield from _values(at, found, table)


def _published(at: Place, found: PostgresTable, table: Table) -> Iterator[Finding]:
    if found.is_unlogged:
        yield no(
            "unlogged", at,
            f"it{' or one of its partitions' if found.partitions else ''} is UNLOGGED: such "
            "changes are in no WAL",
            f"{_SENDS}, and it is empty after a crash",
            "ALTER TABLE … SET LOGGED, then take a new snapshot",
            stops=True,
        )  # fmt: skip
        return
    if found.sent_by_partition(table.publication):
        yield no(
            "by_partition", at, "its changes come under the names of its partitions",
            "its topic holds a snapshot at most, and stands still",
            "ALTER PUBLICATION … SET (publish_via_partition_root = true), and leave the partitions "
            "out of the connector",
            stops=True,
        )  # fmt: skip
        return
    mine = [each for each in found.publications if table.publication in (None, each.name)]
    if not mine and found.root is None and table.needs_publication:
        which = f"publication {table.publication}" if table.publication else "any publication"
        yield no(
            "table_not_published", at, f"it is not in {which}",
            f"{_SENDS}: a snapshot of it stands still",
            "ALTER PUBLICATION … ADD TABLE, or make one FOR ALL TABLES",
            stops=True,
        )  # fmt: skip
    if found.filters_rows(table.publication) and table.overrides.row_filter == "fail":
        yield no(
            "row_filter", at, "its publication leaves rows out (WHERE)",
            "those of a snapshot would never change",
            "drop the row filter, or set row_filter: accept if the snapshot leaves them out too",
            stops=True,
        )  # fmt: skip


def _identity(at: Place, found: PostgresTable, table: Table) -> Iterator[Finding]:
    kinds = {each.kind for each in found.row_identities}
    if ReplicaIdentity.NOTHING in kinds:
        identity = ReplicaIdentity.NOTHING
    elif ReplicaIdentity.DEFAULT in kinds and not found.primary_key:
        identity = ReplicaIdentity.DEFAULT
    else:
        return
    which = "one of its partitions" if found.partitions else "it"
    key = "" if found.primary_key else " and no primary key"
    yield yes_but(
        "no_row_identity", at, f"{which} has replica identity {identity.name}{key}",
        "PostgreSQL refuses updates and deletes while it is published",
        f"ALTER TABLE … REPLICA IDENTITY FULL{found.of_each_partition}"
        + (", or DEFAULT" if found.primary_key else ", or give it a primary key"),
    )  # fmt: skip


def _transactions(at: Place, found: SourceTable, table: Table) -> Iterator[Finding]:
    """Judges transaction metadata, which alone distinguishes changes that share a position."""
    connector = table.connector
    if connector is None or connector.is_on("provide.transaction.metadata", default=False):
        return
    sends_key = bool(connector.get("message.key.columns"))
    is_keyless = not (found.primary_key or table.overrides.primary_key or sends_key)
    in_changelog = table.mode is Mode.CHANGELOG and connector.kind == "mariadb"
    if (is_keyless and connector.kind in {"postgres", "mariadb"}) or in_changelog:
        which = "it has no key" if is_keyless else "it has mode: changelog"
        yield yes_but(
            "no_transactions", at, f"{which}, and the connector sends no transaction metadata",
            "a row that is delivered twice cannot be told from two rows: the table stops then",
            "set provide.transaction.metadata=true" + (", or give it a key" if is_keyless else ""),
        )  # fmt: skip


def _binlog(at: Place, found: MysqlTable) -> Iterator[Finding]:
    if (fault := found.binlog.fault()) is not None:
        what, statement = fault
        yield no(
            "binlog_rows", at, what, "its changes do not hold whole rows, or not in their order",
            f"{statement} for all sessions, then take a new snapshot of the table",
            stops=True,
        )  # fmt: skip


def _silent(at: Place, found: SourceTable, table: Table) -> Iterator[Finding]:
    """Judges changes of rows that no event tells, for as long as the catalog is like this."""
    for each in table.silent.heeded(found.silent_since(None, table.publication)):
        name, remedy = f"silent_{each.kind}", remedy_of(each, str(at.table))
        impact = "the lake keeps such rows as they were before"
        if table.silent.stops(each):
            yield no(name, at, each.why, impact, remedy, stops=True)
        else:
            yield yes_but(name, at, each.why, impact, doubt_remedy(str(at.table)))


def _told(at: Place, found: SourceTable, table: Table) -> Iterator[Finding]:
    if isinstance(found, MysqlTable) and found.binlog.fault() is not None:
        return
    key = table.overrides.primary_key or found.primary_key
    sends_key = table.connector is not None and table.connector.get("message.key.columns")
    if table.mode is Mode.HISTORY and not key and table.connector is not None and not sends_key:
        yield no(
            "history_without_key", at, "it has no key, and is to have mode: history",
            "versions are those of a key's row: the table stops before it is made",
            "name a key (tables.<schema.table>.primary_key), or take mode: changelog",
            stops=True,
        )  # fmt: skip
    try:
        found.require_told(key, str(at))
    except TerminalError as error:
        yield no(
            "refused_table", at, error.what, "its events do not tell which row they mean",
            error.remedy, stops=True,
        )  # fmt: skip
    if table.unreadable_by:
        yield no(
            "connector_user", at, f"the connector's user {table.unreadable_by} may not read it",
            "its snapshot fails, and the connector with it", "GRANT SELECT on it to that user",
        )  # fmt: skip


def _columns(at: Place, found: SourceTable, table: Table) -> Iterator[Finding]:
    unpublished = found.unpublished(table.publication)
    skipped = {*unpublished, *table.overrides.excluded}
    for name, why in unpublished.items():
        if name not in table.overrides.excluded:
            yield yes_but(
                "unpublished_column", _column(at, name), why, "the lake is without the column",
                "publish it (publish_generated_columns = stored, or the publication's column "
                "list), or exclude it in the configuration",
            )  # fmt: skip
    comments = {each.name: each.comment for each in found.columns}
    for column in table.described.columns if table.described is not None else ():
        if column.name not in skipped:
            is_named = column.name in table.overrides.column_types
            yield from _type(at, column, comments.get(column.name, ""), is_named=is_named)
    yield from _defaults(at, found, table, skipped)


def _type(
    at: Place, column: Column | UnmappedColumn, comment: str, *, is_named: bool
) -> Iterator[Finding]:
    place = _column(at, column.name)
    if isinstance(column, UnmappedColumn):
        yield no(
            "refused_column", place, f"{column.source_type} cannot be stored exactly",
            column.reason,
            "configure a type for the column, exclude it, or change it at the source",
            stops=True,
        )  # fmt: skip
    elif column.type is Primitive.STRING and column.comment != comment and not is_named:
        told = column.comment.removeprefix(comment).removeprefix("; ")
        yield yes_but(
            "stored_as_text", place, f"its type has no counterpart in the lake: {told}",
            "it is stored as text, which is exact and which numbers cannot be reckoned with",
            "configure a type for the column if its values fit one",
        )  # fmt: skip


def _defaults(at: Place, found: SourceTable, table: Table, skipped: set[str]) -> Iterator[Finding]:
    connector = table.connector
    if connector is None or connector.replaces_nulls is False:
        return
    for column in found.columns:
        if column.has_default and not column.not_null and column.name not in skipped:
            yield _replaced(_column(at, column.name), connector)


def _replaced(place: Place, connector: Connector) -> Finding:
    """Judges a column that may be NULL and has a default."""
    problem = "it may be NULL and has a default, which the connector's converter writes"
    impact = "rows have the default in the place of NULL, and nobody downstream can tell"
    if connector.replaces_nulls is None:
        problem = (
            "it may be NULL and has a default, and the connector names no converter: its worker's "
            "is not shown by Connect"
        )
        impact = f"unless that is told to keep NULL, {impact}"
        return yes_but("nulls_unseen", place, problem, impact, NAME_CONVERTER)
    if connector.writes_json:
        remedy = "set value.converter.replace.null.with.default=false, for keys too"
        return no("nulls_replaced", place, problem, impact, remedy, stops=True)
    remedy = "drop the default, or use a converter that keeps NULL"
    return yes_but("nulls_replaced", place, problem, impact, remedy)


def _values(at: Place, found: SourceTable, table: Table) -> Iterator[Finding]:
    odd, connector = table.odd, table.connector
    if odd is None:
        return
    skipped = {*found.unpublished(table.publication), *table.overrides.excluded}
    if connector is not None and at.table is not None:
        names = {*odd.not_numbers, *odd.out_of_range}
        skipped |= {n for n in names if connector.leaves_out(f"{at.table.qualified}.{n}")}
    not_numbers = [each for each in odd.not_numbers if each not in skipped]
    if connector is None or connector.sends_decimals:
        yield from (_not_number(_column(at, name), connector) for name in not_numbers)
    else:
        known = table.described.columns if table.described is not None else ()
        decimals = {c.name for c in known if isinstance(c, Column) and isinstance(c.type, Decimal)}
        for name in (each for each in not_numbers if each in decimals):
            yield _out_of_range(_column(at, name), "it has NaN or infinity", table)
    for name in (each for each in odd.out_of_range if each not in skipped):
        problem = "it has infinity, or a year before 1 or after 9999"
        yield _out_of_range(_column(at, name), problem, table)


def _not_number(place: Place, connector: Connector | None) -> Finding:
    impact = "it arrives as NULL, unnoticed"
    if connector is None:
        impact = f"unless the connector stops at it, {impact}"
    elif connector.stops_at_values:
        impact = "the connector stops at it"
    return no(
        "values_not_convertible", place, "it has NaN or infinity", impact,
        "store such values otherwise at the source, or set decimal.handling.mode=string",
        stops=connector is not None and not connector.stops_at_values,
    )  # fmt: skip


def _out_of_range(place: Place, problem: str, table: Table) -> Finding:
    impact = (
        "no table of Iceberg can hold it for every reader: its records are refused; a date before "
        "the year 1 arrives as one after it from the connector's snapshot"
    )
    remedy = "store such values otherwise at the source, or set bad_records: quarantine"
    make = no if table.rejects_stop else yes_but
    return make("values_out_of_range", place, problem, impact, remedy)


def _column(at: Place, name: str) -> Place:
    return Place(at.source, at.table, name)
