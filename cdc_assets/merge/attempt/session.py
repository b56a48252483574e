"""Prepares Spark sessions with the settings that decoding relies on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyspark.sql import SparkSession

from cdc_assets import decode

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
        self.current: SparkSession | None = None

    def __call__(self) -> SparkSession:
        """Returns the session, with the settings that decoding relies on."""
        session = self.current = self._spark()
        if session is not self._prepared:
            for name, value in _SETTINGS.items():
                session.conf.set(name, value)
            self._prepared = session
        return session
