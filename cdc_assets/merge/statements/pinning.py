"""Frames that stay what they are, whatever is written to the tables that they were made from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.connect.session import SparkSession as ConnectSession


def pinned(frame: DataFrame) -> DataFrame:
    """The same rows, whatever is written to the tables that they were made from.

    A cached frame would be made anew after a write to one of those: a delete that was just
    remembered would then make itself look old.
    """
    with _active(frame.sparkSession):
        return frame.localCheckpoint(eager=True)


@contextmanager
def _active(session: SparkSession) -> Iterator[None]:
    """With this session as the thread's active one.

    The client of PySpark 4.1 looks for a checkpointed frame in the active session, or else in
    the first of the process, not in the one that made it (``proto_to_remote_cached_dataframe``
    in ``pyspark/sql/connect/conversion.py``); there is no public way to say which is active.
    """
    threads = ConnectSession._active_session  # noqa: SLF001
    before = getattr(threads, "session", None)
    threads.session = session
    try:
        yield
    finally:
        threads.session = before
