"""Probes the parts that every table needs: whether they answer, and permit what is necessary.

A part that does not answer becomes a finding (`away`): NO, or PARTIAL where nobody asked it, as
this process lacks the secret for it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from cdc_assets import decode
from cdc_assets.config import ReplicationConfig
from cdc_assets.config.database import DatabaseKind
from cdc_assets.databases.mysql import jdbc as mysql
from cdc_assets.databases.postgres import jdbc as postgres
from cdc_assets.errors import CdcError, UnsetVariableError
from cdc_assets.operate import spark_jar
from cdc_assets.operate.assess.database import Clock
from cdc_assets.operate.assess.finding import Finding, Place, no, yes_but

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cdc_assets.lake import Lake

Session = Callable[[], "SparkSession"]

LEAST_SPARK: Final = (4, 1)
LEAST_ICEBERG: Final = (1, 12)
"""The oldest version that is tested."""
EXTENSIONS: Final = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
_CATALOGS: Final = (
    "org.apache.iceberg.spark.SparkCatalog",
    "org.apache.iceberg.spark.SparkSessionCatalog",
)
_REMEDY: Final = "`cdc-assets jars` prints what a Spark server of your own needs"


def away(name: str, at: Place, error: CdcError, impact: str) -> Finding:
    """Returns the finding for a part that does not answer, refuses, or could not be asked."""
    if isinstance(error, UnsetVariableError):
        problem = f"{error.what} in this process, so that it did not ask"
        elsewhere = "or see the check `assessed`, where Dagster's processes have it"
        return yes_but(name, at, problem, f"unknown: {impact}", f"{error.remedy}; {elsewhere}")
    where = f" [{error.where}]" if error.where else ""
    return no(name, at, f"{error.what}{where}", impact, error.remedy or "look at its log")


@dataclass(frozen=True, slots=True)
class SparkFacts:
    """The facts about a Spark server.

    Attributes:
        version: the version of Spark.
        extensions: the value of ``spark.sql.extensions``.
        catalog: the class of the lake's catalog; empty if there is none of its name.
        opens_catalog: whether the catalog's namespaces can be listed.
        iceberg: the version of its Iceberg; empty if unknown.
        reads_kafka: whether it has the reader of Kafka.
        no_drivers: the requested classes of JDBC drivers that are not on its class path.
        decoder: the jar of ours that it has, compared with the package's.
    """

    version: str
    extensions: str
    catalog: str
    opens_catalog: bool
    iceberg: str
    reads_kafka: bool
    no_drivers: frozenset[str] = frozenset()
    decoder: decode.JarMatch = decode.JarMatch.SAME


@dataclass(frozen=True, slots=True)
class Driver:
    """A JDBC driver: the name of its class, and the artifact with it."""

    name: str
    artifact: str


_OF_MYSQL: Final = Driver(mysql.DRIVER, "org.mariadb.jdbc:mariadb-java-client")
JDBC: Final[Mapping[DatabaseKind, Driver]] = {
    "postgres": Driver(postgres.DRIVER, "org.postgresql:postgresql"),
    "mysql": _OF_MYSQL,
    "mariadb": _OF_MYSQL,
}
"""The drivers with which tables are read again, by database."""


@dataclass(frozen=True, slots=True)
class Needed:
    """The requirements of one source for Spark.

    Attributes:
        driver: the driver that reads its database; None if none is needed.
    """

    driver: Driver | None = None


def judge_spark(at: Place, spark: SparkFacts, needed: Needed) -> Iterator[Finding]:
    """Yields a finding for everything that a server lacks."""
    nothing = "no batch can be merged"
    if _numbers(spark.version) < LEAST_SPARK:
        least = ".".join(map(str, LEAST_SPARK))
        problem = f"Spark is {spark.version}, older than {least}"
        yield no("spark", at, problem, nothing, f"use Spark {least}; {_REMEDY}")
    if EXTENSIONS not in spark.extensions:
        problem = "Spark is without Iceberg's SQL extensions (spark.sql.extensions)"
        yield no("spark", at, problem, nothing, f"set it to {EXTENSIONS}; {_REMEDY}")
    if spark.catalog not in _CATALOGS:
        problem = "Spark has no Iceberg catalog of the configured name"
        yield no("spark", at, problem, nothing, f"define spark.sql.catalog.…; {_REMEDY}")
    elif not spark.opens_catalog:
        problem = "Spark cannot list the namespaces of the catalog"
        remedy = "check that iceberg-spark-runtime is on the server, and its catalog's settings"
        yield no("spark", at, problem, nothing, f"{remedy}; {_REMEDY}")
    elif spark.iceberg and _numbers(spark.iceberg) < LEAST_ICEBERG:
        least = ".".join(map(str, LEAST_ICEBERG))
        problem = f"Spark's Iceberg is {spark.iceberg}, older than {least}"
        impact = "batches cannot be written: decode.jar is made for this version"
        remedy = f"use iceberg-spark-runtime {least} or newer; {_REMEDY}"
        yield no("iceberg", at, problem, impact, remedy)
    if not spark.reads_kafka:
        problem = "Spark is without its reader of Kafka"
        yield no("spark", at, problem, nothing, f"add spark-sql-kafka-0-10; {_REMEDY}")
    if spark.decoder is not decode.JarMatch.SAME:
        yield no("spark", at, spark.decoder.value, nothing, spark_jar.REMEDY)
    if needed.driver is not None and needed.driver.name in spark.no_drivers:
        problem = f"Spark is without the JDBC driver of the database ({needed.driver.name})"
        impact = "tables cannot be read again from their source (resnapshot)"
        yield yes_but(
            "jdbc_driver", at, problem, impact, f"add {needed.driver.artifact}; {_REMEDY}"
        )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())


def look_at_spark(
    config: ReplicationConfig,
    session: Session,
    clock: Callable[[], datetime],
    drivers: Iterable[str],
) -> tuple[SparkFacts, Clock]:
    """Asks Spark for its facts. Reads no record and writes nothing.

    Args:
        config: the configuration.
        session: creates a session.
        clock: the wall clock.
        drivers: the classes of JDBC drivers to look for.

    Raises:
        CdcError: if Spark does not answer.
    """
    from pyspark.errors import PySparkException

    spark, name = session(), config.lake.catalog.name

    def works(statement: Callable[[], object]) -> bool:
        try:
            statement()
        except PySparkException:
            return False
        return True

    before = clock()
    (row,) = spark.sql("SELECT unix_micros(current_timestamp()) AS now").collect()
    now = datetime.fromtimestamp(row["now"] / 1e6, tz=before.tzinfo)
    facts = SparkFacts(
        version=spark.version,
        extensions=spark.conf.get("spark.sql.extensions", None) or "",
        catalog=spark.conf.get(f"spark.sql.catalog.{name}", None) or "",
        opens_catalog=works(lambda: spark.sql(f"SHOW NAMESPACES IN {name}").collect()),
        iceberg=_iceberg(spark, name),
        reads_kafka=works(lambda: _kafka(spark)),
        no_drivers=frozenset(each for each in drivers if not _has_class(spark, each)),
        decoder=_decoder(spark),
    )
    return facts, Clock.of("Spark", now, before, clock())


def _decoder(spark: SparkSession) -> decode.JarMatch:
    from cdc_assets.merge.statements.failures import translated

    with translated("look for our jar", "Spark"):
        return spark_jar.find_jar(spark, "Spark")


def _iceberg(spark: SparkSession, catalog: str) -> str:
    from pyspark.errors import PySparkException

    try:
        (row,) = spark.sql(f"SELECT {catalog}.system.iceberg_version()").collect()
    except PySparkException:  # a catalog that is not Iceberg's is a finding of its own
        return ""
    return str(row[0]).removeprefix("Apache Iceberg ")


def _has_class(spark: SparkSession, driver: str) -> bool:
    """Returns whether a driver exists: Spark looks for its class before it uses the URL."""
    from pyspark.errors import PySparkException

    reader = spark.read.format("jdbc").options(driver=driver, url="jdbc:none", dbtable="none")
    try:
        reader.load().schema  # noqa: B018 - asks
    except PySparkException as error:
        return "ClassNotFound" not in str(error)
    return True


def _kafka(spark: SparkSession) -> object:
    """Returns the schema of Kafka's reader; does not connect to a broker."""
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", "127.0.0.1:1")
    return reader.option("subscribe", "none").load().schema


def probe_warehouse(at: Place, lake: Lake, warehouse: str) -> Iterator[Finding]:
    """Writes a small file beside the tables, reads it and deletes it again."""
    place = f"{warehouse.rstrip('/')}/.cdc-assets-assess-{uuid.uuid4().hex}"
    nothing = "no batch can be written"
    try:
        left = lake.write_and_delete(place)
    except CdcError as error:
        yield away("warehouse", at, error, nothing)
        return
    if left:
        yield no(
            "warehouse",
            at,
            f"what is written into the warehouse cannot be deleted ({left})",
            "upkeep fails, and files of tables that were dropped or compacted stay",
            "allow deleting below the warehouse, and remove this file",
        )
