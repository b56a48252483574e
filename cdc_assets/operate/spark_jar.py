"""Looks for our jar on a Spark server, which reads no record without it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cdc_assets import decode
from cdc_assets.errors import ConfigError, HungError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXECUTOR_SECONDS: Final = 300.0
"""How long a cluster may take to start an executor."""
REMEDY: Final = "start the server with the jars that `cdc-assets jars` prints"


def find_jar(session: SparkSession, where: str) -> decode.JarMatch:
    """Compares the jar of the server, and of an executor, with the package's.

    Args:
        session: a session, in which the jar's catalog is defined.
        where: Spark's address, for errors.

    Raises:
        HungError: if no executor answers for `EXECUTOR_SECONDS`.
    """
    from cdc_assets.merge.statements.deadline import Limits, Watch

    watch = Watch(lambda: session, Limits(EXECUTOR_SECONDS, EXECUTOR_SECONDS))
    try:
        with watch.step("ask an executor for its jar", where):
            return decode.found_by(session)
    except HungError as error:
        remedy = "check that the Spark server has executors, and room on them"
        raise error.but(where=where, remedy=remedy) from None


def require_jar(session: SparkSession, where: str) -> None:
    """Refuses a server that lacks our jar, or has another build of it.

    Raises:
        ConfigError: names the command that prints the jar's path.
        HungError: as for `find_jar`.
    """
    found = find_jar(session, where)
    if found is not decode.JarMatch.SAME:
        raise ConfigError(found.value, where=where, remedy=REMEDY, page="decode-jar")
