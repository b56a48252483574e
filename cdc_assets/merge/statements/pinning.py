"""Keeps what was computed: by a checkpoint, which later writes do not change, or by a view."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.connect.dataframe import DataFrame as ConnectFrame
from pyspark.sql.connect.plan import CachedRemoteRelation, RemoveRemoteCachedRelation
from pyspark.sql.connect.session import SparkSession as ConnectSession

from cdc_assets.merge.statements.failures import released_after

_WRITES_CODE: Final = "spark.sql.codegen.factoryMode"
_MOST_ROWS: Final = 2**31 - 1
"""The largest limit that Spark knows; no batch has as many records."""


def pinned(frame: DataFrame) -> DataFrame:
    """Checkpoints the rows, so that later writes to their source tables do not change them.

    A cached frame would be computed again after a write to one of those tables: a delete that
    was just remembered would then make itself look old.
    """
    with _active(frame.sparkSession):
        return frame.localCheckpoint(eager=True)


def pinned_in_rounds(frame: DataFrame) -> DataFrame:
    """Checkpoints the rows of one round of a loop, which the next round joins with others.

    Spark estimates the size of a join as the product of both sides' and a checkpoint keeps the
    estimate. So after some rounds it has millions of digits, which Spark multiplies for hours. The
    estimate of a limit depends on nothing before it.
    """
    return pinned(frame.limit(_MOST_ROWS))


@contextmanager
def interpreted(spark: SparkSession) -> Iterator[None]:
    """Has Spark evaluate expressions itself during the block, instead of by code that it writes.

    For each projection of each task it writes the code, if only to find that it is compiled
    already. For some hundred rows that takes longer than to evaluate them.
    """
    spark.conf.set(_WRITES_CODE, "NO_CODEGEN")
    with released_after(lambda: spark.conf.unset(_WRITES_CODE)):
        yield


@contextmanager
def cached(frame: DataFrame, name: str, *, is_small: bool) -> Iterator[DataFrame]:
    """Keeps what is computed during the block; few rows by a checkpoint.

    Each statement that reads a cached frame has Spark analyze, and look for in its cache, all
    that made it. Reading records and folding them has a large plan: a fifth of a small batch.
    A checkpoint has none. But it leaves memory only when Java collects.

    Args:
        frame: to be kept. Of a larger one, what is computed when it is first read.
        name: what it is, as part of an SQL name.
        is_small: whether it has few values.
    """
    if is_small:
        small = pinned(frame)
        with unpinned_after(small):
            yield small
        return
    spark = frame.sparkSession
    # A view is analyzed once, however often it is read, a plan again with each statement.
    view = f"{name}_{uuid.uuid4().hex}"
    frame.createOrReplaceTempView(view)
    # Dropping a view also releases its cache.
    with released_after(lambda: spark.catalog.dropTempView(view)):
        spark.catalog.cacheTable(view)
        yield spark.table(view)


@contextmanager
def unpinned_after(found: DataFrame) -> Iterator[None]:
    """Releases what `pinned` returned after the block, however that ends.

    In a session within this process, Java releases it when it has collected the frame.
    """
    if not isinstance(found, ConnectFrame):
        yield
        return
    plan = cast("CachedRemoteRelation", found._plan)  # noqa: SLF001
    client = found.sparkSession.client
    try:
        with released_after(
            lambda: client.execute_command(RemoveRemoteCachedRelation(plan).command(client))
        ):
            yield
    finally:
        # The relation's finalizer would ask for it again, inside whatever Python is doing when it
        # collects the frame, and again and again if the server is gone.
        plan._spark_session = cast("Any", None)  # noqa: SLF001


@contextmanager
def _active(session: SparkSession) -> Iterator[None]:
    """Makes this session the thread's active one during the block.

    The client of PySpark 4.1 looks for a checkpointed frame in the active session, or else in
    the first of the process, not in the one that made it (``proto_to_remote_cached_dataframe``
    in ``pyspark/sql/connect/conversion.py``); there is no public way to set the active session.
    """
    threads = ConnectSession._active_session  # noqa: SLF001
    before = getattr(threads, "session", None)
    threads.session = session
    try:
        yield
    finally:
        threads.session = before
