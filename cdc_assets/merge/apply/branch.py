"""The branch that a batch is built up on: every write of a batch goes through here."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_assets.changes.names import Shard
from cdc_assets.effects import effect
from cdc_assets.errors import UnreachableError
from cdc_assets.merge.apply.publish import Publisher
from cdc_assets.merge.plan.parts import Truncate
from cdc_assets.merge.statements import sql
from cdc_assets.merge.statements.joins import BROADCAST_KEYS
from cdc_assets.merge.statements.over import run_over
from cdc_assets.merge.statements.writing import snapshot_writer
from cdc_assets.schema.types import Column


class Branch:
    """The branch of one batch, opened by the first write.

    Attributes:
        publisher: of the batch.
        shard: the shard whose rows are written; None if the table has no shards.
    """

    def __init__(
        self, spark: SparkSession, publisher: Publisher, shard: Shard | None = None
    ) -> None:
        self._spark = spark
        self.shard = shard
        self._identifier: str | None = None
        self._statements = 0
        self.publisher = publisher

    @property
    def identifier(self) -> str | None:
        """Identifier of the branch for SQL; None as long as nothing was written."""
        return self._identifier if self._statements else None

    def truncate(self, at: Truncate, *, keep_deleted: bool) -> None:
        """Deletes, or marks, all rows older than a truncate."""
        if keep_deleted:
            self._run(
                "truncate", sql.mark_older(self._open(), at.position, at.at_micros, self.shard)
            )
        else:
            self._run("truncate", sql.delete_older(self._open(), at.position, self.shard))

    def fill(self, columns: Sequence[Column]) -> None:
        """Gives all rows the values that columns were added with."""
        values = {
            each.name: (each.existing.text, each.type)
            for each in columns
            if each.existing and each.existing.text is not None
        }
        self._run("fill columns", sql.fill(self._open(), values, self.shard))

    def delete_keys(self, changes: DataFrame, key: tuple[str, ...], count: int) -> None:
        """Deletes the rows of the keys of these changes (``count`` of them)."""
        keys = changes.select(*(F.col("key").getField(name).alias(name) for name in key))
        self._delete(keys, key, broadcast=count <= BROADCAST_KEYS)

    def delete_versions(
        self, versions: DataFrame, key: tuple[str, ...], count: int, *, current: bool
    ) -> None:
        """Deletes these versions of a history (``key position``), current ones or others."""
        names = (F.col("key").getField(name).alias(name) for name in key)
        wanted = versions.select(*names, F.col("position").alias(sql.POSITION))
        target, broadcast = self._open(), count <= BROADCAST_KEYS
        self._run_over(
            wanted,
            lambda view: sql.delete_versions(
                target, view, key, current=current, broadcast=broadcast
            ),
        )

    def end_older(self, position: str, ended: Mapping[str, tuple[str, str]]) -> None:
        """Ends the current versions of a history that a truncate removes: see `sql.end_older`."""
        self._run("truncate", sql.end_older(self._open(), position, ended))

    def delete_rows(self, ids: DataFrame, count: int) -> None:
        """Deletes rows by Iceberg's row id (``_row_id``)."""
        self._delete(ids.select(sql.ROW_ID), (sql.ROW_ID,), broadcast=count <= BROADCAST_KEYS)

    def append(self, rows: DataFrame, properties: Mapping[str, str]) -> None:
        """Appends rows; the properties go into the snapshot that this makes."""
        writer = snapshot_writer(rows, self._open(), properties)
        self._statements += 1
        with effect("spark: append rows"):
            writer.append()

    def overwrite(self, rows: DataFrame, properties: Mapping[str, str]) -> None:
        """Puts rows in the place of all of the shard that are there; properties as for `append`."""
        writer = snapshot_writer(rows, self._open(), properties)
        self._statements += 1
        with effect("spark: overwrite rows"):
            writer.overwrite(F.expr(sql.of_shard(self.shard)))

    def publish(self) -> None:
        """Makes the branch visible, and drops it."""
        self.publisher.publish(self._statements)
        self.publisher.close_branch()

    @contextmanager
    def dropped_on_failure(self) -> Generator[None]:
        """Drops the branch if the block fails and there is one.

        If Spark cannot be reached it stays, and the next publish finds and drops it.
        """
        try:
            yield
        except UnreachableError:
            raise
        except Exception:
            if self._identifier is not None:
                self.publisher.close_branch()
            raise

    def _open(self) -> str:
        if self._identifier is None:
            self._identifier = self.publisher.open_branch()
        return self._identifier

    def _delete(self, keys: DataFrame, names: tuple[str, ...], *, broadcast: bool) -> None:
        target, shard = self._open(), self.shard
        self._run_over(
            keys,
            lambda view: sql.delete_keys(target, view, names, broadcast=broadcast, shard=shard),
        )

    def _run_over(self, rows: DataFrame, statement: Callable[[str], str]) -> None:
        self._statements += 1
        with effect("spark: delete rows"):
            run_over(self._spark, rows, statement)

    def _run(self, name: str, statement: str) -> None:
        self._statements += 1
        with effect(f"spark: {name}"):
            self._spark.sql(statement)
