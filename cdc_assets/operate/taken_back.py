"""Finds the publishes that a rewind takes back and that merging the log again does not restore.

A rewind to a publish before a rebuild or a renaming is refused, so that those are never among them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cdc_assets.changes.publish_kind import PublishKind

_NAMES: Final[Mapping[str, str]] = {
    PublishKind.REPLAY: "replays",
    PublishKind.REPAIR: "repairs",
    PublishKind.RESNAPSHOT: "waves of a re-snapshot",
}


@dataclass(frozen=True, slots=True)
class TakenBack:
    """Publishes of one kind and table that the log alone does not bring back.

    Attributes:
        kind: a `PublishKind`, or one that this version does not know.
        table: the table that they belong to, or the shard if it is not replicated any more.
        publishes: how many there are.
    """

    kind: str
    table: str
    publishes: int

    @property
    def what(self) -> str:
        """Counts them, as ``2 replays``."""
        return f"{self.publishes} {_NAMES.get(self.kind, f'publishes of kind {self.kind}')}"

    def words(self) -> str:
        """Says how many are taken back, and what brings their rows back."""
        lost = f"{self.what} of {self.table} are taken back"
        once = f"{lost}, whose rows the log may not have: once the table has caught up,"
        match self.kind:
            case PublishKind.REPLAY:
                return f"{lost}: if they mended rows, merge their hours once more"
            case PublishKind.RESNAPSHOT:
                return f"{once} cdc-assets resnapshot --table {self.table}"
            case _:
                return f"{once} cdc-assets verify --repair --table {self.table}"

    def to_dict(self) -> dict[str, Any]:
        """Returns it for ``--json``."""
        return {"kind": str(self.kind), "table": self.table, "publishes": self.publishes}


def taken_back(
    publishes: Iterable[tuple[str, str]], tables: Mapping[str, str]
) -> tuple[TakenBack, ...]:
    """Returns which publishes the log alone does not bring back.

    Args:
        publishes: kind and shard of each that is taken back.
        tables: the tables by their shards.
    """
    counts = Counter(each for each in publishes if each[0] != PublishKind.TAIL)
    return tuple(
        TakenBack(kind, tables.get(shard, f"shard {shard}"), count)
        for (kind, shard), count in sorted(counts.items())
    )
