"""Reports the comparison of a table: names, keys and counts, never another value of a row."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from cdc_assets.changes.names import TableName
from cdc_assets.merge.verifying.judging import Difference
from cdc_assets.schema.comparing import Sum, Uncompared

NAMED: Final = 1_000
"""Largest number of keys that are named; all are counted."""


@dataclass(frozen=True, slots=True)
class Position:
    """The places of both sides when they were last compared.

    Attributes:
        source: a place in the database's log, after everything that is reported.
        lake: next-to-read offsets of the table's newest publish then, as JSON.
        snapshot_id: of the lake table.
    """

    source: str = ""
    lake: str = ""
    snapshot_id: int | None = None


@dataclass(frozen=True, slots=True)
class ComparisonReport:
    """The report on one table.

    Attributes:
        table: the table.
        key: names of its key columns; empty if its rows were only counted and added up.
        rows: number of the source's rows, as counted.
        differences: keys that differ.
        sums: of source and lake, if they differ and there is no key to tell rows by.
        not_judged: number of keys in doubt that could not be judged; ``why`` gives the reason.
        has_more: whether there are more keys in doubt than are looked at.
        left_out: columns that were not compared.
        repaired: number of keys repaired; ``unrepaired``: of differences that cannot be, as columns
            were not compared; ``unheld``: likewise, as the lake's types cannot hold a value.
        seconds: by step.
        position: of both sides.
        is_busy: whether the keys not judged only changed each time that they were looked at: the
            lake has merged newer values of them since, and large values are equal.
    """

    table: TableName
    key: tuple[str, ...]
    rows: int
    differences: tuple[Difference, ...] = ()
    sums: tuple[Sum, Sum] | None = None
    not_judged: int = 0
    why: str = ""
    has_more: bool = False
    left_out: tuple[Uncompared, ...] = ()
    repaired: int = 0
    unrepaired: int = 0
    unheld: int = 0
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    position: Position = Position()
    is_busy: bool = False

    @property
    def differs(self) -> bool:
        """Whether something differs and was not repaired."""
        return self.sums is not None or len(self.differences) > self.repaired

    @property
    def is_proven(self) -> bool:
        """Whether everything compared was judged, and is equal."""
        return not (self.differs or self.not_judged or self.has_more)

    @property
    def is_whole(self) -> bool:
        """Whether everything was judged, but for keys whose newer values the lake has merged."""
        return not self.has_more and (not self.not_judged or self.is_busy)

    @property
    def kinds(self) -> dict[str, int]:
        """Number of differing keys by kind."""
        return dict(Counter(each.kind.value for each in self.differences))

    def words(self, *, keys: bool = True) -> list[str]:
        """Returns lines for people, most important first.

        Args:
            keys: whether to name keys that differ, which shows values of key columns.
        """
        said = [self._verdict()]
        if keys:
            said += [self._named(each) for each in self.differences[:NAMED]]
            if len(self.differences) > NAMED:
                said.append(f"{len(self.differences) - NAMED} keys more")
        if self.sums is not None:
            said.append(
                f"{self.sums[0].count} rows in the source, {self.sums[1].count} in the lake; a "
                "table without a key that can be compared tells no more: cdc-assets rebuild "
                f"{self.table}"
            )
        if self.not_judged:
            said.append(f"{self.not_judged} keys not judged: {self.why}")
        if self.has_more:
            said.append("more keys are in doubt than are looked at (verify.most_keys): "
                        "repair and compare once more, or rebuild the table")  # fmt: skip
        if self.repaired:
            said.append(f"{self.repaired} keys put right")
        if self.unrepaired:
            columns = ", ".join(each.name for each in self.left_out if each.is_at_source)
            said.append(
                f"{self.unrepaired} keys not put right: nothing tells their {columns} exactly; "
                f"take a new snapshot: cdc-assets rebuild {self.table}"
            )
        if self.unheld:
            said.append(
                f"{self.unheld} keys not put right: the lake's types cannot hold a value of theirs "
                "exactly; give the columns wider types (tables.<schema.table>.columns)"
            )
        said += [f"column {each.name} not compared: {each.why}" for each in self.left_out]
        return said

    def _verdict(self) -> str:
        took = f"{self.rows} rows of the source, {sum(self.seconds.values()):.1f} s"
        if self.differs:
            kinds = ", ".join(f"{count} {kind}" for kind, count in self.kinds.items())
            return f"differs from its source: {kinds or 'count or checksum'} ({took})"
        if self.not_judged or self.has_more:
            return f"no difference found ({took})"
        return f"equal to its source ({took})"

    def _named(self, each: Difference) -> str:
        key = ", ".join(f"{name}={text}" for name, text in zip(self.key, each.key, strict=True))
        columns = f": {', '.join(each.columns)}" if each.columns else ""
        return f"({key}) {each.kind}{columns}"

    def to_dict(self) -> dict[str, Any]:
        """Returns the report for machines."""
        return {
            "table": str(self.table),
            "equal": self.is_proven,
            "rows": self.rows,
            "key": list(self.key),
            "differences": [
                {"key": list(each.key), "kind": each.kind.name.lower(),
                 "columns": list(each.columns)}
                for each in self.differences[:NAMED]
            ],
            "differing": len(self.differences),
            "sums": self.sums and [
                {"count": each.count, "checksum": f"{each.first:x}-{each.second:x}"}
                for each in self.sums
            ],
            "not_judged": self.not_judged,
            "why_not_judged": self.why,
            "has_more": self.has_more,
            "columns_not_compared": {each.name: each.why for each in self.left_out},
            "repaired": self.repaired,
            "not_repaired": self.unrepaired + self.unheld,
            "position": {
                "source": self.position.source, "lake": self.position.lake,
                "snapshot_id": self.position.snapshot_id,
            },
            "seconds": {name: round(spent, 3) for name, spent in self.seconds.items()},
        }  # fmt: skip

    def to_json(self) -> str:
        """Returns `to_dict` as a JSON document."""
        return json.dumps(self.to_dict())
