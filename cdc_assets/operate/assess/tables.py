"""Judges a table and its columns by rules on its database's catalog."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Final

from cdc_assets.changes.mode import Mode
from cdc_assets.databases.postgres.table import ReplicaIdentity
from cdc_assets.errors import TerminalError
from cdc_assets.operate.assess.connector import KEEP_NULLS, NAME_CONVERTER
from cdc_assets.operate.assess.finding import Finding, Obstacle, Rule, Subject, Verdict, judged
from cdc_assets.operate.assess.table_facts import KnownTable, Table
from cdc_assets.schema.row_condition import fitted
from cdc_assets.schema.silent import (
    SilentChange,
    SilentKind,
    doubt_remedy,
    remedy_of,
)
from cdc_assets.schema.types import (
    Column,
    Decimal,
    Identity,
    Primitive,
    TableSchema,
    UnmappedColumn,
)

_NO, _PARTIAL = Verdict.NO, Verdict.PARTIAL
_SENDS: Final = "PostgreSQL sends no change of it"
_DEFAULTS: Final = "rows have the default in the place of NULL, and nobody downstream can tell"
_NULL: Final = "it arrives as NULL, unnoticed"
_OTHERWISE: Final = "change such values at the source, or set"
_OUT_OF_RANGE: Final = (
    "no table of Iceberg can hold it for every reader: its records are refused; a date before the "
    "year 1 arrives as one after it from the connector's snapshot"
)


def judge_table(at: Subject, table: Table) -> Iterator[Finding]:
    """Yields all findings on a table and its columns."""
    yield from judged(MISSING, at, table)
    if table.found is not None:
        yield from judged(RULES, at, KnownTable(at, table, table.found))


# ── PostgreSQL ────────────────────────────────────────────────────────────────────────────


def _unlogged(known: KnownTable) -> str:
    found = known.postgres
    if found is None or not found.is_unlogged:
        return ""
    which = " or one of its partitions" if found.partitions else ""
    return f"it{which} is UNLOGGED: such changes are in no WAL"


def _by_partition(known: KnownTable) -> str:
    found = known.postgres
    if found is None or found.is_unlogged or not found.sent_by_partition(known.table.publication):
        return ""
    return "its changes come under the names of its partitions"


def _not_published(known: KnownTable) -> str:
    found, name = known.logged, known.table.publication
    if found is None or found.root is not None or not known.table.needs_publication:
        return ""
    if any(name in (None, each.name) for each in found.publications):
        return ""
    return f"it is not in {f'publication {name}' if name else 'any publication'}"


def _row_filter(known: KnownTable) -> str:
    found, table = known.logged, known.table
    is_cut = found is not None and found.filters_rows(table.publication)
    is_refused = is_cut and table.overrides.row_filter == "fail"
    return "its publication leaves rows out (WHERE)" if is_refused else ""


def _no_identity(known: KnownTable) -> Iterable[Obstacle]:
    found = known.postgres
    if found is None:
        return
    kinds = {each.kind for each in found.row_identities}
    if ReplicaIdentity.NOTHING in kinds:
        identity = ReplicaIdentity.NOTHING
    elif ReplicaIdentity.DEFAULT in kinds and not found.primary_key:
        identity = ReplicaIdentity.DEFAULT
    else:
        return
    which = "one of its partitions" if found.partitions else "it"
    key = "" if found.primary_key else " and no primary key"
    other = ", or DEFAULT" if found.primary_key else ", or give it a primary key"
    problem = f"{which} has replica identity {identity.name}{key}"
    yield Obstacle(problem, words={"partitions": found.of_each_partition, "other": other})


def _left_alone(known: KnownTable) -> Iterable[Obstacle]:
    found, condition = known.postgres, known.table.overrides.condition
    if found is None or condition is None:
        return
    if {each.kind for each in found.row_identities} == {ReplicaIdentity.FULL}:
        return
    large = [c.name for c in found.columns if c.may_be_toasted and c.name not in known.skipped]
    if large:
        problem = f"an update that leaves {', '.join(large)} alone comes without large values"
        yield Obstacle(problem, words={"partitions": found.of_each_partition})


# ── all databases ─────────────────────────────────────────────────────────────────────────


def _unfit_condition(known: KnownTable) -> str:
    """Returns why the condition on rows does not fit the columns; empty if it does."""
    overrides, described = known.table.overrides, known.table.described
    if overrides.condition is None or described is None:
        return ""
    columns = [
        replace(
            each, identity=Identity(each.name), name=overrides.renames.get(each.name, each.name)
        )
        for each in described.columns
        if isinstance(each, Column)
    ]
    try:
        fitted(overrides.condition, TableSchema(tuple(columns)), "")
    except TerminalError as error:
        return error.what
    return ""


def _silent(known: KnownTable, kind: SilentKind, *, stops: bool) -> Iterable[Obstacle]:
    """Yields changes of rows without events, for as long as the catalog is like this."""
    table, name = known.table, str(known.at.table)
    has_heirs = known.postgres is not None and bool(known.postgres.heirs)
    if known.mysql is None and not has_heirs:
        return
    for each in table.silent.heeded(known.found.silent_since(None, table.publication)):
        if each.kind is kind and table.silent.stops(each) is stops:
            yield Obstacle(each.why, words={"remedy": _remedy(each, name, stops=stops)})


def _remedy(change: SilentChange, name: str, *, stops: bool) -> str:
    return remedy_of(change, name) if stops else doubt_remedy(name)


def _no_transactions(known: KnownTable) -> Iterable[Obstacle]:
    """Finds tables whose changes share positions, which transaction metadata distinguishes."""
    connector = known.table.connector
    if connector is None or connector.is_on("provide.transaction.metadata", default=False):
        return
    is_keyless = not (known.key or known.sends_key)
    in_changelog = known.table.mode is Mode.CHANGELOG and connector.kind == "mariadb"
    if (is_keyless and connector.kind in {"postgres", "mariadb"}) or in_changelog:
        which = "it has no key" if is_keyless else "it has mode: changelog"
        problem = f"{which}, and the connector sends no transaction metadata"
        yield Obstacle(problem, words={"other": ", or give it a key" if is_keyless else ""})


def _binlog_rows(known: KnownTable) -> Iterable[Obstacle]:
    if (fault := known.binlog_fault) is not None:
        yield Obstacle(fault[0], words={"statement": fault[1]})


def _history_without_key(known: KnownTable) -> str:
    table = known.table
    is_known = table.connector is not None and known.binlog_fault is None
    if not is_known or table.mode is not Mode.HISTORY or known.key or known.sends_key:
        return ""
    return "it has no key, and is to have mode: history"


def _refused_table(known: KnownTable) -> Iterable[Obstacle]:
    if known.binlog_fault is not None:
        return
    try:
        known.found.require_key_logged(known.key, str(known.at))
    except TerminalError as error:
        yield Obstacle(error.what, words={"remedy": error.remedy})


def _unreadable(known: KnownTable) -> str:
    user = known.table.unreadable_by
    is_new = user and known.binlog_fault is None
    return f"the connector's user {user} may not read it" if is_new else ""


# ── columns ───────────────────────────────────────────────────────────────────────────────


def _unpublished(known: KnownTable) -> Iterable[Obstacle]:
    for name, why in known.found.unpublished(known.table.publication).items():
        if name not in known.table.overrides.excluded:
            yield Obstacle(why, name)


def _described(known: KnownTable) -> Iterator[Column | UnmappedColumn]:
    described, skipped = known.table.described, known.skipped
    for column in described.columns if described is not None else ():
        if column.name not in skipped:
            yield column


def _refused_columns(known: KnownTable) -> Iterable[Obstacle]:
    for column in _described(known):
        if isinstance(column, UnmappedColumn):
            problem = f"{column.source_type} cannot be stored exactly"
            yield Obstacle(problem, column.name, {"reason": column.reason})


def _stored_as_text(known: KnownTable) -> Iterable[Obstacle]:
    comments = {each.name: each.comment for each in known.found.columns}
    for column in _described(known):
        comment, is_named = comments.get(column.name, ""), column.name in _named(known)
        if isinstance(column, UnmappedColumn) or column.type is not Primitive.STRING:
            continue
        if column.comment != comment and not is_named:
            reason = column.comment.removeprefix(comment).removeprefix("; ")
            yield Obstacle(f"its type has no counterpart in the lake: {reason}", column.name)


def _named(known: KnownTable) -> Iterable[str]:
    """Returns the columns with a configured type."""
    return known.table.overrides.column_types


def _nulls(known: KnownTable, *, replaced: bool, by_json: bool = False) -> Iterable[Obstacle]:
    """Yields columns that may be NULL and have a default, which a converter may write instead."""
    connector = known.table.connector
    if connector is None or connector.replaces_nulls is (None if replaced else True):
        return
    if connector.replaces_nulls is False or (replaced and connector.writes_json is not by_json):
        return
    problem = "it may be NULL and has a default, which the connector's converter writes"
    if not replaced:
        problem = (
            "it may be NULL and has a default, and the connector names no converter: its worker's "
            "is not shown by Connect"
        )
    skipped = known.skipped
    for column in known.found.columns:
        if column.has_default and not column.not_null and column.name not in skipped:
            yield Obstacle(problem, column.name)


# ── values ────────────────────────────────────────────────────────────────────────────────


def _sent(known: KnownTable, names: Iterable[str]) -> list[str]:
    """Returns the columns that may be sent."""
    connector, table, skipped = known.table.connector, known.at.table, known.skipped
    sent = [each for each in names if each not in skipped]
    if connector is None or table is None:
        return sent
    return [n for n in sent if not connector.leaves_out(f"{table.qualified}.{n}")]


def _not_numbers(known: KnownTable, *, stops_at: bool | None) -> Iterable[Obstacle]:
    """Yields columns with NaN or infinity, for a connector that does or does not stop at them."""
    connector, odd = known.table.connector, known.table.odd
    if odd is None or (connector is not None and not connector.sends_decimals):
        return
    if (connector.stops_at_values if connector is not None else None) is stops_at:
        for name in _sent(known, odd.not_numbers):
            yield Obstacle("it has NaN or infinity", name)


def _out_of_range(known: KnownTable, *, stops: bool) -> Iterable[Obstacle]:
    connector, odd, described = known.table.connector, known.table.odd, known.table.described
    if odd is None or known.table.rejects_stop is not stops:
        return
    if connector is not None and not connector.sends_decimals:
        columns = described.columns if described is not None else ()
        decimals = {
            c.name for c in columns if isinstance(c, Column) and isinstance(c.type, Decimal)
        }
        for name in _sent(known, odd.not_numbers):
            if name in decimals:
                yield Obstacle("it has NaN or infinity", name)
    for name in _sent(known, odd.out_of_range):
        yield Obstacle("it has infinity, or a year before 1 or after 9999", name)


MISSING: Final[tuple[Rule[Table], ...]] = (
    Rule(
        "table_gone", _PARTIAL, "the table in the database",
        lambda table: "the database does not have the table, or does not show it"
        if table.found is None else "",
        "nothing but its records tells its columns",
        "grant SELECT on it to the user of database.dsn; if it was dropped, see dropped_table",
    ),
)  # fmt: skip

RULES: Final[tuple[Rule[KnownTable], ...]] = (
    Rule(
        "unlogged", _NO, "logging of the table (PostgreSQL)", _unlogged,
        f"{_SENDS}, and it is empty after a crash",
        "ALTER TABLE … SET LOGGED, then take a new snapshot", stops=True,
    ),
    Rule(
        "by_partition", _NO, "publications of partitions", _by_partition,
        "its topic holds a snapshot at most, and stands still",
        "ALTER PUBLICATION … SET (publish_via_partition_root = true), and exclude the partitions "
        "at the connector", stops=True,
    ),
    Rule(
        "table_not_published", _NO, "the table's publications", _not_published,
        f"{_SENDS}: a snapshot of it stands still",
        "ALTER PUBLICATION … ADD TABLE, or create one FOR ALL TABLES", stops=True,
    ),
    Rule(
        "row_filter", _NO, "row filters of publications", _row_filter,
        "those of a snapshot would never change",
        "drop the row filter, or set row_filter: accept if the snapshot filters the same rows",
        stops=True,
    ),
    Rule(
        "no_row_identity", _PARTIAL, "replica identities", _no_identity,
        "PostgreSQL refuses updates and deletes while it is published",
        "ALTER TABLE … REPLICA IDENTITY FULL{partitions}{other}",
    ),
    Rule(
        "condition_unfit", _NO, "columns in `where`", _unfit_condition,
        "nothing decides which rows the lake table gets",
        "correct tables.<schema.table>.where", stops=True,
    ),
    Rule(
        "values_left_alone", _PARTIAL, "large columns of a table with `where`",
        _left_alone,
        "the table stops at a row that begins to match, as nothing has these values",
        "ALTER TABLE … REPLICA IDENTITY FULL{partitions}",
    ),
    Rule(
        "binlog_rows", _NO, "binlog format, row image, JSON values", _binlog_rows,
        "its changes do not hold whole rows, or not in their order",
        "{statement} for all sessions, then take a new snapshot of the table", stops=True,
    ),
    *(
        Rule(
            f"silent_{kind}", _NO if stops else _PARTIAL, looks_at,
            partial(_silent, kind=kind, stops=stops),
            "the lake keeps such rows as they were before", "{remedy}", stops=stops,
        )
        for kind, looks_at in (
            (SilentKind.CASCADES, "foreign keys that cascade"),
            (SilentKind.UNLOGGED, "inheriting tables; databases left out of the log"),
        )
        for stops in (True, False)
    ),
    Rule(
        "no_transactions", _PARTIAL, "`provide.transaction.metadata`, without keys",
        _no_transactions,
        "a row that is delivered twice cannot be distinguished from two rows: the table stops then",
        "set provide.transaction.metadata=true{other}",
    ),
    Rule(
        "history_without_key", _NO, "the key, with `mode: history`",
        _history_without_key,
        "versions are those of a key's row: the table stops before it is made",
        "set tables.<schema.table>.primary_key, or mode: changelog", stops=True,
    ),
    Rule(
        "refused_table", _NO, "identity of rows in events", _refused_table,
        "its events do not tell which row they mean", "{remedy}", stops=True,
    ),
    Rule(
        "connector_user", _NO, "SELECT of the connector's user", _unreadable,
        "its snapshot fails, and the connector with it", "GRANT SELECT to that user",
    ),
    Rule(
        "unpublished_column", _PARTIAL, "generated columns, publications' column lists",
        _unpublished, "the lake is without the column",
        "publish it (publish_generated_columns = stored, or the column list), or exclude it here",
    ),
    Rule(
        "refused_column", _NO, "the column's type", _refused_columns, "{reason}",
        "configure a type for the column, exclude it, or change it at the source", stops=True,
    ),
    Rule(
        "stored_as_text", _PARTIAL, "the column's type", _stored_as_text,
        "it is stored as text, which is exact and which numbers cannot be reckoned with",
        "configure a type if all values fit",
    ),
    Rule(
        "nulls_unseen", _PARTIAL, "defaults of columns that may be NULL",
        partial(_nulls, replaced=False), f"unless that is set to keep NULL, {_DEFAULTS}",
        NAME_CONVERTER,
    ),
    Rule(
        "nulls_replaced", _NO, "such defaults, in JSON",
        partial(_nulls, replaced=True, by_json=True), _DEFAULTS,
        KEEP_NULLS, stops=True,
    ),
    Rule(
        "nulls_replaced", _PARTIAL, "such defaults, in other encodings",
        partial(_nulls, replaced=True), _DEFAULTS,
        "drop the default, or use a converter that keeps NULL",
    ),
    *(
        Rule(
            "values_not_convertible", _NO, looks_at, partial(_not_numbers, stops_at=stops_at),
            impact, f"{_OTHERWISE} decimal.handling.mode=string", stops=stops_at is False,
        )
        for stops_at, looks_at, impact in (
            (False, "NaN and infinity in a `numeric`", _NULL),
            (True, "NaN and infinity in a `numeric`", "the connector stops at it"),
            (None, "NaN and infinity in a `numeric`, without a connector",
             f"unless the connector stops at it, {_NULL}"),
        )
    ),
    *(
        Rule(
            "values_out_of_range", _NO if stops else _PARTIAL, looks_at,
            partial(_out_of_range, stops=stops), _OUT_OF_RANGE,
            f"{_OTHERWISE} bad_records: quarantine",
        )
        for stops, looks_at in (
            (True, "infinity, years outside 1 to 9999, with `bad_records: fail`"),
            (False, "infinity, years outside 1 to 9999"),
        )
    ),
)  # fmt: skip
