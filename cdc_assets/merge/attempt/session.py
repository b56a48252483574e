"""Prepares Spark sessions with the settings that decoding relies on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from pyspark.sql import SparkSession

from cdc_assets import decode

_FUSES: Final = "spark.sql.codegen.wholeStage"
_SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "true",
    # The constraints that Spark infers grow with the square of the columns: with 500 that may be
    # left out it ran out of memory. Nothing here gains by them.
    "spark.sql.constraintPropagation.enabled": "false",
    # Java never compiles a larger method, and interpreted, decoding takes several times as long.
    # Spark splits what it does not fuse into small methods.
    "spark.sql.codegen.hugeMethodLimit": "8000",
    # A batch's fold is cached. Most of it are structs, which Spark does not compress anyway, and to
    # look for what it may compress takes a fifth of a backlog's time.
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
    **decode.SETTINGS,
}


class PreparedSession:
    """The present session. A new one is prepared when it is first returned.

    Args:
        spark: returns the session as it is.

    Attributes:
        current: the session that was returned last; None before the first.
    """

    def __init__(self, spark: Callable[[], SparkSession]) -> None:
        self._spark = spark
        self._prepared: SparkSession | None = None
        self._fuses = self._is_fusing = True
        self.current: SparkSession | None = None

    def __call__(self) -> SparkSession:
        """Returns the session, with the settings that decoding relies on."""
        session = self.current = self._spark()
        if session is not self._prepared:
            for name, value in _SETTINGS.items():
                session.conf.set(name, value)
            self._prepared, self._is_fusing = session, True
        if self._fuses is not self._is_fusing:
            session.conf.set(_FUSES, str(self._fuses).lower())
            self._is_fusing = self._fuses
        return session

    @contextmanager
    def for_few(self) -> Iterator[None]:
        """Has Spark run the steps of statements on few records one by one during the block.

        It would fuse them into one method, written anew for each statement, and then often find
        that it is too large. Of a batch of 100 records that is a sixth, in time and in CPU time.
        """
        self._fuses = False
        try:
            yield
        finally:
            self._fuses = True
