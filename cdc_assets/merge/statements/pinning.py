"""Checkpoints frames, so that later writes to their source tables do not change them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.connect.dataframe import DataFrame as ConnectFrame
from pyspark.sql.connect.plan import CachedRemoteRelation, RemoveRemoteCachedRelation
from pyspark.sql.connect.session import SparkSession as ConnectSession

from cdc_assets.merge.statements.failures import released_after


def pinned(frame: DataFrame) -> DataFrame:
    """Checkpoints the rows, so that later writes to their source tables do not change them.

    A cached frame would be computed again after a write to one of those tables: a delete that
    was just remembered would then make itself look old.
    """
    with _active(frame.sparkSession):
        return frame.localCheckpoint(eager=True)


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
