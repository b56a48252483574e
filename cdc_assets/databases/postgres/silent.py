"""Finds rows of PostgreSQL's tables that changed without an event in the log.

What is published under the root's name of a partitioned table has no event for partitions that are
detached, dropped, attached or truncated (CREATE PUBLICATION, ``publish_via_partition_root``). A
statement that rewrites a table has none for its rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from cdc_assets.schema.silent import CatalogLook, SilentChange, SilentKind

NO_FILES: Final = "0"
"""The file number of what holds no rows of its own."""

_NAMED: Final = 5
_REWRITTEN, _PARTITIONS = SilentKind.REWRITTEN, SilentKind.PARTITIONS


def changes(
    before: CatalogLook, now: CatalogLook, attached: Sequence[str]
) -> Iterator[SilentChange]:
    """Yields the changes between two looks at a table.

    Args:
        before: the look before.
        now: this one.
        attached: numbers of partitions that have rows and were attached after they were made.
    """
    gone = [
        n for key, (n, files) in before.parts.items() if files != NO_FILES and key not in now.parts
    ]
    came = [now.parts[key][0] for key in attached if key in now.parts and key not in before.parts]
    if gone:
        yield SilentChange(_PARTITIONS, f"{_some(gone, 'partition')} detached or dropped")
    if came:
        yield SilentChange(_PARTITIONS, f"{_some(came, 'partition')} attached with rows")
    yield from _written_anew(before, now)
    yield from _relabelled(before, now)
    if now.published and set(before.published) - set(now.published):
        why = "it was taken out of a publication and may have been put in again"
        yield SilentChange(SilentKind.UNLOGGED, f"{why}: changes in between were not sent")


def _written_anew(before: CatalogLook, now: CatalogLook) -> Iterator[SilentChange]:
    """Yields rows that have other files, and why if a column's definition changed with them.

    ``ALTER TABLE … TYPE … USING`` and a default that differs by row do so; VACUUM FULL, CLUSTER and
    TRUNCATE leave definitions alone.
    """
    parts = [
        name
        for key, (name, files) in now.parts.items()
        if files != NO_FILES and key in before.parts and before.parts[key][1] != files
    ]
    if before.files == now.files and not parts:
        return
    altered = tuple(
        of[0] for key, of in now.columns.items() if before.columns.get(key, of[:1])[1:] != of[1:]
    )
    if altered:
        why = f"{_some(altered, 'column')} altered or added while the table was written anew"
        yield SilentChange(_REWRITTEN, f"{why}: older rows may have other values", altered)
    elif parts:
        why = f"{_some(parts, 'partition')} truncated, or written anew (VACUUM FULL, CLUSTER)"
        yield SilentChange(_REWRITTEN, f"{why}: a partition's TRUNCATE has no event")
    else:
        why = "the table was written anew (VACUUM FULL, CLUSTER), or truncated without an event"
        yield SilentChange(_REWRITTEN, why, is_over_with_truncate=True)


def _relabelled(before: CatalogLook, now: CatalogLook) -> Iterator[SilentChange]:
    labels = [
        f"'{before.labels[key]}' is '{label}'"
        for key, label in now.labels.items()
        if before.labels.get(key, label) != label
    ]
    if labels:
        more = f" and {len(labels) - _NAMED} more" if len(labels) > _NAMED else ""
        why = f"labels of an enumeration were renamed: {', '.join(labels[:_NAMED])}{more} now"
        yield SilentChange(_REWRITTEN, f"{why}, in older rows too")


def _some(names: Sequence[str], what: str) -> str:
    """Returns some names with what they are and a verb."""
    shown = ", ".join(names[:_NAMED])
    if len(names) == 1:
        return f"{what} {shown} was"
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{what}s {shown}{more} were"
