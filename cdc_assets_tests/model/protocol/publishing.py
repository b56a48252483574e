"""Writes one attempt: side table, branch, ``main``.

The step numbers are those of `execution`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cdc_assets_tests.model.protocol.effects import EffectError, Life, RefusedError, effect
from cdc_assets_tests.model.protocol.merged import Merged, Rows, Write
from cdc_assets_tests.model.protocol.plan import Plan
from cdc_assets_tests.model.protocol.published import Published
from cdc_assets_tests.model.protocol.rules import Protocol
from cdc_assets_tests.model.protocol.tables import Table
from cdc_assets_tests.model.protocol.world import Entries, LakeTable, World


@dataclass(frozen=True, slots=True)
class Publisher:
    """The writes that publish the result of an attempt.

    Attributes:
        world: outside the process.
        protocol: see `Protocol`.
        number: of the attempt.
    """

    world: World
    protocol: Protocol
    number: int

    @property
    def branch(self) -> str:
        """The attempt's own branch."""
        return f"cdc_{self.number}"

    def publish(self, plan: Plan, merged: Merged, published: Published) -> Life[bool]:
        """Returns whether it was published; if not, another writer came first.

        Raises:
            EffectError: if it was not published, or if that is unknown.
        """
        head, writes = plan.view.head, merged.writes
        if merged.entries:  # 5
            entries = frozenset(replace(e, attempt=self.number) for e in merged.entries)
            side = yield from self._write_side(plan, entries)
            if side is None:
                return False
            published = replace(published, side=side)
        if len(writes) == 1:
            return (yield from self._publish_at_once(head, writes[0], published))
        try:
            yield from self._write_branch(self.branch, head, writes, published)  # 6
        except EffectError:
            yield from self._drop()
            raise
        is_out = yield from self._move_main(plan, writes, published)  # 7
        yield from self._drop()
        return is_out

    def _drop(self) -> Life[None]:
        """Drops the branch; failing to drop it is harmless."""
        table = made(self.world)
        try:
            yield from effect("drop branch", lambda: table.snapshots.drop(self.branch))
        except EffectError:
            return

    # ── 5. side table ────────────────────────────────────────────────────────────────────

    def _write_side(self, plan: Plan, entries: Entries) -> Life[int | None]:
        """Returns the new snapshot; None if another writer's entries came in between."""
        side, base, head = side_of(self.world), plan.view.before.side, plan.view.side_head
        as_published = self.protocol.side_as_published and self.protocol.side_set_back
        if as_published and not side.is_compaction_of(head, base):
            yield from effect("set side table back", lambda: _set_back(side, base))
            head = base
        made = yield from effect(
            "append to side table",
            lambda: side.append_to_main("append", lambda there: there | entries),
        )
        is_ours = made.parent == head or not self.protocol.side_conflicts
        return made.id if is_ours or not as_published else None

    # ── 6, 7. ``main`` at once, or a branch ────────────────────────────────────────────────

    def _publish_at_once(self, head: int | None, write: Write, published: Published) -> Life[bool]:
        """Commits the only write to ``main``, if that is at this head; looks for a lost reply."""
        snapshots = made(self.world).snapshots

        def commit() -> None:
            snapshots.append_to_main(write.operation, write.change, published)

        def commit_at_head() -> None:
            if self.protocol.commits_on_planned_head:
                snapshots.require_main(head)
            commit()

        try:
            yield from effect("publish rows", commit_at_head)
        except RefusedError:
            return False
        except EffectError:
            if self.protocol.looks_after_lost_reply:
                yield from self._require_published()
            else:
                yield from effect("publish rows", commit)
        return True

    def _require_published(self) -> Life[None]:
        """Looks for the attempt once a reply is lost.

        Raises:
            EffectError: if it was not published.
        """
        snapshots = made(self.world).snapshots
        was = yield from effect("look for attempt", lambda: snapshots.has_attempt(self.number))
        if not was:
            msg = "it was not published"
            raise EffectError(msg)

    def _write_branch(
        self, branch: str, head: int | None, writes: Sequence[Write], published: Published
    ) -> Life[None]:
        table = made(self.world)
        yield from effect("create branch", lambda: table.snapshots.create_branch(branch, head))
        for write in writes:
            last = published if write is writes[-1] else None
            yield from effect(write.name, lambda w=write, p=last: _commit(table, branch, w, p))

    def _move_main(self, plan: Plan, writes: Sequence[Write], published: Published) -> Life[bool]:
        """Checks the branch and moves ``main``; checks again if the reply is lost."""
        branch = self.branch
        snapshots, head = made(self.world).snapshots, plan.view.head
        if self.protocol.looks_before_publish:
            is_built = yield from effect(
                "look at branch", lambda: self._is_built(snapshots, branch, head, len(writes))
            )
            if not is_built:
                return False
        try:
            yield from effect("fast-forward", lambda: self._fast_forward(snapshots, branch))
        except RefusedError:
            return False
        except EffectError:
            if not self.protocol.looks_after_lost_reply:
                head = yield from effect("load table again", lambda: snapshots.main)
                yield from self._write_branch(f"{branch}_again", head, writes, published)
                yield from effect("fast-forward", lambda: snapshots.fast_forward(f"{branch}_again"))
                return True
            yield from self._require_published()
        return True

    def _is_built(
        self, snapshots: Table[Rows], branch: str, head: int | None, statements: int
    ) -> bool:
        """Returns whether the branch is what this attempt wrote, on a head that is still main."""
        top = snapshots.branches.get(branch)
        made = [*snapshots.ancestry(top)][: statements + 1]
        is_on_head = len(made) >= statements and made[statements - 1].parent == head
        ours = made[0].published if made else None
        is_ours = ours is not None and ours.attempt == self.number
        return is_on_head and is_ours and snapshots.main == head

    def _fast_forward(self, snapshots: Table[Rows], branch: str) -> None:
        if self.protocol.moves_main_forward_only:
            snapshots.fast_forward(branch)
        else:
            snapshots.set_main(branch)


def made(world: World) -> LakeTable:
    """Returns the lake table.

    Raises:
        RefusedError: if it does not exist.
    """
    if world.table is None:
        msg = "the table is not there"
        raise RefusedError(msg)
    return world.table


def side_of(world: World) -> Table[Entries]:
    """Returns the side table.

    Raises:
        RefusedError: if it does not exist.
    """
    if world.side is None:
        msg = "the side table is not there"
        raise RefusedError(msg)
    return world.side


def _set_back(side: Table[Entries], base: int | None) -> None:
    side.main = base


def _commit(table: LakeTable, branch: str, write: Write, published: Published | None) -> None:
    table.snapshots.write(branch, write.operation, write.change, published)
