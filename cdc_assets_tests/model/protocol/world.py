"""Everything outside the processes: the log as produced so far, the lake, a few files."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from cdc_assets_tests.model.change import Coordinate, Shape
from cdc_assets_tests.model.protocol.effects import RefusedError
from cdc_assets_tests.model.protocol.keyed import Keyed
from cdc_assets_tests.model.protocol.keyless import Keyless
from cdc_assets_tests.model.protocol.merged import Rows
from cdc_assets_tests.model.protocol.published import Entry, Published
from cdc_assets_tests.model.protocol.tables import Table
from cdc_assets_tests.model.protocol.topic import Marks, Topic, Vector

Entries = frozenset[Entry]
NOTHING: Published = Published()


@dataclass(slots=True)
class LakeTable:
    """The table, with its metadata beside the snapshots.

    Attributes:
        snapshots: rows and branches.
        width: number of columns.
        described: number of columns in the stored description.
        has_identifier: whether the key's columns are set as identifier fields.
    """

    snapshots: Table[Rows]
    width: int = 1
    described: int = 1
    has_identifier: bool = False

    def add_columns(self, width: int) -> None:
        """Widens the table.

        Raises:
            RefusedError: if it already has a column of this name.
        """
        if self.width >= width:
            msg = "a column of this name exists"
            raise RefusedError(msg)
        self.width = width


@dataclass(slots=True)
class World:
    """Everything that survives a process.

    Attributes:
        topic: all that will ever be produced; ``produced`` is the number of records so far.
        rules: of the table.
        has_namespace, table, side: of the lake.
        quarantine: coordinates of records that were set aside.
        is_mended: whether bad records can be decoded from now on.
        stored_offsets: only where they are stored apart from rows.
        has_failure_file: whether the last run failed.
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
    quarantine: set[Coordinate] = field(default_factory=set[Coordinate])
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
        """Returns the bounds of the topic now."""
        return self.topic.marks(self.produced)

    def published(self) -> Published:
        """Returns the state as of the newest publish."""
        if self.table is None:
            return NOTHING
        snapshots = self.table.snapshots
        return snapshots.published(snapshots.main) or NOTHING

    def pending(self) -> list[Coordinate]:
        """Returns quarantined coordinates that the newest publish lacks."""
        return sorted(self.quarantine & self.published().missing)

    # ── effects ──────────────────────────────────────────────────────────────────────────

    def create_namespace(self) -> None:
        """Creates the namespace if it does not exist."""
        self.has_namespace = True

    def create_table(self) -> None:
        """Creates the table if it does not exist."""
        if self.table is None:
            self.table = LakeTable(Table(self.ids, {}))

    def create_side_table(self) -> None:
        """Creates the side table if it does not exist."""
        if self.side is None:
            self.side = Table(self.ids, frozenset())

    def keep_apart(self, coordinates: list[Coordinate]) -> None:
        """Writes records to the quarantine, each once."""
        self.quarantine.update(coordinates)

    def set_failure_file(self, *, failed: bool) -> None:
        """Writes the failure file, or removes it."""
        self.has_failure_file = failed
