"""The writes of a batch: every one goes through here, and all become visible at once."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_assets.effects import effect
from cdc_assets.errors import UnreachableError
from cdc_assets.merge.apply.publish import Publisher
from cdc_assets.merge.intake.read import is_one_task
from cdc_assets.merge.plan.barriers import Truncate, marks_of
from cdc_assets.merge.statements import sql
from cdc_assets.merge.statements.joins import hinted
from cdc_assets.merge.statements.writing import (
    PLACE,
    Target,
    arranged,
    snapshot_writer,
    write_changes,
)
from cdc_assets.merge.tables.lookups import lake_table
from cdc_assets.merge.tables.pruning import KeySearch
from cdc_assets.schema.types import Column

_SMALL_TABLE: Final = 1_000_000
"""Rows whose keys one task reads in no more time than a shuffle takes."""


class Branch:
    """The branch of one batch, opened by the first write unless that is the only one.

    A write that is the only one goes to ``main`` itself, by a commit that is refused if ``main``
    is no longer where the plan saw it. So most batches need no branch.

    Args:
        publisher: of the batch.
        require: checks once more whether the batch may become visible, when all of it was read.
    """

    def __init__(self, publisher: Publisher, require: Callable[[], None] = lambda: None) -> None:
        self._plan = publisher.plan
        self._identifier: str | None = None
        self._statements = 0
        self._is_published = False
        self._publisher = publisher
        self._require = require

    @property
    def identifier(self) -> str | None:
        """Identifier of the branch for SQL; None as long as nothing was written."""
        return self._identifier if self._statements else None

    def truncate(self, truncates: Sequence[Truncate], *, keep_deleted: bool) -> None:
        """Deletes all rows older than the last truncate, or marks each by the first newer one."""
        shard = self._plan.entry.shard
        if keep_deleted:
            self._run("truncate", sql.mark_older(self._open(), marks_of(truncates), shard))
        else:
            self._run("truncate", sql.delete_older(self._open(), truncates[-1].position, shard))

    def fill(self, columns: Sequence[Column]) -> None:
        """Gives all rows the values that columns were added with."""
        values = {
            each.name: (each.existing.text, each.type)
            for each in columns
            if each.existing and each.existing.text is not None
        }
        self._run("fill columns", sql.fill(self._open(), values, self._plan.entry.shard))

    def end_older(self, position: str, ended: Mapping[str, tuple[str, str]]) -> None:
        """Ends the current versions of a history that a truncate removes: see `sql.end_older`."""
        self._run("truncate", sql.end_older(self._open(), position, ended))

    def rows(self) -> DataFrame:
        """Returns the table's rows as the batch has left them so far."""
        of = self._publisher
        return lake_table(of.spark, of.catalog, self._plan, self.identifier)

    def places(self, keys: DataFrame, count: int) -> DataFrame | None:
        """Returns the places of the rows with the keys of ``count`` changes (`KeySearch`)."""
        names = self._plan.schema.key
        search = KeySearch(self._plan, self._publisher.catalog)
        if search.prunes and not self._is_small:
            return search.places(self.rows(), keys, count)
        wanted = keys.select(*(F.col("key").getField(name).alias(name) for name in names))
        return self._places(self.rows(), wanted, names, count)

    def places_of_versions(
        self, versions: DataFrame, count: int, *, current: bool
    ) -> DataFrame | None:
        """Returns the places of these versions of a history (``key position``), current or not."""
        key = self._plan.schema.key
        names = (F.col("key").getField(name).alias(name) for name in key)
        wanted = versions.select(*names, F.col("position").alias(sql.POSITION))
        rows = self.rows().where(F.col(sql.CURRENT) == F.lit(current))
        return self._places(rows, wanted, (*key, sql.POSITION), count)

    def write(
        self, rows: DataFrame, properties: Mapping[str, str], gone: DataFrame | None = None
    ) -> None:
        """Adds rows, and removes others.

        Args:
            rows: that are added.
            properties: of the snapshot that this makes; empty if more is written after it.
            gone: `PLACE` of the rows that are removed, as the batch has left them so far.

        Raises:
            ConflictError, OutcomeUnknownError: of `Publisher.at_once`, if this is the only write.
        """
        of, plan = self._publisher, self._plan
        target = Target(of.catalog, plan.entry.target, plan.head)
        write = partial(write_changes, rows, gone, in_one_task=self._is_small, files=plan.files)
        if self.publishes(properties):
            self._require()
            of.at_once(lambda: write(target, properties))
            self._is_published = True
            return
        self._open()
        self._statements += 1
        with effect("spark: write rows"):
            write(replace(target, branch=plan.branch), properties)
        if properties:
            self._require()

    def publishes(self, properties: Mapping[str, str]) -> bool:
        """Returns whether a write with these properties would be the only one, and publish."""
        return bool(properties) and self._identifier is None

    def overwrite(self, rows: DataFrame, properties: Mapping[str, str]) -> None:
        """Puts rows in the place of all of the shard that are there; properties as for `write`."""
        of, plan = self._publisher, self._plan
        rows = arranged(rows, of.catalog, plan.files, spread=True)
        writer = snapshot_writer(rows, self._open(), properties, plan.files)
        self._statements += 1
        with effect("spark: overwrite rows"):
            writer.overwrite(F.expr(sql.of_shard(self._plan.entry.shard)))

    def publish(self) -> None:
        """Makes the branch visible, and drops it; does nothing if there is none."""
        if not self._is_published:
            self._publisher.publish(self._statements)
            self._publisher.close_branch()

    @contextmanager
    def dropped_on_failure(self) -> Generator[None]:
        """Drops the branch if the block fails and there is one.

        If Spark cannot be reached it stays, and upkeep finds and drops it.
        """
        try:
            yield
        except UnreachableError:
            raise
        except Exception:
            if self._identifier is not None:
                self._publisher.close_branch()
            raise

    @property
    def _is_small(self) -> bool:
        """Whether batch and table are small enough for one task, which saves a shuffle."""
        plan = self._plan
        found = plan.state.total_records if plan.state else None
        is_read = bool(plan.ranges) and is_one_task(plan.ranges)
        return is_read and found is not None and found <= _SMALL_TABLE

    def _open(self) -> str:
        if self._identifier is None:
            self._identifier = self._publisher.open_branch()
        return self._identifier

    def _places(
        self, rows: DataFrame, wanted: DataFrame, names: Sequence[str], count: int
    ) -> DataFrame | None:
        if self._plan.head is None and self.identifier is None:
            return None
        quoted = [sql.quote(name) for name in names]
        keys = hinted(wanted, count)
        table = rows.select(*PLACE, *quoted)
        same = [table[name] == keys[name] for name in quoted]
        return table.join(keys, same, "left_semi").select(*PLACE)

    def _run(self, name: str, statement: str) -> None:
        self._statements += 1
        with effect(f"spark: {name}"):
            self._publisher.spark.sql(statement)
