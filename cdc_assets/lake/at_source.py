"""Stores in a lake table's properties the state of its source's table.

A rebuild that is swapped in brings a state of its own, which must be the table's from the commit of
the swap on, neither before nor after. So that publish carries it (`Carried.at_source`), under an
id, and the next ones carry it on. It counts until the properties name the id, too: whatever they
say without it was stored before.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final

from cdc_assets.changes.renamed import RenamedTable
from cdc_assets.lake.properties import PREFIX
from cdc_assets.lake.state import TableState
from cdc_assets.schema.history import StatementHistory
from cdc_assets.schema.silent import (
    CatalogLook,
    SilentChange,
    list_from_json,
    list_to_json,
    without,
)

AT_SOURCE: Final = PREFIX + "at-source."
"""Start of the properties' names."""

_NAMES: Final = ("identity", "history", "barrier", "renamed", "since", "look", "silent")
_PROVEN: Final = "proven"

_MANY: Final = 100
"""Most statements on other tables that a batch may read again."""


@dataclass(frozen=True, slots=True)
class AtSource:
    """The state of one table, or one shard, at the source at the last look.

    Attributes:
        identity: distinguishes it from another table of its name; None if it was never looked at.
        history: its history through statements; None where none are sent.
        barrier: position of the newest place before which all rows were another table's,
            hexadecimal; empty without one.
        renamed: its present name, if that differs from the one it was found under.
        since: id of the swap of a rebuild that it is not older than; empty without one.
        look: what the newest look at the catalog left to compare with; None before the first.
        silent: changes of its rows without events, whose rows nothing has proven right since.
        proven: ids of such changes whose rows were proven right. Another process than that which
            finds changes writes them, as a property of their own.
        is_carried: whether it is carried by publishes, and the properties are older.
    """

    identity: str | None = None
    history: StatementHistory | None = None
    barrier: str = ""
    renamed: RenamedTable | None = None
    since: str = ""
    look: CatalogLook | None = None
    silent: tuple[SilentChange, ...] = ()
    proven: tuple[str, ...] = ()
    is_carried: bool = False

    @classmethod
    def of(cls, state: TableState | None, shard: str) -> AtSource:
        """Reads the state from the table's properties, or from a publish that is newer."""
        properties = state.properties if state else {}
        names = {name: _name(name, shard) for name in _NAMES}
        stored = {name: properties[n] for name, n in names.items() if n in properties}
        proven = tuple(properties.get(_name(_PROVEN, shard), "").split())
        carried = state.published.carried.at_source if state and state.published else {}
        if carried and stored.get("since") != carried["since"]:
            return replace(cls._read(carried, proven), is_carried=True)
        return cls._read(stored, proven)

    @classmethod
    def _read(cls, said: Mapping[str, str], proven: tuple[str, ...]) -> AtSource:
        history, renamed, look = said.get("history"), said.get("renamed"), said.get("look")
        return cls(
            identity=said.get("identity"),
            history=StatementHistory.from_json(history) if history else None,
            barrier=said.get("barrier", ""),
            renamed=RenamedTable.from_json(renamed) if renamed else None,
            since=said.get("since", ""),
            look=CatalogLook.from_json(look) if look else None,
            silent=without(list_from_json(said.get("silent", "")), proven),
            proven=proven,
        )

    def in_place_of(self, old: AtSource, swap: str, *, is_read: bool = False) -> dict[str, str]:
        """Returns a shadow table's state for the publish that swaps the shadow table in.

        Rows merged from the log lack the same silent changes as the old table's: these stay. Rows
        that were read from the source include the silent changes that were known when the reading
        began (``proven``).

        Args:
            old: the old table's state, which fills in unknown parts of this one.
            swap: an id of this swap.
            is_read: whether rows are from the source, or from a new snapshot of the source.
        """
        identity = old.identity if self.identity is None else self.identity
        look = (self.look or old.look) if is_read else (old.look or self.look)
        kept = without(old.silent, self.proven if is_read else ())
        mine = {each.id for each in self.silent}
        silent = (*(each for each in kept if each.id not in mine), *self.silent)
        history, renamed = self.history or old.history, old.renamed
        now = AtSource(identity, history, self.barrier, renamed, swap, look, silent)
        return now._texts()

    def for_reading(self, look: CatalogLook | None, shard: str) -> dict[str, str]:
        """Returns the properties of a shadow table whose rows are read from now on.

        Args:
            look: at the catalog, before any row is read; None if the source has no catalog.
            shard: of the table.
        """
        proven = " ".join(each.id for each in self.silent)
        begun = replace(self, look=look or self.look, silent=())
        return {**begun.to_properties(shard), _name(_PROVEN, shard): proven}

    def proven_since(
        self,
        before: AtSource,
        look: CatalogLook | None,
        shard: str,
        uncompared: Collection[str] = (),
    ) -> dict[str, str]:
        """Returns properties that record all rows as proven right; none if no property changes.

        Args:
            before: this state when the rows began to be looked at.
            look: at the catalog, right after that; None if there is none to look at.
            shard: of the table.
            uncompared: columns that were not looked at.
        """
        known = {each.id for each in before.silent}
        left = {each.id for each in without(self.silent, known, uncompared)}
        done = [each.id for each in self.silent if each.id not in left]
        said: dict[str, str] = {}
        if done:
            said[_name(_PROVEN, shard)] = " ".join((*self.proven, *done)[-_MANY:])
        look = look.after(before.look) if look is not None else None
        if look is not None and self.look == before.look != look and not self.is_carried:
            said[_name("look", shard)] = look.to_json()
        return said

    @property
    def standing(self) -> tuple[SilentChange, ...]:
        """The silent changes that still continued at the newest look."""
        return tuple(each for each in self.silent if each.is_standing)

    def to_properties(self, shard: str) -> dict[str, str]:
        """Returns properties that `of` reads."""
        return {_name(name, shard): text for name, text in self._texts().items()}

    def _texts(self) -> dict[str, str]:
        said = {"barrier": self.barrier, "silent": list_to_json(self.silent)}
        if self.identity is not None:
            said["identity"] = self.identity
        if self.history is not None:
            said["history"] = self.history.to_json()
        if self.renamed is not None:
            said["renamed"] = self.renamed.to_json()
        if self.look is not None:
            said["look"] = self.look.to_json()
        if self.since:
            said["since"] = self.since
        return said

    def renamed_to(self, topic: str) -> RenamedTable | None:
        """Returns the table's present name, if this topic has its changes; None otherwise."""
        return self.renamed if self.renamed is not None and self.renamed.topic == topic else None

    def is_to_follow(self, before: AtSource) -> bool:
        """Whether the state is worth writing: not for other tables' read statements alone."""
        if before.is_carried:
            return True
        if replace(self, history=None) != replace(before, history=None):
            return True
        if self.history is None or before.history is None:
            return self.history is not before.history
        if self.history.without_offsets != before.history.without_offsets:
            return True
        ends = before.history.next
        return any(at - ends.get(p, 0) >= _MANY for p, at in self.history.next.items())


def _name(what: str, shard: str) -> str:
    return f"{AT_SOURCE}{what}{'.' if shard else ''}{shard}"
