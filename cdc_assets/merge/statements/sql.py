"""Builds every SQL statement that is sent, as text; all names in it pass through `quote`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from cdc_assets.changes.names import LakeName, Shard
from cdc_assets.schema.file_layout import SortTerm, Term, Transform
from cdc_assets.schema.row_condition import Constant, Leaf, RowCondition, in_sql, leaf_in_sql
from cdc_assets.schema.types import (
    MAX_DECIMAL_DIGITS,
    Column,
    ColumnType,
    Decimal,
    Primitive,
    TableSchema,
)

POSITION: Final = "_cdc_position"
COMMIT_TIME: Final = "_cdc_ts"

DELETED: Final = "_cdc_deleted"
DELETED_AT: Final = "_cdc_deleted_at"
OP: Final = "_cdc_op"
TOPIC: Final = "_cdc_topic"
PARTITION: Final = "_cdc_partition"
OFFSET: Final = "_cdc_offset"
UNSET: Final = "_cdc_unset"
EVENT: Final = "_cdc_event"
VALID_FROM: Final = "_cdc_valid_from"
VALID_TO: Final = "_cdc_valid_to"
CURRENT: Final = "_cdc_current"
ENDED_BY: Final = "_cdc_ended_by"
END_POSITION: Final = "_cdc_end_position"
END_TOPIC: Final = "_cdc_end_topic"
END_PARTITION: Final = "_cdc_end_partition"
END_OFFSET: Final = "_cdc_end_offset"
END_EVENT: Final = "_cdc_end_event"
READ_AGAIN: Final = "_cdc_read_again"


def quote(name: str) -> str:
    """Quotes an identifier in back-ticks."""
    return "`" + name.replace("`", "``") + "`"


def text(value: str) -> str:
    """Returns a string literal; Spark reads back-slashes in it as escapes."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def table(catalog: str, name: LakeName, branch: str = "") -> str:
    """Returns the identifier of a table, or of one branch of it."""
    parts = [catalog, name.namespace, name.name, *([f"branch_{branch}"] if branch else [])]
    return ".".join(quote(part) for part in parts)


def create_namespace(catalog: str, name: LakeName) -> str:
    """Creates the namespace of a table."""
    return f"CREATE NAMESPACE IF NOT EXISTS {quote(catalog)}.{quote(name.namespace)}"


def create_table(
    catalog: str,
    name: LakeName,
    schema: TableSchema,
    own_columns: Mapping[str, tuple[str, str]],
    properties: Mapping[str, str],
    parted_by: str = "",
) -> str:
    """Creates the table with the source's columns and ours.

    Only key columns are required: a column that the source drops must be able to stay empty. Rows
    of several source tables are partitioned by table, so that one can be replaced or read by
    itself.
    """
    columns = [_column(each, required=each.name in schema.key) for each in schema.columns]
    own = [f"{quote(n)} {t} COMMENT {text(c)}" for n, (t, c) in own_columns.items()]
    comment = f"\nCOMMENT {text(schema.comment)}" if schema.comment else ""
    return (
        f"CREATE TABLE IF NOT EXISTS {table(catalog, name)} (\n  "
        + ",\n  ".join([*columns, *own])
        + f"\n) USING iceberg{_parted(schema.shard_column or parted_by)}{comment}\n"
        f"TBLPROPERTIES ({_properties(properties)})"
    )


def _parted(column: str) -> str:
    return f"\nPARTITIONED BY ({quote(column)})" if column else ""


def create_side_table(
    catalog: str, name: LakeName, columns: Sequence[tuple[str, str]], properties: Mapping[str, str]
) -> str:
    """Creates one of our own tables, with columns as ``(name, type)``."""
    rows = ",\n  ".join(f"{quote(column)} {type_}" for column, type_ in columns)
    return (
        f"CREATE TABLE IF NOT EXISTS {table(catalog, name)} (\n  {rows}\n) USING iceberg\n"
        f"TBLPROPERTIES ({_properties(properties)})"
    )


def add_side_column(catalog: str, name: LakeName, column: str, type_: str) -> str:
    """Adds a column to one of our own tables."""
    return f"ALTER TABLE {table(catalog, name)} ADD COLUMNS ({quote(column)} {type_})"


def set_identifier(catalog: str, name: LakeName, key: Sequence[str]) -> str:
    """Makes the key columns Iceberg's identifier fields."""
    return f"ALTER TABLE {table(catalog, name)} SET IDENTIFIER FIELDS {_names(key)}"


def set_properties(catalog: str, name: LakeName, properties: Mapping[str, str]) -> str:
    """Sets table properties."""
    return f"ALTER TABLE {table(catalog, name)} SET TBLPROPERTIES ({_properties(properties)})"


def add_columns(catalog: str, name: LakeName, columns: Sequence[Column]) -> str:
    """Adds optional columns."""
    added = ", ".join(_column(each, required=False) for each in columns)
    return f"ALTER TABLE {table(catalog, name)} ADD COLUMNS ({added})"


def add_own_columns(catalog: str, name: LakeName, own: Mapping[str, tuple[str, str]]) -> str:
    """Adds columns of ours, with types and comments by name."""
    added = ", ".join(f"{quote(n)} {type_} COMMENT {text(c)}" for n, (type_, c) in own.items())
    return f"ALTER TABLE {table(catalog, name)} ADD COLUMNS ({added})"


def drop_identifier(catalog: str, name: LakeName, columns: Sequence[str]) -> str:
    """Makes these columns none of Iceberg's identifier fields any more."""
    return f"ALTER TABLE {table(catalog, name)} DROP IDENTIFIER FIELDS {_names(columns)}"


def make_optional(catalog: str, name: LakeName, column: str) -> str:
    """Lets a column be NULL."""
    return f"ALTER TABLE {table(catalog, name)} ALTER COLUMN {quote(column)} DROP NOT NULL"


def mark_living(catalog: str, name: LakeName) -> str:
    """Marks the rows without a mark as not deleted."""
    target = table(catalog, name)
    return f"UPDATE {target} SET {DELETED} = false WHERE {DELETED} IS NULL"  # noqa: S608 - quoted


def widen_column(catalog: str, name: LakeName, column: Column) -> str:
    """Gives a column a wider type."""
    return (
        f"ALTER TABLE {table(catalog, name)} ALTER COLUMN {quote(column.name)} TYPE {column.type}"
    )


def rename_column(catalog: str, name: LakeName, was: str, now: str) -> str:
    """Renames a column."""
    return f"ALTER TABLE {table(catalog, name)} RENAME COLUMN {quote(was)} TO {quote(now)}"


def comment_on_columns(catalog: str, name: LakeName, comments: Mapping[str, str]) -> str:
    """Sets comments on columns, all in one commit."""
    said = ", ".join(f"{quote(column)} COMMENT {text(each)}" for column, each in comments.items())
    return f"ALTER TABLE {table(catalog, name)} ALTER COLUMN {said}"


def drop_columns(catalog: str, name: LakeName, columns: Sequence[str]) -> str:
    """Drops those columns that exist."""
    return f"ALTER TABLE {table(catalog, name)} DROP COLUMNS IF EXISTS ({_names(columns)})"


def drop_partition_field(catalog: str, name: LakeName, field: str) -> str:
    """Drops a field, by its name, from the partition of files that are written from now on."""
    return f"ALTER TABLE {table(catalog, name)} DROP PARTITION FIELD {quote(field)}"


def add_partition_field(catalog: str, name: LakeName, term: Term, field: str) -> str:
    """Adds a field, with a name, to the partition of files that are written from now on."""
    added = f"ADD PARTITION FIELD {_transformed(term)} AS {quote(field)}"
    return f"ALTER TABLE {table(catalog, name)} {added}"


def write_ordered(catalog: str, name: LakeName, order: Sequence[SortTerm]) -> str:
    """Sorts the rows of each file that is written from now on; without terms it sorts none."""
    if not order:
        return f"ALTER TABLE {table(catalog, name)} WRITE UNORDERED"
    terms = ", ".join(f"{_transformed(each.term)} {_direction(each)}" for each in order)
    return f"ALTER TABLE {table(catalog, name)} WRITE LOCALLY ORDERED BY {terms}"


def _direction(each: SortTerm) -> str:
    way = "DESC" if each.descending else "ASC"
    return f"{way} NULLS {'FIRST' if each.nulls_first else 'LAST'}"


def _transformed(term: Term) -> str:
    """Returns the transform as statements on tables write it."""
    if term.transform is Transform.IDENTITY:
        return quote(term.column)
    name = f"{term.transform}s" if term.transform.is_of_time else term.transform.value
    number = f"{term.number:d}, " if term.transform.has_number else ""
    return f"{name}({number}{quote(term.column)})"


def value_of(catalog: str, term: Term) -> str:
    """Returns the expression of a term's value, by the catalog's functions."""
    if term.transform is Transform.IDENTITY:
        return quote(term.column)
    return f"{quote(catalog)}.system.{_transformed(term)}"


def create_branch(catalog: str, name: LakeName, branch: str, snapshot_id: int | None) -> str:
    """Creates a branch from a snapshot, or an empty one if the table has no snapshot."""
    at = f" AS OF VERSION {snapshot_id}" if snapshot_id is not None else ""
    return f"ALTER TABLE {table(catalog, name)} CREATE BRANCH {quote(branch)}{at}"


def drop_branch(catalog: str, name: LakeName, branch: str) -> str:
    """Drops a branch; its files are removed by snapshot expiry."""
    return f"ALTER TABLE {table(catalog, name)} DROP BRANCH IF EXISTS {quote(branch)}"


def tag(catalog: str, name: LakeName, tag: str, snapshot_id: int) -> str:
    """Tags a snapshot, which keeps it from expiring."""
    named = f"CREATE OR REPLACE TAG {quote(tag)} AS OF VERSION {snapshot_id:d}"
    return f"ALTER TABLE {table(catalog, name)} {named}"


def drop_tag(catalog: str, name: LakeName, tag: str) -> str:
    """Drops a tag; its files are removed by snapshot expiry."""
    return f"ALTER TABLE {table(catalog, name)} DROP TAG IF EXISTS {quote(tag)}"


def drop_table(catalog: str, name: LakeName) -> str:
    """Drops a table and its files."""
    return f"DROP TABLE IF EXISTS {table(catalog, name)} PURGE"


def fast_forward(catalog: str, name: LakeName, branch: str) -> str:
    """Moves ``main`` to the branch's head, if ``main`` is an ancestor of it."""
    return _called(catalog, "fast_forward", name, f"branch => 'main', to => {text(branch)}")


def set_current_snapshot(catalog: str, name: LakeName, snapshot_id: int) -> str:
    """Makes a snapshot the head of ``main``, wherever that was."""
    return _called(catalog, "set_current_snapshot", name, f"snapshot_id => {snapshot_id:d}")


def compact(
    catalog: str, name: LakeName, options: Mapping[str, object], *, in_order: bool = False
) -> str:
    """Combines small files, and rewrites files whose rows are deleted.

    Options: https://iceberg.apache.org/docs/latest/spark-procedures/#rewrite_data_files

    Args:
        catalog: its name.
        name: of the table.
        options: of the procedure.
        in_order: whether to sort the rows of all files of a partition by the table's sort order.
            Otherwise rows are sorted within each file alone.
    """
    named = ", ".join(f"{text(key)}, {text(str(each))}" for key, each in options.items())
    order = "strategy => 'sort', " if in_order else ""
    return _called(catalog, "rewrite_data_files", name, f"{order}options => map({named})")


def merge_manifests(catalog: str, name: LakeName) -> str:
    """Rewrites the manifests into fewer."""
    return _called(catalog, "rewrite_manifests", name, "use_caching => false")


def expire_snapshots(catalog: str, name: LakeName, snapshots: Sequence[int]) -> str:
    """Expires these snapshots and no others, with the files that only they have.

    Without a time Iceberg would also expire snapshots older than the table's properties say.
    """
    ids = ", ".join(f"{each:d}L" for each in snapshots)
    alone = "older_than => TIMESTAMP '1970-01-02 00:00:00'"
    return _called(catalog, "expire_snapshots", name, f"{alone}, snapshot_ids => array({ids})")


def remove_orphans(catalog: str, name: LakeName, before: datetime, *, by_prefix: bool) -> str:
    """Removes files below the table's location that no snapshot names, older than a time (UTC).

    Args:
        catalog: its name.
        name: of the table.
        before: the time.
        by_prefix: whether to list files through the table's own access to files, as that of
            stores can; otherwise Spark needs a file system for the scheme of the location.
    """
    older = f"older_than => TIMESTAMP '{before.astimezone(UTC):%Y-%m-%d %H:%M:%S}'"
    listed = ", prefix_listing => true" if by_prefix else ""
    return _called(catalog, "remove_orphan_files", name, f"{older}{listed}")


def _called(catalog: str, procedure: str, name: LakeName, arguments: str) -> str:
    own = text(f"{quote(name.namespace)}.{quote(name.name)}")
    return f"CALL {quote(catalog)}.system.{procedure}(table => {own}, {arguments})"


def delete_where(catalog: str, name: LakeName, condition: str = "true") -> str:
    """Deletes rows of one of our own tables; without a condition all, by metadata alone."""
    return f"DELETE FROM {table(catalog, name)} WHERE {condition}"  # noqa: S608 - ours


def at_or_after(offsets: Mapping[int, int]) -> str:
    """Returns the condition on entries of other partitions, or at or after their offset."""
    below = (f"(partition = {p:d} AND offset < {at:d})" for p, at in offsets.items())
    return f"NOT ({' OR '.join(below) or 'false'})"


def place_below(place: int) -> str:
    """Returns the condition on entries whose position's last number is lower."""
    return f"substring({POSITION}, -8) < X'{place:016x}'"


def of_shard(shard: Shard | None) -> str:
    """Returns the condition on rows of a shard; without a shard all rows satisfy it."""
    return "true" if shard is None else f"{quote(shard.column)} = {text(shard.value)}"


def delete_keys(target: str, view: str, key: Sequence[str], or_none: Sequence[str] = ()) -> str:
    """Deletes the rows whose key is in the view; of columns ``or_none`` they may have NULL, too.

    Broadcast keeps the table from being shuffled: the keys go to every task, which then reads
    only the table's key columns.
    """
    same = _same(key, or_none)
    keys = f"SELECT /*+ BROADCAST(b) */ 1 FROM {quote(view)} AS b WHERE {same}"  # noqa: S608
    return f"DELETE FROM {target} AS t WHERE EXISTS ({keys})"  # noqa: S608 - quoted names


def delete_older(target: str, position: str, shard: Shard | None = None) -> str:
    """Deletes the rows that a truncate removes: those below its position (hexadecimal)."""
    return f"DELETE FROM {target} WHERE {_mine(shard)}{_older(position)}"  # noqa: S608 - quoted


def end_older(target: str, position: str, ended: Mapping[str, tuple[str, str]]) -> str:
    """Ends all current versions that a truncate removes: those older than its position.

    Args:
        target: the table.
        position: of the truncate, hexadecimal.
        ended: the values to record in them about the truncate: text and type by column.
    """
    sets = {CURRENT: "false", **{name: _typed(*each) for name, each in ended.items()}}
    said = ", ".join(f"{name} = {value}" for name, value in sets.items())
    return f"UPDATE {target} SET {said} WHERE {CURRENT} AND {_older(position)}"  # noqa: S608 - ours


def _typed(value: str, type_: str) -> str:
    if not value:
        return f"CAST(NULL AS {type_})"
    match type_:
        case "binary":
            return f"X'{bytes.fromhex(value).hex()}'"
        case "timestamp":
            return f"timestamp_micros({int(value):d})"
        case _:
            return f"CAST({text(value)} AS {type_})"


Mark = tuple[str, int | None]
"""Position (hexadecimal) and time (microseconds since 1970, if known) of a truncate."""


def mark_older(target: str, marks: Sequence[Mark], shard: Shard | None = None) -> str:
    """Marks, in tables that keep deleted rows, those that truncates remove: see `first_newer`."""
    mark = first_newer(marks, POSITION)
    sets = f"{DELETED} = true, {DELETED_AT} = {mark}.at, {POSITION} = {mark}.position"
    older = f"{_mine(shard)}NOT {DELETED} AND {_older(marks[-1][0])}"
    return f"UPDATE {target} SET {sets} WHERE {older}"  # noqa: S608 - quoted names


def first_newer(marks: Sequence[Mark], position: str) -> str:
    """Returns the first mark above a position, NULL if there is none: a struct `position at`.

    Most rows are older than all marks, or newer; for these no mark is looked at one by one.

    Args:
        marks: lowest position first; at least one.
        position: column; NULL is below all.
    """
    structs = [_mark(*mark) for mark in marks]
    newer = f"filter(array({', '.join(structs)}), m -> m.position > {position})"
    return (
        f"(CASE WHEN {_older(marks[0][0], position)} THEN {structs[0]} "
        f"WHEN {_older(marks[-1][0], position)} THEN array_min({newer}) END)"
    )


def _mark(position: str, at_micros: int | None) -> str:
    bytes.fromhex(position)
    at = "CAST(NULL AS TIMESTAMP)" if at_micros is None else f"timestamp_micros({at_micros:d})"
    return f"named_struct('position', X'{position}', 'at', {at})"


def _mine(shard: Shard | None) -> str:
    return f"{of_shard(shard)} AND " if shard else ""


def _older(position: str, column: str = POSITION) -> str:
    bytes.fromhex(position)
    return f"({column} IS NULL OR {column} < X'{position}')"


def fill(target: str, values: Mapping[str, tuple[str, ColumnType]], shard: Shard | None) -> str:
    """Sets columns of all rows to values of these types, given as text; bytes as hexadecimal."""
    sets = ", ".join(f"{quote(name)} = {literal(*each)}" for name, each in values.items())
    return f"UPDATE {target} SET {sets} WHERE {of_shard(shard)}"  # noqa: S608 - quoted


def literal(value: str, type_: ColumnType) -> str:
    """Returns a literal of a type, from its text; bytes are hexadecimal."""
    if type_ is Primitive.BINARY:
        return f"X'{bytes.fromhex(value).hex()}'"
    return f"CAST({text(value)} AS {type_})"


def condition(of: RowCondition, schema: TableSchema, row: str) -> str:
    """Returns a condition over a struct of a table's columns."""

    def leaf(each: Leaf) -> str:
        type_ = schema.column(each.column).type
        is_number = type_ in {Primitive.INT, Primitive.LONG}
        zone = "+00:00" if type_ is Primitive.TIMESTAMPTZ else ""

        def constant(value: Constant) -> str:
            return literal(value.text + zone, Primitive.LONG if is_number else _wide(type_))

        name = f"{quote(row)}.{quote(each.column)}"
        return leaf_in_sql(each, name, constant, lambda p: f"{name} LIKE {text(p.text)}")

    return in_sql(of, leaf)


def _wide(type_: ColumnType) -> ColumnType:
    return Decimal(MAX_DECIMAL_DIGITS, type_.scale) if isinstance(type_, Decimal) else type_


def update_changed(
    target: str, view: str, key: Sequence[str], column: str, *, or_none: Sequence[str] = ()
) -> str:
    """Sets a column to the view's value for the row's key, where that differs.

    Of columns ``or_none`` the row may have NULL, too.
    """
    same = _same(key, or_none)
    ours, theirs = f"t.{quote(column)}", f"b.{quote(column)}"
    return (
        f"MERGE INTO {target} AS t USING {quote(view)} AS b ON {same}\n"
        f"WHEN MATCHED AND NOT ({ours} <=> {theirs}) THEN UPDATE SET {ours} = {theirs}"
    )


def _same(key: Sequence[str], or_none: Sequence[str]) -> str:
    equal = (f"t.{quote(name)} = b.{quote(name)}" for name in key)
    lax = (f"(t.{quote(name)} IS NULL OR t.{quote(name)} = b.{quote(name)})" for name in or_none)
    return " AND ".join((*equal, *lax))


def _column(column: Column, *, required: bool) -> str:
    constraint = " NOT NULL" if required else ""
    comment = f" COMMENT {text(column.comment)}" if column.comment else ""
    return f"{quote(column.name)} {column.type}{constraint}{comment}"


def _names(names: Sequence[str]) -> str:
    return ", ".join(quote(name) for name in names)


def _properties(properties: Mapping[str, str]) -> str:
    return ", ".join(f"{text(key)} = {text(value)}" for key, value in sorted(properties.items()))
