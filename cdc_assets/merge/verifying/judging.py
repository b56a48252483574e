"""Judges whether the source's row and the lake's rows of a key are the same, and what differs.

A key is judged if three reads show one version of its row:

1. the lake is read;
2. the source is read, with a place in its log that is after everything it shows;
3. the lake is read again, once it has merged everything up to that place.

If the lake has merged no change of the key from 1 to 3, the newest change that it knows of is from
before 2, and none came between that change and read 2. So read 3 must show what read 2 has shown.
Otherwise the key has changed meanwhile, and cannot be judged. It is right all the same if the
change has set all of its row. A change may leave out large values (TOAST): where these differ, or
the lake has several rows, it is doubtful.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

from cdc_assets.databases.rows import SourceKeyRows
from cdc_assets.merge.verifying.lake_rows import LakeKeyRows, LakeRow
from cdc_assets.schema.comparing import Comparison, Key


class DifferenceKind(StrEnum):
    """The kinds of difference."""

    MISSING = "missing in the lake"
    ONLY_IN_LAKE = "only in the lake"
    TWICE = "more than once in the lake"
    DIFFERENT = "different columns"


@dataclass(frozen=True, slots=True)
class Difference:
    """A key that differs.

    Attributes:
        key: its texts.
        kind: of the difference.
        columns: those that differ; empty unless the kind is ``DIFFERENT``.
        version: of the lake's rows, by which a change of the key is noticed.
        source_values: the source's values, for a repair; None if it has no such row.
        source_digest: the digest of that row; None likewise.
    """

    key: Key
    kind: DifferenceKind
    columns: tuple[str, ...]
    version: object
    source_values: tuple[str | None, ...] | None
    source_digest: str | None = None


@dataclass(frozen=True, slots=True)
class KeyVerdicts:
    """The result for some keys: those that differ, and those that changed meanwhile.

    ``doubtful``: number of the latter that may be wrong nevertheless.
    """

    differences: tuple[Difference, ...]
    changing: tuple[Key, ...]
    doubtful: int = 0


def judge(
    keys: Sequence[Key],
    before: LakeKeyRows,
    found: SourceKeyRows,
    after: LakeKeyRows,
    comparison: Comparison,
    omitted: Collection[int] = (),
) -> KeyVerdicts:
    """Judges some keys by the three reads (see the module).

    Args:
        keys: the keys.
        before: the lake's rows of them, see 1.
        found: the source's, see 2.
        after: the lake's, see 3.
        comparison: the columns.
        omitted: places of the columns that a change may leave out.
    """
    differences: list[Difference] = []
    changing: list[Key] = []
    doubtful = 0
    for key in keys:
        version, row, living = after.version(key), found.rows.get(key), after.living(key)
        if before.version(key) != version:
            changing.append(key)
            doubtful += _is_doubtful(row, living, omitted)
            continue
        difference = _difference(row, living, comparison)
        if difference is not None:
            kind, columns = difference
            values, digest = found.lake_texts.get(key), _row_digest(row)
            differences.append(Difference(key, kind, columns, version, values, digest))
    return KeyVerdicts(tuple(differences), tuple(changing), doubtful)


def _is_doubtful(
    row: tuple[str | None, ...] | None, living: Sequence[LakeRow], omitted: Collection[int]
) -> bool:
    if row is None or len(living) != 1:
        return len(living) > 1
    return any(_digest(row[n]) != living[0].columns[n] for n in omitted)


def _difference(
    row: tuple[str | None, ...] | None, rows: Sequence[LakeRow], comparison: Comparison
) -> tuple[DifferenceKind, tuple[str, ...]] | None:
    if row is None:
        return (DifferenceKind.ONLY_IN_LAKE, ()) if rows else None
    if not rows:
        return DifferenceKind.MISSING, ()
    if len(rows) > 1:
        return DifferenceKind.TWICE, ()
    here, there = map(_digest, row), rows[0].columns
    triples = zip(comparison.columns, here, there, strict=True)
    columns = tuple(column.name for column, one, other in triples if one != other)
    return (DifferenceKind.DIFFERENT, columns) if columns else None


def _row_digest(row: tuple[str | None, ...] | None) -> str | None:
    """Returns the same as `cdc_assets.merge.verifying.canonical.digest`."""
    if row is None:
        return None
    return _digest("".join("-" if text is None else f"{len(text)}:{text}" for text in row))


def _digest(text: str | None) -> str | None:
    """Returns the same as Spark's ``md5``."""
    if text is None:
        return None
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
