"""Executes one attempt at one batch: plan, read, merge, write, publish.

1. Look at the lake and the log; create missing parts of the table.
2. Plan. Planning changes nothing.
3. Read and decode; records that cannot be decoded go to the quarantine.
4. Merge. A batch that turns out too short is planned again, longer.
5. Write the side table: set it back to the snapshot that belongs to the published state, if
   another attempt has left something on it, and append. Nothing in it counts yet.
6. Write the branch. Its last snapshot names the offsets, the attempt and the side snapshot. A
   batch of one write goes to ``main`` instead, if that is still at the head that was looked at.
7. Check the branch and move ``main`` to it. If the reply is lost, look for the attempt.
8. Drop the branch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from cdc_assets_tests.model.change import Change, Coordinate, Held
from cdc_assets_tests.model.keyless import MissingRow
from cdc_assets_tests.model.protocol import plan as planning
from cdc_assets_tests.model.protocol.effects import Life, effect
from cdc_assets_tests.model.protocol.keyless import Keyless
from cdc_assets_tests.model.protocol.merged import Found, Merged, coordinates
from cdc_assets_tests.model.protocol.plan import Kind, Order, Plan, View
from cdc_assets_tests.model.protocol.published import Entry, Published
from cdc_assets_tests.model.protocol.publishing import Publisher, made, side_of
from cdc_assets_tests.model.protocol.rules import Protocol
from cdc_assets_tests.model.protocol.topic import Record
from cdc_assets_tests.model.protocol.world import World


class Outcome(StrEnum):
    """The outcome of an attempt."""

    PUBLISHED = "published"
    NOTHING = "nothing to merge"
    TABLE_MADE = "the table was made"
    LONGER = "the batch has to be longer"
    CONFLICT = "another writer came first"
    STOPPED = "a change cannot be merged"


@dataclass(slots=True)
class Attempt:
    """One attempt. Use once.

    Attributes:
        world: outside the process.
        protocol: see `Protocol`.
        order: the work to do.
        limits: the largest length of the batch, as a multiple of the usual one.
        number: of the attempt.
    """

    world: World
    protocol: Protocol
    order: Order
    limits: int = 1
    number: int = field(init=False)

    def __post_init__(self) -> None:
        self.number = next(self.world.ids)

    def run(self) -> Life[Outcome]:
        """Executes all steps, numbered as in the module."""
        world = self.world
        view = yield from effect("load table", self._view)  # 1
        side_head = yield from effect("load side table", self._side_head)
        marks = yield from effect("read watermarks", world.marks)
        if not view.whole:
            yield from self._make_table(view)
            return Outcome.TABLE_MADE
        match self.order.kind:  # 2
            case Kind.TAIL:
                plan = planning.tail(world, view, marks, self.limits, self.protocol)
            case Kind.REPLAY:
                plan = planning.again(world, view, marks, self.order)
            case Kind.QUARANTINE:
                taken = yield from effect("read quarantine", self._in_quarantine)
                plan = planning.out_of_quarantine(world, view, marks, frozenset(taken))
        if plan is None:
            return Outcome.NOTHING
        plan = replace(plan, view=replace(view, side_head=side_head))
        return (yield from self._execute(plan))

    def _execute(self, plan: Plan) -> Life[Outcome]:
        records = yield from effect("read records", lambda: plan.records)  # 3
        yield from self._widen(plan.view, records)
        rejected = [r.coordinate for r in records if r.is_bad and not self.world.is_mended]
        if rejected:
            yield from effect("quarantine", lambda: self.world.keep_apart(rejected))
        batch = [c for r in records if r.coordinate not in rejected for c in r.changes]
        found = self._found(plan)
        merged = self._merged(found, batch)  # 4
        if merged is None or merged.incomplete:
            return Outcome.LONGER if plan.may_grow else Outcome.STOPPED
        if merged.is_nothing and self.order.kind is not Kind.TAIL:
            return Outcome.NOTHING
        late = self._late(found, merged, batch)
        published = replace(self._published(plan, found, merged, rejected), late=late)
        return (yield from self._publish(plan, merged, published))

    def _publish(self, plan: Plan, merged: Merged, published: Published) -> Life[Outcome]:
        publisher = Publisher(self.world, self.protocol, self.number)
        is_out = yield from publisher.publish(plan, merged, published)  # 5 to 8
        if is_out and not self.protocol.offsets_with_rows:
            yield from effect("store offsets", lambda: self._store_offsets(plan))
        if is_out and self.order.kind is Kind.QUARANTINE:
            yield from self._remove_from_quarantine(merged)
        return Outcome.PUBLISHED if is_out else Outcome.CONFLICT

    # ── 1. look, make ────────────────────────────────────────────────────────────────────

    def _view(self) -> View:
        world, table = self.world, self.world.table
        if table is None:
            return View()
        has_all = world.side is not None and (table.has_identifier or not world.is_keyed)
        snapshots = table.snapshots
        return View(
            head=snapshots.main,
            published=snapshots.published(snapshots.main),
            width=table.width,
            described=table.described,
            whole=has_all or not self.protocol.completes_half_made,
        )

    def _side_head(self) -> int | None:
        return self.world.side.main if self.world.side else None

    def _make_table(self, view: View) -> Life[None]:
        """Creates what the table lacks; every step can be repeated."""
        world = self.world
        yield from effect("create namespace", world.create_namespace)
        yield from effect("create table", world.create_table)
        if world.is_keyed:
            yield from effect("set identifier fields", self._set_identifier)
        yield from effect("create side table", world.create_side_table)

    def _set_identifier(self) -> None:
        made(self.world).has_identifier = True

    # ── 3. columns ───────────────────────────────────────────────────────────────────────

    def _widen(self, view: View, records: Sequence[Record]) -> Life[None]:
        needed = max((record.width for record in records), default=0)
        by_table = self.protocol.compares_with_table
        has = view.width if by_table else view.described
        if needed > has:
            yield from effect("add column", lambda: self._add_columns(needed))
        if needed > view.described:
            yield from effect("set column property", lambda: self._describe(needed))

    def _add_columns(self, width: int) -> None:
        """Compares with the table as it is by now: another writer may have added the column."""
        table = made(self.world)
        if table.width < width or not self.protocol.compares_with_table:
            table.add_columns(width)

    def _describe(self, width: int) -> None:
        table = made(self.world)
        table.described = max(table.described, width)

    # ── 4. merge ─────────────────────────────────────────────────────────────────────────

    def _found(self, plan: Plan) -> Found:
        before = plan.view.before
        return Found(
            rows=made(self.world).snapshots.content(plan.view.head),
            entries=self._entries(before),
            before=before,
            exists=plan.view.head is not None,
            partitions=plan.partitions,
        )

    def _entries(self, before: Published) -> frozenset[Entry]:
        side = side_of(self.world)
        if not self.protocol.side_as_published:
            return side.content(side.main)
        if isinstance(self.world.rules, Keyless) and not self.protocol.ledger_as_published:
            there = side.content(side.main)
            offsets = before.offsets
            return frozenset(e for e in there if e.coordinate[1] < offsets.get(e.coordinate[0], 0))
        return side.content(before.side)

    def _merged(self, found: Found, batch: Sequence[Change]) -> Merged | None:
        try:
            return self.world.rules.merge(found, batch)
        except MissingRow:
            return None

    def _published(
        self, plan: Plan, found: Found, merged: Merged, rejected: Sequence[Coordinate]
    ) -> Published:
        before = found.before
        is_tail = self.order.kind is Kind.TAIL
        return Published(
            offsets=plan.end,
            attempt=self.number,
            applied=merged.applied,
            partitions=self._partitions(plan),
            # Partitions that a replay is the first to see are left to the next batch: it takes all.
            seen=plan.partitions if is_tail else before.seen,
            highest_delete=merged.highest_delete,
            truncated=merged.truncated,
            low_watermarks=merged.low_watermarks,
            side=before.side,
            missing=before.missing.union(rejected) if is_tail else before.missing - merged.settled,
            entries=before.entries + len(merged.entries),
        )

    def _late(self, found: Found, merged: Merged, batch: Sequence[Change]) -> frozenset[Coordinate]:
        """Returns other deliveries of quarantined changes, below a delete whose row has stayed.

        That row keeps the values that it was deleted with, and nothing says where among them an
        older change belongs: out of the quarantine or redelivered, it comes too late.
        """
        before = found.before
        if self.order.kind is not Kind.TAIL:
            return before.late
        events = self.world.topic.events(before.missing)
        again = (c for c in batch if c.identity in events and c.coordinate not in merged.settled)
        return before.late | coordinates(each for each in again if _is_marked(found, each))

    def _partitions(self, plan: Plan) -> int:
        """Returns the number of partitions with which highest positions by partition are trusted.

        Keys move when partitions are added: keys that moved before the first batch, or later,
        leave rows behind that are newer than changes arriving in the other partition. 0: never.
        """
        if plan.view.published is not None:
            return plan.view.published.partitions
        has_moved = plan.was_raised and self.protocol.heeds_early_partitions
        return 0 if has_moved else plan.partitions

    # ── quarantine, offsets ──────────────────────────────────────────────────────────────

    def _in_quarantine(self) -> list[Coordinate]:
        world = self.world
        named = self.protocol.publish_names_missing
        return world.pending() if named else sorted(world.quarantine)

    def _remove_from_quarantine(self, merged: Merged) -> Life[None]:
        if not self.protocol.publish_names_missing:
            yield from effect("remove from quarantine", lambda: self._remove(merged))

    def _remove(self, merged: Merged) -> None:
        self.world.quarantine -= merged.settled

    def _store_offsets(self, plan: Plan) -> None:
        self.world.stored_offsets = plan.end


def _is_marked(found: Found, change: Change) -> bool:
    held = found.rows.get(change.key)
    return isinstance(held, Held) and held.deleted
