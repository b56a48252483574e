"""What Spark reads of a wave, by JDBC."""

from __future__ import annotations

from functools import reduce
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from cdc_assets.databases.reading import Wave
from cdc_assets.errors import ConfigError, TransientError
from cdc_assets.merge.statements.failures import translated
from cdc_assets.merge.statements.pinning import pinned

_STEP: Final = "read the source by JDBC"


def read(spark: SparkSession, wave: Wave, where: str) -> DataFrame:
    """All parts of a wave at once; pinned, so that the source is read once.

    Args:
        spark: the session.
        wave: open.
        where: for errors.

    Raises:
        ConfigError: if Spark has no driver of the database.
        TransientError: if the database could not be read.
    """
    try:
        with translated(_STEP, where):
            frames = [spark.read.format("jdbc").options(**part).load() for part in wave.parts]
            return pinned(reduce(DataFrame.unionByName, frames))
    except TransientError as error:
        if "ClassNotFound" in error.what:
            driver = wave.parts[0]["driver"]
            what = f"Spark cannot read the source: {driver} is not on its class path"
            remedy = "add the driver there; the local server's comes by cdc-assets stack install"
            raise ConfigError(what, where=where, remedy=remedy) from None
        raise
