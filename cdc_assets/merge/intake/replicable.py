"""Refuses tables that cannot be replicated exactly, by records, database or names.

Chooses the key of a new table: the columns that identify its rows, in every change of them.

The key of a table's records is its primary key, unless somebody has said otherwise
(``message.key.columns``, transformations of keys). Then

- an update that changes the record's key may come as an update without the row before it
  (PostgreSQL logs that only for its replica identity), and the row under the former key would stay;
- two rows may have one such key, and would become one.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from cdc_assets.changes.names import HELPERS
from cdc_assets.changes.position import Scheme
from cdc_assets.config import SourceConfig
from cdc_assets.databases.catalog import SourceTable
from cdc_assets.errors import ConfigError, TerminalError
from cdc_assets.formats.layout import Layout
from cdc_assets.formats.names import spellings
from cdc_assets.formats.order import order_of
from cdc_assets.formats.sample import Refusal, Sample
from cdc_assets.log.kafka import KafkaLog
from cdc_assets.merge.statements.own_columns import ALL_OWN_COLUMNS, RESERVED
from cdc_assets.registry import TableEntry, Taken
from cdc_assets.schema.described import Described
from cdc_assets.schema.overrides import require_column
from cdc_assets.schema.types import Column, TableSchema

_BY_PARTITION: Final = (
    "it is a partitioned table whose changes come under the names of its partitions: this topic "
    "holds a snapshot at most, and would stand still"
)
_BY_ROOT: Final = (
    "ALTER PUBLICATION … SET (publish_via_partition_root = true), leave the partitions out of the "
    "connector, whose snapshot reads them too (table.exclude.list), delete the topics of table and "
    "partitions, and take a new snapshot; or capture the partitions only (table.include.list)"
)


def require_fields(entry: TableEntry, refusal: Refusal | None) -> None:
    """Refuses a table whose records do not hold the fields that replication needs.

    Raises:
        TerminalError: if something is missing.
    """
    if refusal is not None:
        where = f"table={entry.table} topic={entry.topic}"
        raise TerminalError(refusal.what, where=where, remedy=refusal.remedy)


def require_sent(
    source: SourceConfig,
    log: KafkaLog,
    entry: TableEntry,
    table: SourceTable,
    publication: str | None,
) -> None:
    """Refuses a table whose topic does not hold all rows and their changes.

    Raises:
        TerminalError: if it does not.
    """
    where = f"table={entry.table} topic={entry.topic}"
    if table.sent_by_partition(publication):
        raise TerminalError(_BY_PARTITION, where=where, remedy=_BY_ROOT)
    related = (*([table.root] if table.root is not None else []), *table.partitions)
    own = next(
        (each for each in spellings(entry.at_source.qualified) if entry.topic.endswith(each)), None
    )
    topics = log.topics() if related and own is not None else ()
    prefix = entry.topic.removesuffix(own or "")
    known = [
        t for each in related for n in spellings(".".join(each)) if (t := prefix + n) in topics
    ]
    if known:
        what = (
            "it is a partitioned table or a partition of one, and there are topics of both "
            f"({known[0]}): its rows came under one name, changes of them under the other"
        )
        raise TerminalError(what, where=where, remedy=_BY_ROOT)
    overrides = source.overrides(entry.table)
    if table.filters_rows(publication) and overrides.row_filter == "fail":
        what = "its publication leaves rows out (WHERE): those of a snapshot would never change"
        remedy = (
            "drop the row filter; or if the connector's snapshot leaves the same rows out "
            "(snapshot.select.statement.overrides), set row_filter: accept for the table"
        )
        raise TerminalError(what, where=where, remedy=remedy)


def require_one_database(entry: TableEntry, samples: Sample) -> str:
    """Returns the database above the table's schema; empty if the database does not matter.

    Raises:
        TerminalError: if the topic holds changes of tables of this name in several databases.
    """
    if entry.taken is Taken.ALL:
        return ""
    if len(samples.databases) > 1:
        what = (
            f"its topic holds changes of {len(samples.databases)} tables of this name, in "
            f"databases {', '.join(samples.databases)}"
        )
        where = f"table={entry.table} topic={entry.topic}"
        remedy = "have each written to a topic of its own, and make them two sources"
        raise TerminalError(what, where=where, remedy=remedy)
    return samples.databases[0] if samples.databases else ""


def require_countable(source: SourceConfig, entry: TableEntry, layout: Layout) -> None:
    """Checks that rows without a key can be counted, which needs repeated events recognized.

    Raises:
        TerminalError: if they cannot be, or the configuration forbids counting.
    """
    where = f"table={entry.table} topic={entry.topic}"
    remedy = "name key columns under tables.<schema.table>.primary_key"
    if not order_of(layout.scheme).tells_repeats:
        what = "the table has no primary key, and its events have no position that shows repeats"
        raise TerminalError(what, where=where, remedy=remedy, page="keyless-positions")
    if source.overrides(entry.table).deletes == "soft":
        what = "deletes: soft needs a key, which the table and its records have not"
        raise TerminalError(what, where=where, remedy=remedy)


def require_excludable(described: Described, names: Sequence[str], where: str) -> None:
    """Refuses to leave out columns that the table does not have, or needs.

    Raises:
        ConfigError: if there is one; a mistyped name would let through what must not be seen.
    """
    for name in names:
        require_column(name, described, where)
        if name in described.key:
            what = f"the configuration excludes {name!r}, a column of the table's key"
            remedy = "mask it instead ({mask: sha256}), or name another primary_key"
            raise ConfigError(what, where=where, remedy=remedy)


def require_usable(schema: TableSchema, where: str, own: Collection[str]) -> None:
    """Refuses names that are impossible in the lake.

    Raises:
        TerminalError: if there is one.
    """
    taken = [repr(name) for name in schema.names if _is_reserved(name, own)]
    if taken:
        what = (
            f"columns {', '.join(taken)} carry names that Iceberg or the lake tables reserve, "
            "or that are no text"
        )
        raise TerminalError(what, where=where, remedy="rename or exclude them at the connector")


def sharded(entry: TableEntry, schema: TableSchema) -> TableSchema:
    """Adds the shard to the key of a table that shares a lake table with others.

    Raises:
        TerminalError: if it has no key, or a column of that name.
    """
    if entry.shard is None:
        return schema
    where, column = f"table={entry.table} topic={entry.topic}", entry.shard.column
    if not schema.key:
        what = "the table has no key: its rows cannot be merged with those of others"
        remedy = "name key columns under tables.<schema.table>.primary_key, or leave it out there"
        raise TerminalError(what, where=where, remedy=f"{remedy} (merge_into)")
    is_taken = column.casefold() in {name.casefold() for name in schema.names}
    if is_taken or _is_reserved(column, ALL_OWN_COLUMNS):
        whose = "the table" if is_taken else "the lake"
        what = f"{whose} has a column {column!r}, as merge_into would name that of the shard"
        raise TerminalError(what, where=where, remedy="choose another merge_into.shard_column")
    return schema.with_shard(column)


def _is_reserved(name: str, own: Collection[str]) -> bool:
    """Whether the lake cannot have a name; Spark does not tell ``A`` from ``a``."""
    plain = name.casefold()
    is_ours = plain in own or plain.startswith(HELPERS)
    return is_ours or name in {*RESERVED, ""} or _is_no_text(name)


def _is_no_text(name: str) -> bool:
    """Whether a name holds half a surrogate, or U+0000, which ends text for many readers."""
    return any(each == "\0" or unicodedata.category(each) == "Cs" for each in name)


_SEVERAL: Final = 2
_SAME: Final = "several rows may have one of its values, or none"
_DOUBTS: Final = {
    Scheme.POSTGRES: "updates and deletes do not tell it without REPLICA IDENTITY FULL",
    **dict.fromkeys((Scheme.BINLOG, Scheme.MARIADB, Scheme.SQLSERVER, Scheme.ORACLE), _SAME),
}
"""Effects of a key other than the primary key, by the scheme of databases with such keys."""

_NAME_IT: Final = (
    "name the table's key under tables.<schema.table>.primary_key, or configure database:, which "
    "tells it"
)


def keyed(
    entry: TableEntry, described: Described, samples: Sample, table: SourceTable | None
) -> Described:
    """Returns a description with the table's key.

    That is the key of the records, as it decides which partition a row is in; but the primary key
    of a database's catalog, if the records' is not known to identify rows.

    Args:
        entry: the table.
        described: its columns.
        samples: its first records.
        table: from the catalog; None without one.

    Raises:
        TerminalError: if the records' key is known not to identify rows.
    """
    names, known = samples.key_names, {*described.names}
    if table is not None and table.primary_key and known.issuperset(table.primary_key):
        return replace(described, key=names if table.identifies(names) else table.primary_key)
    key = names or described.key
    strange = [name for name in key if name not in known]
    if strange:
        what = (
            f"the key of its records has {', '.join(map(repr, strange))}, which no row has: it "
            "does not say which row a change is of"
        )
        raise TerminalError(what, where=_where(entry), remedy=_NAME_IT)
    if table is None or not (table.logs_whole_rows or table.identifies(key)):
        _require_primary_key(entry, described, samples, key)
    return replace(described, key=key)


def require_in_one_partition(
    entry: TableEntry, samples: Sample, table: SourceTable | None, partitions: int
) -> None:
    """Refuses a table whose row may be deleted in one partition and created in another.

    Where the row before an update is logged, the connector sends an update that changes the
    record's key as a delete and a create: of one row, if that is not the primary key. They have one
    position, and offsets of two partitions do not say which of them is the newer one.

    Raises:
        TerminalError: if it is one.
    """
    names = samples.key_names
    if table is None or not names or not table.primary_key or partitions < _SEVERAL:
        return
    if table.identifies(names) or not table.logs_whole_rows:
        return
    what = (
        f"the key of its records ({', '.join(names)}) is not the primary key, which "
        f"identifies rows, and its topic has {partitions} partitions: a row whose record's key "
        "changes is deleted in one and created in another, in no order"
    )
    remedy = (
        "make the primary key the record's (message.key.columns), or write the topic with one "
        "partition, and take a new snapshot"
    )
    raise TerminalError(what, where=_where(entry), remedy=remedy)


def require_same_key(
    entry: TableEntry, table: TableSchema, there: SourceTable, at_source: Mapping[str, int]
) -> None:
    """Requires that the lake's key still identifies the rows of a table at its source.

    A column that the lake does not have yet comes with its first record.

    Args:
        entry: the table.
        table: the lake's columns, with a key.
        there: the table at its source.
        at_source: the numbers of its columns there, 0 if unknown.

    Raises:
        TerminalError: if the table has another primary key by now.
    """
    mine = table.of_source
    numbers = {c.identity.number: c.name for c in mine.columns if c.identity.number}
    sent = {each.sent_as: each.name for each in mine.columns}
    called = {name: numbers.get(at_source[name]) or sent.get(name) for name in there.names}
    primary = {called.get(name) for name in there.primary_key}
    now = [name for name in there.names if called[name] in mine.key]
    if None in primary or primary <= {*mine.key} or there.identifies(now):
        return
    what = (
        f"the primary key is {', '.join(there.primary_key)} by now, and the key of the lake's "
        f"rows is {', '.join(mine.key)}: rows that differ elsewhere would be lost"
    )
    remedy = (
        "cdc-assets rebuild TABLE --from-source, or --from-snapshot; if the lake's key is "
        "unique, name it under tables.<schema.table>.primary_key"
    )
    raise TerminalError(what, where=_where(entry), remedy=remedy)


def _require_primary_key(
    entry: TableEntry, described: Described, samples: Sample, key: Sequence[str]
) -> None:
    """Refuses a key that cannot be a primary key.

    Raises:
        TerminalError: if it is one.
    """
    columns = {each.name: each for each in described.columns if isinstance(each, Column)}
    may_be_null = [n for n in key if n in columns and not columns[n].required]
    doubt = _DOUBTS.get(samples.scheme) if samples.described and samples.scheme else None
    if doubt is None or not may_be_null:
        return
    what = (
        f"the key of its records has {', '.join(may_be_null)}, which may be NULL: it is no primary "
        f"key (message.key.columns?), and {doubt}"
    )
    raise TerminalError(what, where=_where(entry), remedy=_NAME_IT)


def _where(entry: TableEntry) -> str:
    return f"table={entry.table} topic={entry.topic}"
