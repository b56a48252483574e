"""Probes the parts that every table needs: whether they answer, and permit what is necessary.

A part that does not answer becomes a finding (`away`): NO, or PARTIAL where nobody asked it, as
this process lacks the secret for it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from cdc_assets import decode
from cdc_assets.config import ReplicationConfig
from cdc_assets.databases.rows import Driver
from cdc_assets.errors import CdcError, UnsetVariableError
from cdc_assets.operate import spark_jar
from cdc_assets.operate.assess.database import Clock
from cdc_assets.operate.assess.finding import Finding, Obstacle, Rule, Subject, Verdict, judged

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
_SPARK: Final = ".".join(map(str, LEAST_SPARK))
_ICEBERG: Final = ".".join(map(str, LEAST_ICEBERG))
REMEDY: Final = "`cdc-assets jars` prints what your Spark server needs"


def _away(error: CdcError, *, is_asked: bool) -> Iterable[Obstacle]:
    """Finds a part that does not answer; or one that this process lacks the secret for."""
    if isinstance(error, UnsetVariableError) is is_asked:
        return
    if not is_asked:
        yield Obstacle(
            f"{error.what} in this process, so that it did not ask", words={"remedy": error.remedy}
        )
        return
    where = f" [{error.where}]" if error.where else ""
    yield Obstacle(f"{error.what}{where}", words={"remedy": error.remedy or "look at its log"})


def _rules_of(name: str, looks_at: str, impact: str) -> tuple[Rule[CdcError], Rule[CdcError]]:
    """Returns the rules on a part: whether it answers, and whether it could be asked."""
    elsewhere = "or see the check `assessed`, where Dagster's processes have it"
    return (
        Rule(name, Verdict.NO, looks_at, partial(_away, is_asked=True), impact, "{remedy}"),
        Rule(
            name, Verdict.PARTIAL, f"{looks_at}, without its secret in this process",
            partial(_away, is_asked=False), f"unknown: {impact}", f"{{remedy}}; {elsewhere}",
        ),
    )  # fmt: skip


_NOTHING_MERGED: Final = "no batch can be merged"
AWAY: Final[Mapping[str, tuple[Rule[CdcError], ...]]] = {
    "kafka": _rules_of(
        "kafka", "Kafka", "nothing can be read, and topics are not judged"
    ),
    "catalog": _rules_of(
        "catalog", "the catalog, and reading its tables",
        "no batch can be planned or published",
    ),
    "connect": _rules_of(
        "connect", "Kafka Connect",
        "how the connector is, and how it is set, is not known",
    ),
    "database": _rules_of(
        "database", "the database",
        "types, keys and what is published of its tables are not known",
    ),
    "registry": _rules_of(
        "registry", "the schema registry",
        "records with schemas that were not seen before cannot be read",
    ),
    "spark": _rules_of("spark", "Spark", _NOTHING_MERGED),
    "warehouse": _rules_of(
        "warehouse", "writing, reading and deleting a file", "no batch can be written"
    ),
    "spark_tables": _rules_of(
        "spark_tables", "creating, writing, reading and dropping a table",
        "no batch can be written, or nothing dropped",
    ),
}  # fmt: skip
"""The rules on each part, by the name of their findings."""


def away(name: str, at: Subject, error: CdcError) -> Finding:
    """Returns the finding for a part that does not answer, refuses, or could not be asked."""
    (found,) = judged(AWAY[name], at, error)
    return found


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
        no_drivers: the requested classes, of JDBC drivers and of the login to Kafka, that are not
            on its class path.
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
class SparkRequirements:
    """The requirements of one source for Spark.

    Attributes:
        driver: the driver that reads its database; None if none is needed.
        kafka_login: the class that logs in to Kafka, if Kafka's own client has none.
    """

    driver: Driver | None = None
    kafka_login: str = ""


@dataclass(frozen=True, slots=True)
class Spark:
    """A Spark server, and one source's requirements for it."""

    facts: SparkFacts
    needed: SparkRequirements


def judge_spark(at: Subject, spark: SparkFacts, needed: SparkRequirements) -> Iterator[Finding]:
    """Yields a finding for everything that a server lacks."""
    return judged(SPARK, at, Spark(spark, needed))


def _old_spark(spark: Spark) -> str:
    version = spark.facts.version
    return f"Spark is {version}, older than {_SPARK}" if _numbers(version) < LEAST_SPARK else ""


def _closed_catalog(spark: Spark) -> str:
    is_closed = spark.facts.catalog in _CATALOGS and not spark.facts.opens_catalog
    return "Spark cannot list the namespaces of the catalog" if is_closed else ""


def _old_iceberg(spark: Spark) -> str:
    facts = spark.facts
    is_known = facts.catalog in _CATALOGS and facts.opens_catalog and facts.iceberg
    is_old = is_known and _numbers(facts.iceberg) < LEAST_ICEBERG
    return f"Spark's Iceberg is {facts.iceberg}, older than {_ICEBERG}" if is_old else ""


def _without_driver(spark: Spark) -> Iterable[Obstacle]:
    driver = spark.needed.driver
    if driver is not None and driver.name in spark.facts.no_drivers:
        problem = f"Spark is without the JDBC driver of the database ({driver.name})"
        yield Obstacle(problem, words={"artifact": driver.artifact})


def _without_login(spark: Spark) -> str:
    login = spark.needed.kafka_login
    is_missing = login and login in spark.facts.no_drivers
    return f"Spark is without the jar that logs in to MSK ({login})" if is_missing else ""


SPARK: Final[tuple[Rule[Spark], ...]] = (
    Rule(
        "spark", Verdict.NO, "Spark's version", _old_spark, _NOTHING_MERGED,
        f"use Spark {_SPARK}; {REMEDY}",
    ),
    Rule(
        "spark", Verdict.NO, "`spark.sql.extensions`",
        lambda spark: "Spark is without Iceberg's SQL extensions (spark.sql.extensions)"
        if EXTENSIONS not in spark.facts.extensions else "",
        _NOTHING_MERGED, f"set it to {EXTENSIONS}; {REMEDY}",
    ),
    Rule(
        "spark", Verdict.NO, "the class of Spark's catalog",
        lambda spark: "Spark has no Iceberg catalog of the configured name"
        if spark.facts.catalog not in _CATALOGS else "",
        _NOTHING_MERGED, f"define spark.sql.catalog.…; {REMEDY}",
    ),
    Rule(
        "spark", Verdict.NO, "the namespaces of Spark's catalog", _closed_catalog,
        _NOTHING_MERGED,
        f"check the server's iceberg-spark-runtime and catalog settings; {REMEDY}",
    ),
    Rule(
        "iceberg", Verdict.NO, "the version of Spark's Iceberg", _old_iceberg,
        "batches cannot be written: decode.jar is made for this version",
        f"use iceberg-spark-runtime {_ICEBERG} or newer; {REMEDY}",
    ),
    Rule(
        "spark", Verdict.NO, "Spark's reader of Kafka",
        lambda spark: "" if spark.facts.reads_kafka else "Spark is without its reader of Kafka",
        _NOTHING_MERGED, f"add spark-sql-kafka-0-10; {REMEDY}",
    ),
    Rule(
        "spark", Verdict.NO, "Spark's build of `decode.jar`",
        lambda spark: spark.facts.decoder.value
        if spark.facts.decoder is not decode.JarMatch.SAME else "",
        _NOTHING_MERGED, spark_jar.REMEDY,
    ),
    Rule(
        "kafka_login", Verdict.NO, "the jar for MSK's IAM login", _without_login,
        "batches that Spark reads from Kafka fail",
        f"add software.amazon.msk:aws-msk-iam-auth (the one named -all); {REMEDY}",
    ),
    Rule(
        "jdbc_driver", Verdict.PARTIAL, "JDBC driver of the source",
        _without_driver, "tables cannot be read again from their source (resnapshot)",
        f"add {{artifact}}; {REMEDY}",
    ),
)  # fmt: skip


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


def probe_warehouse(at: Subject, lake: Lake, warehouse: str) -> Iterator[Finding]:
    """Writes a small file to the tables' folder, reads it and deletes it again."""
    place = f"{warehouse.rstrip('/')}/.cdc-assets-assess-{uuid.uuid4().hex}"
    try:
        left = lake.write_and_delete(place)
    except CdcError as error:
        yield away("warehouse", at, error)
        return
    yield from judged(WAREHOUSE, at, left)


WAREHOUSE: Final[tuple[Rule[str], ...]] = (
    Rule(
        "warehouse", Verdict.NO, "deleting files",
        lambda left: f"what is written into the warehouse cannot be deleted ({left})"
        if left else "",
        "upkeep fails, and files of tables that were dropped or compacted stay",
        "allow deletes below the warehouse, and remove this file",
    ),
)  # fmt: skip
