"""Describes silent changes: rows of a source's table that changed without an event for each.

The log has no record of silent changes, so the lake keeps the rows as they were. A database's
catalog, or a statement, shows that silent changes happened or may have: each look at the catalog is
compared with the previous look (`CatalogLook`), and the findings are stored with the lake table.
Only a later complete comparison with the source, or a later reading of the whole table from the
source, shows that the lake's rows are right.

How a catalog is compared is its database's affair: `cdc_assets.databases.catalog.SourceTable`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, assert_never
from uuid import uuid4

MOST: Final = 20
"""How many silent changes of one kind a table remembers: the newest."""


class SilentKind(StrEnum):
    """The kinds of silent changes, as the configuration names them."""

    CASCADES = "cascades"  # by foreign keys, which the binlog does not tell
    UNLOGGED = "unlogged"  # neither the log nor a publication has them
    PARTITIONS = "partitions"  # rows went or came with a whole partition
    REWRITTEN = "rewritten"  # a statement may have given rows other values, or removed them


class OnSilent(StrEnum):
    """The treatment of a table whose rows changed, or may have, without events."""

    STOP = "stop"
    MARK = "mark"  # it goes on, and is in doubt until it is compared
    IGNORE = "ignore"  # a person vouches for its rows


@dataclass(frozen=True, slots=True)
class SilentChange:
    """A silent change of a table's rows.

    Attributes:
        kind: its kind.
        why: what was seen, for people: names, and never a value of a row.
        columns: the lake's rows may differ in these only; empty if in any.
        is_standing: whether the change continues for as long as the catalog shows its cause.
        id: distinguishes the change from all others; empty before the change is stored.
        since: when the change was first seen; None before the change is stored.
        is_accepted: whether an operator let the table resume; its rows stay in doubt.
        is_over_with_truncate: whether a TRUNCATE explains the change, so that no silent change
            remains once the TRUNCATE is merged.
        truncated: highest position of a truncate that was merged when the change was first seen.
    """

    kind: SilentKind
    why: str
    columns: tuple[str, ...] = ()
    is_standing: bool = False
    id: str = ""
    since: datetime | None = None
    is_accepted: bool = False
    is_over_with_truncate: bool = False
    truncated: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Returns the change for JSON."""
        since = self.since.isoformat() if self.since else None
        return {**asdict(self), "columns": list(self.columns), "since": since}

    @classmethod
    def from_dict(cls, said: Mapping[str, Any]) -> SilentChange:
        """Reads what `to_dict` wrote."""
        since = said.get("since")
        return cls(
            SilentKind(said["kind"]),
            said["why"],
            tuple(said.get("columns", ())),
            said.get("is_standing", False),
            said.get("id", ""),
            datetime.fromisoformat(since) if since else None,
            said.get("is_accepted", False),
            said.get("is_over_with_truncate", False),
            said.get("truncated", ""),
        )


@dataclass(frozen=True, slots=True)
class CatalogLook:
    """The facts of one look at a table in its database's catalog, to compare the next look with.

    Attributes:
        columns: definitions of columns, by a number or name that stays the same; the first part
            is the present name. The parts are the database's affair.
        files: of the table's rows: the text changes whenever the rows were rewritten.
        parts: of each partition that holds rows, by its number: its name, and its ``files``.
        labels: of the columns' enumerations, by number.
        published: numbers of the table's entries in publications.
    """

    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    files: str = ""
    parts: Mapping[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    published: tuple[str, ...] = ()

    def after(self, before: CatalogLook | None) -> CatalogLook:
        """Returns the look, with the earlier look's publications if there are none now."""
        if before is None or self.published:
            return self
        return replace(self, published=before.published)

    def to_json(self) -> str:
        """Returns canonical text."""
        return json.dumps(asdict(self), separators=(",", ":"), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> CatalogLook:
        """Reads what `to_json` wrote."""
        said: dict[str, Any] = json.loads(text)
        return cls(
            {key: tuple(parts) for key, parts in said.get("columns", {}).items()},
            said.get("files", ""),
            {key: (name, files) for key, (name, files) in said.get("parts", {}).items()},
            said.get("labels", {}),
            tuple(said.get("published", ())),
        )


_DEFAULTS: Final = {
    SilentKind.CASCADES: OnSilent.STOP,
    SilentKind.UNLOGGED: OnSilent.STOP,
    SilentKind.PARTITIONS: OnSilent.STOP,
    SilentKind.REWRITTEN: OnSilent.MARK,
}


@dataclass(frozen=True, slots=True)
class SilentPolicy:
    """The treatment of each kind."""

    reactions: Mapping[SilentKind, OnSilent] = field(default_factory=lambda: _DEFAULTS)

    def heeded(self, changes: Iterable[SilentChange]) -> tuple[SilentChange, ...]:
        """Returns the changes that are not ignored."""
        return tuple(c for c in changes if self.reactions[c.kind] is not OnSilent.IGNORE)

    def stops(self, change: SilentChange) -> bool:
        """Whether the table stops at a change.

        A standing change that is over has had its full effect: the rows are in doubt.
        """
        if self.reactions[change.kind] is not OnSilent.STOP:
            return False
        match change.kind:
            case SilentKind.CASCADES | SilentKind.UNLOGGED:
                return change.is_standing
            case SilentKind.PARTITIONS | SilentKind.REWRITTEN:
                return not change.is_accepted
            case _:
                assert_never(change.kind)


def remembered(
    known: Sequence[SilentChange],
    found: Sequence[SilentChange],
    at: datetime,
    truncated: str = "",
) -> tuple[SilentChange, ...]:
    """Returns the changes to remember after a look.

    What is seen once more gets another id: a comparison that began before does not prove it.

    Args:
        known: those remembered before.
        found: all that the look has found, standing ones among them.
        at: the time of the look.
        truncated: highest position of a truncate that is merged, hexadecimal; empty without one.
    """
    known = [c for c in known if not (c.is_over_with_truncate and truncated > c.truncated)]
    seen, standing = {each.id for each in known}, [each for each in found if each.is_standing]
    again = {(c.kind, c.why) for c in found if not c.is_standing and c.id not in seen}
    kept = [
        each if each.is_standing and _same(each, standing) else _over(each, at)
        for each in known
        if each.is_standing or (each.kind, each.why) not in again
    ]
    new = [
        replace(each, id=each.id or str(uuid4()), since=at, truncated=truncated)
        for each in found
        if each.id not in seen and not (each.is_standing and _same(each, known))
    ]
    return tuple(_bounded([*kept, *new]))


def _same(change: SilentChange, among: Sequence[SilentChange]) -> bool:
    facts = (change.kind, change.why, change.is_standing)
    return facts in {(each.kind, each.why, each.is_standing) for each in among}


def _over(change: SilentChange, at: datetime) -> SilentChange:
    """Ends a standing change: the rows that it changed since the last comparison are in doubt."""
    if not change.is_standing:
        return change
    return replace(change, is_standing=False, id=str(uuid4()), since=at)


def _bounded(changes: Sequence[SilentChange]) -> Iterable[SilentChange]:
    for n, each in enumerate(changes):
        if sum(other.kind is each.kind for other in changes[n:]) <= MOST:
            yield each


def without(
    changes: Iterable[SilentChange], proven: Collection[str], uncompared: Collection[str] = ()
) -> tuple[SilentChange, ...]:
    """Returns the changes that remain after rows were proven right.

    Args:
        changes: those remembered.
        proven: ids of those that were remembered before the rows were looked at.
        uncompared: columns that were not compared, whose rows stay in doubt.
    """
    return tuple(
        each
        for each in changes
        if each.is_standing or each.id not in proven or not set(each.columns).isdisjoint(uncompared)
    )


def list_to_json(changes: Iterable[SilentChange]) -> str:
    """Returns changes as text; empty for none."""
    said = [each.to_dict() for each in changes]
    return json.dumps(said, separators=(",", ":"), sort_keys=True) if said else ""


def list_from_json(text: str) -> tuple[SilentChange, ...]:
    """Reads what `list_to_json` wrote."""
    return tuple(map(SilentChange.from_dict, json.loads(text))) if text else ()


def remedy_of(change: SilentChange, table: str) -> str:
    """Returns the remedy for a change that stops a table."""
    repair = f"cdc-assets verify --table {table} --repair"
    accept = f"silent_changes: {{{change.kind}: mark}}"
    match change.kind:
        case SilentKind.CASCADES if change.is_standing:
            first = "let the application, or a trigger, change these rows, and drop the rule"
        case SilentKind.UNLOGGED if change.is_standing:
            first = "have the source log and publish them"
        case _:
            return (
                f"cdc-assets accept-restart {table} (or {accept}) resumes with rows in doubt; then "
                f"{repair}, or cdc-assets rebuild {table} --from-snapshot"
            )
    return f"{first}, then {repair}; or set {accept}, and compare the table by a schedule (verify)"


def doubt_words(change: SilentChange) -> str:
    """Says why a table's rows are in doubt."""
    since = f", since {change.since:%Y-%m-%d %H:%M} UTC" if change.since else ""
    return f"rows may differ from the source's{since}: {change.why}"


def doubt_remedy(table: str) -> str:
    """Returns the commands that verify a table's rows, or repair them."""
    return f"cdc-assets verify --table {table} --repair, or cdc-assets resnapshot --table {table}"
