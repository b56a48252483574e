"""The plan of one batch, as a printable value. Making a plan changes nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from cdc_assets.changes.missing import Missing
from cdc_assets.changes.mode import Mode
from cdc_assets.changes.offsets import OffsetRange, OffsetVector, total_length
from cdc_assets.changes.position import LowWatermarks, Scheme
from cdc_assets.changes.valid_through import Witness
from cdc_assets.formats.layout import Layout
from cdc_assets.formats.order import NUMBERS, Epochs
from cdc_assets.lake.carried import LastRecords
from cdc_assets.lake.columns import DROPPED, as_made
from cdc_assets.lake.properties import Published
from cdc_assets.lake.shadow_progress import ShadowProgress
from cdc_assets.lake.side import Forgettable
from cdc_assets.lake.state import TableState
from cdc_assets.log.values import TopicIdentity
from cdc_assets.merge.plan.barriers import Barriers
from cdc_assets.merge.plan.table_steps import (
    CreateTable,
    DropColumns,
    RenameColumn,
    TableStep,
    describe,
)
from cdc_assets.registry import TableEntry
from cdc_assets.schema.file_layout import AS_IT_IS, FileLayout
from cdc_assets.schema.iceberg import from_iceberg
from cdc_assets.schema.row_condition import RowCondition, text_of
from cdc_assets.schema.types import Column, ColumnType, TableSchema

OWN_BRANCH: Final = re.compile(r"cdc_[0-9a-f]{32}")
"""Names of the branches for batches; a user's branch may begin alike."""


class Apply(StrEnum):
    """The ways to apply folded changes to the table."""

    APPEND = "append"  # the table is empty
    REPLACE = "delete keys, append rows"  # everything is newer than what was applied
    GUARDED = "look up rows, keep what is newer, delete keys, append rows"
    COUNT = "count equal rows, delete the surplus, append what is missing"  # no key
    RECORD = "append the changes that are not there yet"  # a changelog
    VERSIONS = "look up versions, end those that are over, append those that begin"  # a history


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """One batch of one table.

    Attributes:
        entry: the table.
        head: the snapshot that ``main`` must still have when the batch publishes.
        state: the table as it was planned on; None if it is yet to be created.
        published: record of the newest publish; None for the first.
        identity: of the topic.
        start: committed offsets before the batch.
        ranges: offsets read, never empty.
        end: committed offsets after it.
        partitions: number of the topic's partitions.
        context: for each range the offset before it, if the log still holds it.
        schema: the table's columns with their form on the wire.
        layout: of its records.
        is_empty: whether the head has no rows at all; ``head_columns`` are its columns, by the
            names that they had when it was planned.
        steps: those that the table lacks, done before anything is read.
        is_aligned: whether its ends are where the transactions that its records name end. Records
            that name none may be among them.
        soft: whether deleted rows stay in the table, marked.
        mode: of the table.
        numbering: of the source's positions, as text, see `cdc_assets.changes.restarts` and, for
            binlogs, `cdc_assets.changes.numbering`; ``epochs`` of its records.
        repeats_places: whether records may have one place, see
            `cdc_assets.merge.guards.ambiguous_positions`.
        permit: to take one restart of the numbering as newer, as text; empty without one.
        replay: whether the ranges were merged before; committed offsets then stay.
        is_behind: whether the log continues after the hour that bounds the batch.
        is_limited: whether a longer batch would hold more records of that hour.
        barrier: position below which all rows are another table's, hexadecimal; empty without
            one.
        statements_known: whether the effects of statements among its records are known.
        forgettable: remembered deletes that need not be kept; None to keep all.
        witnesses: times that the table is valid through once it has reached their ends.
        has_other_keys: whether the keys of its records have a schema that those of the batch before
            did not have: see `Format.key_schema`.
        last_records: the last record of each range, as far as there is one near its end; see
            `Carried.last_merged`. Empty for a replay.
        unread: all that the log held from ``start`` on; empty for a replay.
        attempt: unique.
        files: the layout of the files that it writes.
        condition: on the rows that the table gets, in its columns' names; None for all rows.
    """

    entry: TableEntry
    head: int | None
    published: Published | None
    identity: TopicIdentity
    start: OffsetVector
    ranges: tuple[OffsetRange, ...]
    end: OffsetVector
    partitions: int
    context: tuple[OffsetRange, ...]
    schema: TableSchema
    layout: Layout
    is_empty: bool
    head_columns: Mapping[str, str]
    soft: bool
    replay: bool
    run_id: str
    attempt: str
    mode: Mode = Mode.MIRROR
    state: TableState | None = None
    is_aligned: bool = False
    is_behind: bool = False
    is_limited: bool = False
    steps: tuple[TableStep, ...] = ()
    numbering: str = ""
    repeats_places: bool = False
    permit: str = ""
    barrier: str = ""
    statements_known: bool = True
    forgettable: Forgettable | None = None
    has_other_keys: bool = False
    unread: tuple[OffsetRange, ...] = ()
    witnesses: tuple[Witness, ...] = ()
    last_records: LastRecords = field(default_factory=dict[int, tuple[int, int]])
    epochs: Epochs = field(default_factory=dict)
    files: FileLayout = AS_IT_IS
    condition: RowCondition | None = None

    @property
    def branch(self) -> str:
        """Name of the batch's branch."""
        return f"cdc_{self.attempt.replace('-', '')}"

    @property
    def snapshot_starts(self) -> LowWatermarks:
        """Beginnings of complete snapshots by partition, as the newest publish recorded them."""
        if self.published is None:
            return dict.fromkeys(range(self.partitions), ())
        return self.published.carried.snapshot_starts

    @property
    def made(self) -> TableSchema:
        """The columns of the table's creation, past or planned."""
        first = next((each.schema for each in self.steps if isinstance(each, CreateTable)), None)
        return first or (as_made(self.state) if self.state else None) or self.schema

    @property
    def forgotten(self) -> tuple[str, ...]:
        """Columns in records of the batch that the table had and has dropped."""
        was = self.state.properties if self.state else {}
        now = {n for step in self.steps if isinstance(step, DropColumns) for n in step.names}
        left_out = self.schema.left_out
        return tuple(n for n in left_out if n in now or was.get(DROPPED + n) == "true")

    @property
    def unfilled(self) -> tuple[Column, ...]:
        """Columns added with a value for existing rows, which these rows do not have yet."""
        filled = self.published.carried.filled if self.published else ()
        return tuple(c for c in self.schema.columns if c.existing and c.existing.id not in filled)

    def name_at_head(self, name: str) -> str | None:
        """Returns the head's name of a column; None if the column was added since."""
        return self.head_columns.get(self._before_steps(name))

    def type_at_head(self, name: str) -> ColumnType | None:
        """Returns the head's type of a column; None for a new column or an unknown type."""
        types = self.state.head_types if self.state else {}
        text = types.get(self._before_steps(name))
        return from_iceberg(text) if text else None

    def _before_steps(self, name: str) -> str:
        before = {each.name: each.was for each in self.steps if isinstance(each, RenameColumn)}
        return before.get(name, name)

    @property
    def missing(self) -> Missing | None:
        """Records below ``start`` missing from the table, see `Carried.missing`."""
        if self.published is not None:
            return self.published.carried.missing
        return Missing()  # offsets before a late start are before its beginning

    @property
    def starts_late(self) -> bool:
        """Whether offsets come before ``start``: of a first batch, before the table's beginning."""
        return any(offset for _, offset in self.start)

    @property
    def beginning(self) -> OffsetVector:
        """Offsets from which on the topic's records are the table's; earlier ones never are."""
        if self.published is None:
            return self.start
        return self.published.carried.read_from or OffsetVector()

    @property
    def truncated(self) -> str:
        """Position of the newest merged truncate, hexadecimal; empty without one."""
        return self.published.carried.max_truncate if self.published else ""

    @property
    def read_at(self) -> str:
        """Position of the reading from the source, hexadecimal; empty without such a reading."""
        return self.published.carried.read_at if self.published else ""

    @property
    def begins_after(self) -> str:
        """Position at or below which no change is applied, hexadecimal; empty without one."""
        return max(self.truncated, self.read_at)

    @property
    def read_from(self) -> OffsetVector | None:
        """Offsets from which on changes are applied; None if the batch begins there or later."""
        begin = self.published.carried.read_from if self.published else None
        if begin is None or all(each.start >= begin.get(each.partition) for each in self.ranges):
            return None
        return begin

    @property
    def shadow(self) -> ShadowProgress | None:
        """Progress of a shadow table that is read from the source; None for other tables."""
        return self.published.carried.shadow if self.published else None

    @property
    def numbers(self) -> tuple[str, ...]:
        """Columns of the position, most significant first."""
        return NUMBERS[: self.layout.scheme.numbers]

    @property
    def needs_keys_apart(self) -> bool:
        """Whether each key must stay in its partition: offsets alone order its changes."""
        by_offset = self.layout.scheme is Scheme.OFFSET
        return by_offset and bool(self.schema.key) and self.partitions > 1

    @property
    def keys_stay(self) -> bool:
        """Whether all changes of a key above ``Carried.settled_at`` are in one partition.

        Not before the table has merged what its log held when it was begun: see
        `cdc_assets.merge.guards.key_partitions`. Where offsets alone order changes, keys in two
        partitions are looked for instead.
        """
        published = self.published
        if self.has_other_keys or not self.keys_remain:
            return False
        if published is None or self.partitions == 1 or self.needs_keys_apart:
            return True
        return bool(published.carried.settled_at)

    @property
    def keys_remain(self) -> bool:
        """Whether no key is known to have moved between partitions since the table was begun.

        They have where the record's key does not decide on it, once partitions were added, and
        once a column of the key has been renamed or retyped: producers hash the key's bytes,
        which are others since. Where offsets alone order changes, such a table stops, or its
        producer hashes values alone: see `cdc_assets.merge.plan.stable_partitions`.
        """
        published = self.published
        if published is not None and self.partitions != published.carried.partitions:
            return False
        is_same = self.needs_keys_apart or not self._has_other_keys
        return self.partitions == 1 or (self.layout.keyed and is_same)

    @property
    def _has_other_keys(self) -> bool:
        # A catalog may show a new name that records are yet to have.
        is_followed = any(self.schema.column(name).identity.was for name in self.schema.key)
        return is_followed or self.has_renamed_key or self.has_retyped_key

    @property
    def has_renamed_key(self) -> bool:
        """Whether a column of the key has had another name in records since the table was made."""
        return any(self.schema.column(name).identity.formerly for name in self.schema.key)

    @property
    def has_retyped_key(self) -> bool:
        """Whether a column of the key has had another type since the table was made."""
        key = [self.schema.column(name) for name in self.schema.key]
        made = as_made(self.state) if self.state else None
        if made is None:
            return False
        return [each.type for each in key] != [made.column(name).type for name in made.key]

    def applied_before(self, partitions: Iterable[int]) -> dict[int, str]:
        """Returns per partition the highest applied position of its keys, hexadecimal."""
        applied = self.published.carried.applied if self.published else {}
        if self.keys_stay:
            settled_at = self.published.carried.settled_at if self.published else ""
            return {each: max(applied.get(each, ""), settled_at) for each in partitions}
        return dict.fromkeys(partitions, max(applied.values(), default=""))

    @property
    def where(self) -> str:
        """Coordinates for errors."""
        ranges = " ".join(str(each) for each in self.ranges)
        return f"table={self.entry.table} topic={self.entry.topic} offsets={ranges}"

    def describe(self, apply: Apply | None = None, barriers: Barriers | None = None) -> str:
        """Describes for people the ranges read, the cuts, the way of applying, and the target."""
        lines = [
            f"{'replay' if self.replay else 'tail'} of {self.entry.topic} into {self.entry.target}",
            *(f"  table: {describe(step)}" for step in self.steps),
            *(f"  read partition {r.partition} [{r.start}, {r.end})" for r in self.ranges),
            f"  in all {total_length(self.ranges)} offsets, positions: {self.layout.scheme}",
            *([f"  rows where {text_of(self.condition)}"] if self.condition else []),
            *([f"  {barriers.describe()}"] if barriers and barriers.truncates else []),
            f"  apply: {apply or 'as the records demand'}",
            f"  publish on snapshot {self.head} as attempt {self.attempt}",
        ]
        return "\n".join(lines)
