"""Stores in a lake table's properties the state of its source's table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from cdc_assets.changes.renamed import Renamed
from cdc_assets.lake.properties import PREFIX
from cdc_assets.lake.state import TableState
from cdc_assets.schema.history import History

AT_SOURCE: Final = PREFIX + "at-source."
"""Start of the properties' names."""

_MANY: Final = 100
"""How many statements on other tables each batch may read again."""


@dataclass(frozen=True, slots=True)
class AtSource:
    """One table, or one shard, as the source had it at the last look.

    Attributes:
        identity: distinguishes it from another table of its name; None if it was never looked at.
        history: its history through statements; None where none are sent.
        barrier: position of the newest place before which all rows were another table's,
            hexadecimal; empty without one.
        renamed: its present name, if that differs from the one it was found under.
    """

    identity: str | None = None
    history: History | None = None
    barrier: str = ""
    renamed: Renamed | None = None

    @classmethod
    def of(cls, state: TableState | None, shard: str) -> AtSource:
        """Reads the state from the table's properties."""
        said = state.properties if state else {}
        history = said.get(_name("history", shard))
        renamed = said.get(_name("renamed", shard))
        return cls(
            identity=said.get(_name("identity", shard)),
            history=History.from_json(history) if history else None,
            barrier=said.get(_name("barrier", shard), ""),
            renamed=Renamed.from_json(renamed) if renamed else None,
        )

    def to_properties(self, shard: str) -> dict[str, str]:
        """Returns properties that `of` reads."""
        said = {"barrier": self.barrier}
        if self.identity is not None:
            said["identity"] = self.identity
        if self.history is not None:
            said["history"] = self.history.to_json()
        if self.renamed is not None:
            said["renamed"] = self.renamed.to_json()
        return {_name(name, shard): text for name, text in said.items()}

    def renamed_to(self, topic: str) -> Renamed | None:
        """Returns the present name, if its changes come in this topic; None otherwise."""
        return self.renamed if self.renamed is not None and self.renamed.topic == topic else None

    def is_to_follow(self, before: AtSource) -> bool:
        """Returns whether it is worth writing; reading other tables' statements alone is not."""
        if replace(self, history=None) != replace(before, history=None):
            return True
        if self.history is None or before.history is None:
            return self.history is not before.history
        if self.history.told != before.history.told:
            return True
        ends = before.history.next
        return any(at - ends.get(p, 0) >= _MANY for p, at in self.history.next.items())


def _name(what: str, shard: str) -> str:
    return f"{AT_SOURCE}{what}{'.' if shard else ''}{shard}"
