"""Moves ``main`` to a snapshot that it is no ancestor of, and tags of several tables at once.

Moving ``main`` is one commit, based on the last look:

1. The snapshot that ``main`` leaves gets a tag, which keeps it from expiring.
2. ``main`` is set to the other snapshot. Nothing is written: rows, deletion vectors and the
   snapshot's offsets are unchanged.
3. All branches of ours are removed. They were built on the snapshot that ``main`` leaves, a
   descendant of its new one: otherwise a writer that has looked could still fast-forward, and undo
   the move.

All of it happens, or nothing; and nothing if ``main`` has moved since the look. A REST catalog
compares that itself. For a catalog in a database the metadata file is written here, unchanged but
for these three things, and the row is changed if it still names the file that was read: as
Iceberg's own JDBC catalog does. PyIceberg does not write files of format version 3.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.serializers import Compressor
from pyiceberg.table import Table
from sqlalchemy import update
from sqlalchemy.orm import Session

from cdc_assets.changes.names import LakeName
from cdc_assets.errors import TerminalError
from cdc_assets.lake.references import (
    conflict,
    drop_refs,
    moves_branches,
    set_main,
    tag_tables,
)

Document = dict[str, Any]
"""The content of a metadata file."""

_VERSION: Final = re.compile(r"(?:.*/)?(\d+)-[^/]*")
_KEEP: Final = "write.metadata.previous-versions-max"
_KEPT: Final = 100
"""Iceberg's own default."""


def move_back(table: Table, to: int, tag: str, own: Iterable[str]) -> None:
    """Sets ``main`` to a snapshot, and tags the snapshot that ``main`` leaves.

    Args:
        table: as it was looked at.
        to: the new snapshot.
        tag: the tag's name, which must be free.
        own: the branches to remove.

    Raises:
        ConflictError: if ``main`` has changed since the look; for a catalog in a database, if
            anything of the table has.
        TerminalError: if the catalog has no way to do it in one commit.
    """
    if moves_branches(table.catalog):
        set_main(table, to, tag, own)
        return
    document = _read(table)
    _swap([(table, moved_back(document, to, tag, tuple(own), _now(document)))])


def drop_tags(table: Table, names: Iterable[str]) -> None:
    """Drops tags in one commit; raises as `move_back` does."""
    if moves_branches(table.catalog):
        drop_refs(table, names)
        return
    document, gone = _read(table), set(names)
    refs = {name: ref for name, ref in document["refs"].items() if name not in gone}
    _swap([(table, document | {"refs": refs})])


def set_tag(tables: Sequence[tuple[Table, int]], tag: str) -> bool:
    """Sets a tag on a snapshot of each table, wherever it was.

    Args:
        tables: of one catalog, each as it was looked at, with the snapshot.
        tag: the tag's name.

    Returns:
        Whether one commit did so for all; otherwise one table was changed after the other, or none
        was: catalogs like Hive's and Glue have their tags set by Spark alone.

    Raises:
        ConflictError: for a catalog in a database, if one of the tables has changed since the look.
    """
    moved = [(table, to) for table, to in tables if _tagged(table, tag) != to]
    if not moved:
        return True
    if not can_move_back(moved[0][0].catalog):
        return False
    if moves_branches(moved[0][0].catalog):
        return tag_tables(moved, tag)
    _swap([(table, tagged_as(_read(table), tag, to)) for table, to in moved])
    return True


def _tagged(table: Table, tag: str) -> int | None:
    ref = table.metadata.refs.get(tag)
    return ref.snapshot_id if ref else None


def tagged_as(document: Document, tag: str, to: int) -> Document:
    """Returns a metadata file's content with a tag on a snapshot, and no other change."""
    return document | {"refs": document["refs"] | {tag: {"snapshot-id": to, "type": "tag"}}}


def can_move_back(catalog: Catalog) -> bool:
    """Whether a catalog can move ``main`` in one commit that fails if the table has changed."""
    return moves_branches(catalog) or isinstance(catalog, SqlCatalog)


def moved_back(document: Document, to: int, tag: str, own: tuple[str, ...], now: int) -> Document:
    """Returns a metadata file's content with the three changes, and nothing else.

    Args:
        document: the content.
        to: the snapshot that ``main`` is set to.
        tag: the name of the tag on the snapshot that it leaves.
        own: branches to remove.
        now: milliseconds of the epoch.
    """
    refs: Mapping[str, Document] = document["refs"]
    main = refs["main"]
    moved = {name: ref for name, ref in refs.items() if name not in own}
    moved |= {
        "main": {**main, "snapshot-id": to},
        tag: {"snapshot-id": main["snapshot-id"], "type": "tag"},
    }
    log = [*document.get("snapshot-log", []), {"timestamp-ms": now, "snapshot-id": to}]
    return document | {"current-snapshot-id": to, "refs": moved, "snapshot-log": log}


def after(document: Document, was_at: str) -> Document:
    """Returns the content of the metadata file that follows the read one.

    Its time is that of the newest move of ``main``. A tag has none: by a clock a minute ahead of
    Spark's, Iceberg would refuse the next batches.
    """
    updated = document["last-updated-ms"]
    log = [*document.get("metadata-log", []), {"timestamp-ms": updated, "metadata-file": was_at}]
    most = int(document.get("properties", {}).get(_KEEP, _KEPT))
    moved = (each["timestamp-ms"] for each in document.get("snapshot-log", ()))
    return document | {"metadata-log": log[-most:], "last-updated-ms": max([updated, *moved])}


def next_file(was_at: str) -> str:
    """Returns the name of a table's next metadata file."""
    found = _VERSION.fullmatch(was_at)
    return f"{int(found[1]) + 1 if found else 0:05d}-{uuid.uuid4()}.metadata.json"


def _read(table: Table) -> Document:
    if not isinstance(table.catalog, SqlCatalog):
        what = "a catalog of this type cannot set a table back in one commit"
        remedy = "use a catalog of type rest or sql, or rebuild the table: cdc-assets rebuild TABLE"
        raise TerminalError(what, where=f"lake={LakeName(*table.name())}", remedy=remedy)
    at = table.metadata_location
    with (
        table.io.new_input(at).open() as raw,
        Compressor.get_compressor(at).stream_decompressor(raw) as plain,
    ):
        return json.loads(plain.read())


def _now(document: Document) -> int:
    """Returns milliseconds of the epoch; times in a table's logs never fall, whatever clocks do."""
    return max(round(time.time() * 1000), document["last-updated-ms"])


def _swap(changed: Sequence[tuple[Table, Document]]) -> None:
    """Writes the next metadata file of each table, and commits all if all were still the read ones.

    A file that is written and not committed is an orphan, which upkeep removes.
    """
    at = [(table, _written(table, document)) for table, document in changed]
    catalog = changed[0][0].catalog
    if not isinstance(catalog, SqlCatalog):  # pragma: no cover - they were read from one
        raise conflict(LakeName(*changed[0][0].name()))
    with Session(catalog.engine) as session:
        for table, new in at:
            if not _is_swapped(session, catalog, table, new):
                session.rollback()
                raise conflict(LakeName(*table.name()))
        session.commit()


def _written(table: Table, document: Document) -> str:
    at = table.location_provider().new_metadata_location(next_file(table.metadata_location))
    content = after(document, table.metadata_location)
    with table.io.new_output(at).create() as file:
        file.write(json.dumps(content, separators=(",", ":")).encode())
    return at


def _is_swapped(session: Session, catalog: SqlCatalog, table: Table, at: str) -> bool:
    row, was_at = IcebergTables, table.metadata_location
    namespace, name = table.name()
    mine = (
        row.catalog_name == catalog.name,
        row.table_namespace == namespace,
        row.table_name == name,
        row.metadata_location == was_at,
    )
    changed = update(row).where(*mine)
    done = session.execute(changed.values(metadata_location=at, previous_metadata_location=was_at))
    return getattr(done, "rowcount", 0) == 1
