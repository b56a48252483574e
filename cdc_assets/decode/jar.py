"""Names our jar for Spark, and compares a server's jar with the package's.

The package contains the jar (``jvm``), and the jar a catalog of functions: no session has to
register functions. Driver and executors of a server need the same build of the jar as the package.
"""

from __future__ import annotations

import re
import zipfile
from enum import Enum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAR: Final = Path(__file__).with_name("jvm") / "decode.jar"
CATALOG: Final = "cdc_decode"
SETTINGS: Final = {f"spark.sql.catalog.{CATALOG}": "cdc_assets.decode.Functions"}
"""The settings of every session that reads records."""
SERVER_MANIFESTS: Final = {name: JAR.with_name(f"{name}.xml") for name in ("spark", "spark-s3")}
"""Ivy's manifests of the artifacts that a Spark server needs from Maven, in general and for S3."""
_BUILD: Final = "cdc_assets.decode.Build"
_TASKS: Final = 2
_NONE: Final = re.compile(
    rf"Cannot find catalog plugin class for catalog '{CATALOG}'|UNEXPECTED_CLASS_TYPE\b.*{_BUILD}"
)
_NONE_ON_EXECUTOR: Final = re.compile(rf"ClassNotFoundException: {_BUILD}")
_OTHER: Final = re.compile(rf"UNRESOLVED_ROUTINE\b.*{CATALOG}|UNEXPECTED_STATIC_METHOD\b.*{_BUILD}")


class JarMatch(Enum):
    """The jar of a server, compared with the package's; its value is the difference."""

    SAME = ""
    NONE = f"Spark has no {JAR.name} of cdc-assets"
    NONE_ON_EXECUTOR = f"an executor of Spark has no {JAR.name} of cdc-assets"
    OTHER = f"Spark has another build of {JAR.name} than this cdc-assets"


@cache
def digest() -> str:
    """Returns the digest of the sources from which the package's jar was built."""
    with zipfile.ZipFile(JAR) as file:
        return file.read(f"META-INF/{JAR.stem}.sha256").decode()


def artifacts(manifest: Path) -> tuple[str, ...]:
    """Returns the artifacts that a manifest names, as ``org:name:version``."""
    found = ElementTree.parse(manifest).iterfind("dependencies/dependency")  # noqa: S314
    return tuple(f"{each.get('org')}:{each.get('name')}:{each.get('rev')}" for each in found)


def found_by(session: SparkSession) -> JarMatch:
    """Compares the jars of the server's driver and executors with the package's.

    Defines the catalog in the session. Only those executors are asked that get one of a few tasks.
    Any failure that does not come from the jar is raised as it is.
    """
    from pyspark.sql import functions as F

    for name, value in SETTINGS.items():
        session.conf.set(name, value)
    tasks = session.range(0, _TASKS, numPartitions=_TASKS)
    of_driver = F.call_function(f"{CATALOG}.build")
    of_executor = F.java_method(F.lit(_BUILD), F.lit("digest"))
    try:
        rows = tasks.select(of_driver, of_executor).collect()
    except Exception as error:
        if (found := _match_in(str(error))) is None:
            raise
        return found
    builds = {build for row in rows for build in row}
    return JarMatch.SAME if builds == {digest()} else JarMatch.OTHER


def _match_in(message: str) -> JarMatch | None:
    if _NONE.search(message):
        return JarMatch.NONE
    if _NONE_ON_EXECUTOR.search(message):
        return JarMatch.NONE_ON_EXECUTOR
    return JarMatch.OTHER if _OTHER.search(message) else None
