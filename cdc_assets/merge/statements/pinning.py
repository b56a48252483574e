"""Checkpoints frames, so that later writes to their source tables do not change them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.connect.session import SparkSession as ConnectSession


def pinned(frame: DataFrame) -> DataFrame:
    """Checkpoints the rows, so that later writes to their source tables do not change them.

    A cached frame would be computed again after a write to one of those tables: a delete that
    was just remembered would then make itself look old.
    """
    with _active(frame.sparkSession):
        return frame.localCheckpoint(eager=True)


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
