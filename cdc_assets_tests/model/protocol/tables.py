"""Models a table of the lake: snapshots, ``main``, branches.

Its guarantees are Iceberg's: a commit to a branch is atomic, ``main`` moves to a branch only if
that descends from it, and a commit to a branch that was dropped meanwhile recreates it on the
present head of ``main``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from cdc_assets_tests.model.protocol.effects import RefusedError
from cdc_assets_tests.model.protocol.published import Published

Content = TypeVar("Content")

REPLACE = "replace"
"""The operation of a snapshot that has the rows of its parent: a compaction."""


@dataclass(frozen=True, slots=True)
class Snapshot(Generic[Content]):
    """One state of a table.

    Attributes:
        id: unique in the lake.
        parent: the snapshot that it was made on; None for the first.
        operation: ``append``, ``overwrite``, ``delete``, or `REPLACE`.
        content: the rows.
        published: our state in its summary.
    """

    id: int
    parent: int | None
    operation: str
    content: Content
    published: Published | None = None


@dataclass(slots=True)
class Table(Generic[Content]):
    """A table.

    Attributes:
        ids: source of snapshot ids.
        empty: the content of a table without a snapshot.
        main: id of the head; None while there is no snapshot.
        branches: heads by name.
    """

    ids: Iterator[int]
    empty: Content
    snapshots: dict[int, Snapshot[Content]] = field(default_factory=dict[int, Snapshot[Content]])
    main: int | None = None
    branches: dict[str, int | None] = field(default_factory=dict[str, "int | None"])

    def content(self, id_: int | None) -> Content:
        """Returns the rows as of a snapshot."""
        return self.empty if id_ is None else self.snapshots[id_].content

    def ancestry(self, id_: int | None) -> Iterator[Snapshot[Content]]:
        """Yields snapshots from one back to the first."""
        while id_ is not None:
            snapshot = self.snapshots[id_]
            yield snapshot
            id_ = snapshot.parent

    def descends(self, id_: int | None, other: int | None) -> bool:
        """Returns whether a snapshot is another one or was made on top of it."""
        return other is None or any(each.id == other for each in self.ancestry(id_))

    def published(self, id_: int | None) -> Published | None:
        """Returns the state of the newest publish in the ancestry."""
        found = (each.published for each in self.ancestry(id_) if each.published is not None)
        return next(found, None)

    def has_attempt(self, attempt: int) -> bool:
        """Returns whether an attempt is in the ancestry of ``main``."""
        ours = (each.published for each in self.ancestry(self.main))
        return any(each is not None and each.attempt == attempt for each in ours)

    def append_to_main(
        self,
        operation: str,
        change: Callable[[Content], Content],
        published: Published | None = None,
    ) -> Snapshot[Content]:
        """Commits to ``main``, wherever it is."""
        made = self._make(self.main, operation, change, published)
        self.main = made.id
        return made

    def require_main(self, head: int | None) -> None:
        """Requires that ``main`` is at this snapshot.

        Raises:
            RefusedError: if it is not.
        """
        if self.main != head:
            msg = f"main is not at {head}"
            raise RefusedError(msg)

    def compact(self) -> None:
        """Rewrites the files of ``main``; its rows stay."""
        if self.main is not None:
            self.append_to_main(REPLACE, lambda content: content)

    def is_compaction_of(self, id_: int | None, base: int | None) -> bool:
        """Returns whether a snapshot holds the same rows as another one that it was made on."""
        while id_ != base and id_ is not None and self.snapshots[id_].operation == REPLACE:
            id_ = self.snapshots[id_].parent
        return id_ == base

    def create_branch(self, name: str, at: int | None) -> None:
        """Creates a branch from a snapshot."""
        self.branches[name] = at

    def write(
        self,
        branch: str,
        operation: str,
        change: Callable[[Content], Content],
        published: Published | None = None,
    ) -> None:
        """Commits to a branch; recreates it on ``main`` if it no longer exists."""
        head = self.branches.get(branch, self.main)
        self.branches[branch] = self._make(head, operation, change, published).id

    def fast_forward(self, branch: str) -> None:
        """Moves ``main`` to a branch.

        Raises:
            RefusedError: if the branch does not exist or does not descend from ``main``.
        """
        head = self.branches.get(branch)
        if head is None or not self.descends(head, self.main):
            raise RefusedError(branch)
        self.main = head

    def set_main(self, branch: str) -> None:
        """Moves ``main`` to a branch, wherever ``main`` is."""
        self.main = self.branches.get(branch)

    def drop(self, branch: str) -> None:
        """Drops a branch, and all that can never be published."""
        dead = [n for n, head in self.branches.items() if not self.descends(head, self.main)]
        for name in {branch, *dead}:
            self.branches.pop(name, None)

    def _make(
        self,
        parent: int | None,
        operation: str,
        change: Callable[[Content], Content],
        published: Published | None,
    ) -> Snapshot[Content]:
        content = change(self.content(parent))
        made = Snapshot(next(self.ids), parent, operation, content, published)
        self.snapshots[made.id] = made
        return made
