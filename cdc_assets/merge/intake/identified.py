"""Chooses the key of a new table: the columns that identify its rows, in every change of them.

The key of a table's records is its primary key, unless somebody has said otherwise
(``message.key.columns``, transformations of keys). Then

- an update that changes the record's key may come as an update without the row before it
  (PostgreSQL logs that only for its replica identity), and the row under the former key would stay;
- two rows may have one such key, and would become one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from cdc_assets.changes.position import Scheme
from cdc_assets.databases.catalog import SourceTable
from cdc_assets.errors import TerminalError
from cdc_assets.formats.sample import Sample
from cdc_assets.registry import TableEntry
from cdc_assets.schema.described import Described
from cdc_assets.schema.types import Column

_SEVERAL: Final = 2
_SAME: Final = "several rows may have one of its values, or none"
_DOUBTS: Final = {
    Scheme.POSTGRES: "updates and deletes do not tell it without REPLICA IDENTITY FULL",
    **dict.fromkeys((Scheme.BINLOG, Scheme.MARIADB, Scheme.SQLSERVER, Scheme.ORACLE), _SAME),
}
"""What a key that is no primary key does, by the scheme of databases that have some."""

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
        _require_told(entry, described, samples, key)
    return replace(described, key=key)


def require_in_one_partition(
    entry: TableEntry, samples: Sample, table: SourceTable | None, partitions: int
) -> None:
    """Refuses a table whose row may be deleted in one partition and be there again in another.

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
        f"the key of its records ({', '.join(names)}) is not the primary key, by which "
        f"rows are told, and its topic has {partitions} partitions: a row whose record's key "
        "changes is deleted in one and created in another, in no order"
    )
    remedy = (
        "make the primary key the record's (message.key.columns), or write the topic with one "
        "partition, and take a new snapshot"
    )
    raise TerminalError(what, where=_where(entry), remedy=remedy)


def _require_told(
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
