"""Everything outside the processes: the log as far as it is there, the lake, a few files."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from cdc_assets.changes.protocol.effects import RefusedError
from cdc_assets.changes.protocol.keyed import Keyed
from cdc_assets.changes.protocol.keyless import Keyless
from cdc_assets.changes.protocol.merged import Rows
from cdc_assets.changes.protocol.published import Entry, Published
from cdc_assets.changes.protocol.tables import Table
from cdc_assets.changes.protocol.topic import Marks, Topic, Vector
from cdc_assets.changes.reference_change import Coordinate, Shape

Entries = frozenset[Entry]
NOTHING: Published = Published()


@dataclass(slots=True)
class LakeTable:
    """The table, with what its metadata says beside the snapshots.

    Attributes:
        snapshots: rows and branches.
        width: how many columns it has.
        described: how many columns the stored description has.
        has_identifier: whether the key's columns are set as identifier fields.
    """

    snapshots: Table[Rows]
    width: int = 1
    described: int = 1
    has_identifier: bool = False

    def add_columns(self, width: int) -> None:
        """Widen the table.

        Raises:
            RefusedError: if it has a column already.
        """
        if self.width >= width:
            msg = "a column of this name exists"
            raise RefusedError(msg)
        self.width = width


@dataclass(slots=True)
class World:
    """What survives every process.

    Attributes:
        topic: all that will ever be produced; ``produced`` is how many records are there.
        rules: of the table.
        has_namespace, table, side: of the lake.
        quarantine: coordinates, each with the attempts that merged it again.
        is_mended: bad records can be decoded from now on.
        stored_offsets: only where they are stored apart from rows.
        has_failure_file: the last run has failed.
        events: attempts that Dagster knows of.
        chance: makes every choice.
    """

    topic: Topic
    rules: Keyed | Keyless
    shape: Shape
    chance: random.Random
    produced: int = 0
    has_namespace: bool = False
    table: LakeTable | None = None
    side: Table[Entries] | None = None
    quarantine: dict[Coordinate, set[int]] = field(default_factory=dict[Coordinate, set[int]])
    is_mended: bool = False
    stored_offsets: Vector = field(default_factory=dict[int, int])
    has_failure_file: bool = False
    events: list[int] = field(default_factory=list[int])
    ids: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def is_keyed(self) -> bool:
        """Whether the table has a key."""
        return isinstance(self.rules, Keyed)

    def marks(self) -> Marks:
        """The bounds of the topic now."""
        return self.topic.marks(self.produced)

    def published(self) -> Published:
        """The state as of the newest publish."""
        if self.table is None:
            return NOTHING
        snapshots = self.table.snapshots
        return snapshots.published(snapshots.main) or NOTHING

    def pending(self) -> list[Coordinate]:
        """What lies in quarantine and was not merged by an attempt that was published."""
        if self.table is None:
            return sorted(self.quarantine)
        has = self.table.snapshots.has_attempt
        return sorted(at for at, by in self.quarantine.items() if not any(map(has, by)))

    # ── effects ──────────────────────────────────────────────────────────────────────────

    def create_namespace(self) -> None:
        """If it is not there."""
        self.has_namespace = True

    def create_table(self) -> None:
        """If it is not there."""
        if self.table is None:
            self.table = LakeTable(Table(self.ids, {}))

    def create_side_table(self) -> None:
        """If it is not there."""
        if self.side is None:
            self.side = Table(self.ids, frozenset())

    def keep_apart(self, coordinates: list[Coordinate]) -> None:
        """Write records to the quarantine, each once."""
        for each in coordinates:
            self.quarantine.setdefault(each, set())

    def set_failure_file(self, *, failed: bool) -> None:
        """Write it, or take it away."""
        self.has_failure_file = failed
