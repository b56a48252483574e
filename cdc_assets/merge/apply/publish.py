"""Makes a finished batch visible: all of it or nothing, and by one writer only.

A batch of one write is that write's commit to ``main`` (`at_once`): it carries the snapshot
properties, as in step 2, and is refused once ``main`` has left the head that the plan was made on.
If its reply is lost, step 4 follows. A batch of several writes is built up first:

1. `open_branch`: a branch from the head of ``main`` that the plan was made on. Everything is
   written there; readers of ``main`` see none of it.
2. The last write on the branch carries the snapshot properties: offsets are stored in the
   snapshot that completes their rows, and nowhere else.
3. `publish` checks that the branch is what was written, on the head that the plan was made on,
   then fast-forwards ``main``. Iceberg refuses unless the branch descends from ``main``'s head: a
   second writer or a zombie cannot publish.
4. If the reply is lost, `publish` looks for the attempt in ``main``'s ancestry before anything
   else. If even that cannot be read, the outcome is unknown and nothing is cleaned up.
5. `close_branch` drops the branch once the outcome is known, and those that killed or beaten
   writers have left.

A REST catalog creates the branch by one commit, and does everything after the check of step 3 by
another (`cdc_assets.lake.references`). Elsewhere Spark does it, statement by statement.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from pyspark.sql import SparkSession

from cdc_assets.effects import effect
from cdc_assets.errors import CdcError, ConflictError, OutcomeUnknownError, TransientError
from cdc_assets.lake import Lake
from cdc_assets.lake.branches import BranchState
from cdc_assets.merge.plan.plan import OWN_BRANCH, BatchPlan
from cdc_assets.merge.statements import sql
from cdc_assets.merge.statements.failures import translated

_log = logging.getLogger(__name__)


class Publisher:
    """Publishing of one batch.

    Attributes:
        spark: the session.
        catalog: name of the lake's catalog.
        plan: of the batch.
    """

    def __init__(self, spark: SparkSession, catalog: str, lake: Lake, plan: BatchPlan) -> None:
        self.spark = spark
        self.catalog = catalog
        self.plan = plan
        self._lake = lake
        self._is_closed = False
        self._dead: tuple[str, ...] | None = None

    def at_once(self, write: Callable[[], None]) -> None:
        """Publishes a batch by its only write, which Iceberg refuses if ``main`` has moved.

        Raises:
            ConflictError: if it has; nothing was published.
            OutcomeUnknownError: if neither the reply nor the table could be read.
        """
        self._is_closed = True
        try:
            with translated("publish", self.plan.where), effect("spark: publish rows"):
                write()
        except TransientError as failed:
            self._look(failed)

    def open_branch(self) -> str:
        """Does step 1; returns the branch as a table identifier for SQL."""
        plan = self.plan
        target = plan.entry.target
        if plan.head is not None and self._lake.moves_branches:
            self._lake.make_branch(target, plan.branch, plan.head)
        else:
            with translated("create branch", plan.where):
                self._run(
                    "create branch",
                    sql.create_branch(self.catalog, target, plan.branch, plan.head),
                )
        return sql.table(self.catalog, plan.entry.target, plan.branch)

    def publish(self, statements: int) -> None:
        """Does steps 3 and 4.

        Args:
            statements: number of those that wrote to the branch, which has no more snapshots.

        Raises:
            ConflictError: if ``main`` has moved; nothing was published.
            OutcomeUnknownError: if neither the reply nor the table could be read.
        """
        plan = self.plan
        target, branch = plan.entry.target, plan.branch
        snapshots = statements + (plan.head is None)  # a branch from nothing begins with one
        built = BranchState(branch, plan.head, plan.attempt, snapshots)
        if self._lake.moves_branches:
            self._publish_at_once(built)
            return
        dead = self._lake.dead_once_published(target, built, OWN_BRANCH)
        if dead is None:
            self.close_branch()
            what = "another writer published while this batch was at work"
            remedy = "the range is merged again by the next try"
            raise ConflictError(what, where=plan.where, remedy=remedy)
        try:
            with translated("publish", plan.where):
                self._run("fast-forward main", sql.fast_forward(self.catalog, target, branch))
            self._dead = dead
        except ConflictError:
            self.close_branch()
            raise
        except TransientError as lost:
            self._look(lost)

    def _publish_at_once(self, built: BranchState) -> None:
        """Does steps 3 to 5 where the catalog moves branches, if the check of step 3 still holds.

        A conflict may be with this attempt itself, as anything between may send a request twice.
        """
        try:
            self._lake.publish(self.plan.entry.target, built, OWN_BRANCH)
        except TransientError as failed:
            self._look(failed)
        self._is_closed = True

    def close_branch(self) -> None:
        """Does step 5. Failing to drop a branch is harmless and only logged."""
        if self._is_closed:
            return
        plan = self.plan
        try:
            dead = self._dead
            if dead is None:  # not published, or the reply was lost
                dead = self._lake.dead_branches(plan.entry.target, OWN_BRANCH)
            with translated("drop branch", plan.where):
                for branch in dict.fromkeys((plan.branch, *dead)):
                    name = plan.entry.target
                    self._run("drop branch", sql.drop_branch(self.catalog, name, branch))
        except TransientError as error:
            _log.warning("branch %s was left behind: %s", plan.branch, error)

    def _look(self, lost: CdcError) -> None:
        plan = self.plan
        try:
            published = self._lake.has_attempt(plan.entry.target, plan.attempt)
        except CdcError as error:
            what = f"whether attempt {plan.attempt} was published is not known: {error.what}"
            remedy = "nothing was removed; the next run looks for the attempt before it merges"
            raise OutcomeUnknownError(what, where=plan.where, remedy=remedy) from error
        if not published:
            if isinstance(lost, ConflictError):
                self.close_branch()
            raise lost

    def _run(self, name: str, statement: str) -> None:
        with effect(f"spark: {name}"):
            self.spark.sql(statement)
