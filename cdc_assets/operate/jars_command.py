"""Defines ``cdc-assets jars``, which prints what a Spark server of one's own needs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cdc_assets import decode

if TYPE_CHECKING:
    from cdc_assets.config import ReplicationConfig

_IN_S3 = ("s3://", "s3a://", "s3n://")


@click.command("jars")
@click.option("--path", "only_path", is_flag=True, help="Only the path of cdc-assets' own jar.")
def jars(*, only_path: bool) -> None:
    """Print the jars and settings that a Spark Connect server needs, and how to start it.

    With a configuration file, names only its databases' drivers. The jar of cdc-assets must have
    the version that merges.
    """
    if only_path:
        click.echo(str(decode.JAR))
        return
    for line in answer_lines(_needed()):
        click.echo(line)


@dataclass(frozen=True, slots=True)
class JarRequirements:
    """The requirements of a configuration.

    Attributes:
        drivers: artifacts of JDBC drivers, ``org:name``.
        is_in_s3: whether the lake is in S3.
    """

    drivers: frozenset[str]
    is_in_s3: bool = False


def needed_by(config: ReplicationConfig | None) -> JarRequirements:
    """Returns the requirements of a configuration; with None, the drivers of all databases."""
    from cdc_assets.databases.kinds import KINDS

    if config is None:
        return JarRequirements(frozenset(each.driver.artifact for each in KINDS.values()))
    databases = (each.database for each in config.sources.values())
    drivers = frozenset(KINDS[each.kind].driver.artifact for each in databases if each)
    return JarRequirements(drivers, config.lake.warehouse.startswith(_IN_S3))


def packages(needed: JarRequirements) -> tuple[str, ...]:
    """Returns Maven coordinates: the versions with which the tests run."""
    known = decode.artifacts(decode.SERVER_MANIFESTS["spark"])
    always = ("org.apache.iceberg:", "org.apache.spark:")
    named = [each for each in known if each.startswith(always) or _name(each) in needed.drivers]
    in_s3 = decode.artifacts(decode.SERVER_MANIFESTS["spark-s3"]) if needed.is_in_s3 else ()
    return (*named, *in_s3)


def answer_lines(needed: JarRequirements) -> Iterator[str]:
    """Yields the lines of the answer."""
    from cdc_assets.operate.assess.parts import EXTENSIONS, LEAST_SPARK

    maven, setting = packages(needed), f"spark.sql.extensions={EXTENSIONS}"
    yield f"Spark {'.'.join(map(str, LEAST_SPARK))}; driver and executors need"
    yield "from Maven:"
    yield from (f"  {each}" for each in maven)
    yield "from cdc-assets:"
    yield f"  {decode.JAR}"
    yield f"  build {decode.digest()}"
    yield "the setting:"
    yield f"  {setting}"
    yield "and the jars of the catalog and the object store, unless they are named here."
    yield ""
    yield "Start the server with all of it:"
    yield "  $SPARK_HOME/sbin/start-connect-server.sh \\"
    yield f"    --packages {','.join(maven)} \\"
    yield f"    --jars {decode.JAR} \\"
    yield f"    --conf {setting}"
    yield ""
    yield "If only the jar of cdc-assets cannot be put there, set `spark.send_jar: true`:"
    yield "each session then brings it along, and compiles its code again."


def _name(artifact: str) -> str:
    return artifact.rpartition(":")[0]


def _needed() -> JarRequirements:
    from cdc_assets.config import CONFIG_VARIABLE, DEFAULT_FILE, load_config

    is_there = CONFIG_VARIABLE in os.environ or Path(DEFAULT_FILE).exists()
    return needed_by(load_config() if is_there else None)
