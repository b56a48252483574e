"""Tries what every batch needs: branches and conflicts of the catalog, rights of Spark's account.

The tables are in namespaces that are made for them, whose names tell when: what a killed assessment
leaves is recognised by that, and dropped by the next one that comes an hour later or more.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from cdc_assets.changes.names import LakeName
from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import CdcError, TerminalError
from cdc_assets.operate.assess.finding import Finding, Rule, Subject, Verdict, judged
from cdc_assets.operate.assess.parts import away

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

    from cdc_assets.lake.abilities import CatalogAbilities
    from cdc_assets.merge.statements.deadline import Steps

PREFIX: Final = "cdc_assets_assess_"
_TIME: Final = "%Y%m%d%H%M%S"
_LEFT_AFTER: Final = timedelta(hours=1)
_STATEMENT_SECONDS: Final = 120.0
_WHOLE_SECONDS: Final = 600.0


@dataclass(frozen=True, slots=True)
class WriteRefusal:
    """What Spark's account could not do.

    Attributes:
        error: the error of the first step that failed.
        is_namespace: whether it could not make the namespace, so that nothing else was tried.
    """

    error: CdcError
    is_namespace: bool = False


def judge_writing(at: Subject, refused: WriteRefusal | None) -> Iterator[Finding]:
    """Yields the finding on what Spark's account could not do."""
    if refused is not None and not refused.is_namespace:
        yield away("spark_tables", at, refused.error)
    yield from judged(NAMESPACES, at, refused)


NAMESPACES: Final[tuple[Rule[WriteRefusal | None], ...]] = (
    Rule(
        "spark_namespaces", Verdict.PARTIAL, "creating namespaces",
        lambda refused: f"{refused.error.what} [{refused.error.where}]"
        if refused is not None and refused.is_namespace else "",
        "tables of a schema that the lake does not have yet cannot be made, and whether Spark may "
        "create, write and drop tables was not tried",
        "allow Spark's account to create namespaces; or create all of them, and accept this",
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class TriedCatalog:
    """What a catalog was seen to do, and what a source needs of it.

    Attributes:
        abilities: what was seen.
        format_version: ``lake.format_version``.
        takes_cuts: whether the source has ``consistent``.
    """

    abilities: CatalogAbilities
    format_version: int
    takes_cuts: bool


def probe_catalog(config: ReplicationConfig, now: datetime) -> CatalogAbilities:
    """Tries the catalog with small tables; see `cdc_assets.lake.abilities`.

    Raises:
        CdcError: if the catalog or the store does not answer, or refuses.
    """
    from cdc_assets.lake.abilities import try_catalog

    return try_catalog(config.lake, _new_namespace(now))


def judge_tried(at: Subject, tried: TriedCatalog) -> Iterator[Finding]:
    """Yields a finding for everything that a catalog was not seen to do."""
    return judged(CATALOG, at, tried)


def _other_version(tried: TriedCatalog) -> str:
    made, wanted = tried.abilities.format_version, tried.format_version
    problem = f"the catalog made a table of format version {made}, and {wanted} was requested"
    return problem if made != wanted else ""


def _tags_apart(tried: TriedCatalog) -> str:
    together = tried.abilities.together
    is_apart = tried.takes_cuts and together is not None and not together.is_whole
    return f"the catalog: {together.value}" if is_apart and together else ""


_ANOTHER: Final = "use a catalog in docs/catalogs.md"
CATALOG: Final[tuple[Rule[TriedCatalog], ...]] = (
    Rule(
        "catalog_snapshots", Verdict.NO, "older snapshots after a write",
        lambda tried: "" if tried.abilities.keeps_snapshots
        else "the catalog keeps only a table's newest snapshot",
        "the offsets that earlier batches published are lost with their snapshots, so that batches "
        "may be merged twice, or not at all", _ANOTHER,
    ),
    Rule(
        "catalog_branches", Verdict.NO, "branches and tags",
        lambda tried: "" if tried.abilities.makes_refs
        else "the catalog makes no branches and tags, whatever it answers",
        "batches of several writes would be visible in part", _ANOTHER,
    ),
    Rule(
        "catalog_conflicts", Verdict.NO, "two conflicting commits",
        lambda tried: "the catalog accepted both of two conflicting commits"
        if tried.abilities.refuses_conflicts is False else "",
        "two runs may overwrite each other's batches", _ANOTHER,
    ),
    Rule(
        "catalog_version", Verdict.NO, "the format version of a new table", _other_version,
        "tables are not of the version that is configured",
        "set lake.format_version to the catalog's, or upgrade the catalog",
    ),
    Rule(
        "cut_tags", Verdict.PARTIAL,
        "conflicting requests for several tables, with `consistent`",
        _tags_apart,
        "whoever reads the tag `consistent` while it is moved may find tables of two cuts; the "
        "table of cuts is right at any time",
        "read through consistent() or the table of cuts (docs/consistent.md), and accept this",
    ),
)  # fmt: skip


def probe_tables(
    config: ReplicationConfig, spark: SparkSession, now: datetime
) -> WriteRefusal | None:
    """Creates a small table through Spark, finds it in the catalog, appends, reads, and drops it.

    Drops what killed assessments have left, too. Each statement has a deadline.

    Args:
        config: the configuration.
        spark: a session.
        now: the time, aware.

    Returns:
        What was refused; None if nothing was.
    """
    from cdc_assets.merge.statements import sql
    from cdc_assets.merge.statements.deadline import Limits, Steps, Watch

    catalog = config.lake.catalog.name
    limits = Limits(_STATEMENT_SECONDS, _WHOLE_SECONDS)
    trial = _Trial(config, spark, Steps(f"catalog {catalog}", Watch(lambda: spark, limits)))
    namespace = _new_namespace(now)
    name = LakeName(namespace, "tried")
    with suppress(CdcError):
        trial.drop_left(now)
    try:
        trial.run("create a namespace", sql.create_namespace(catalog, name))
    except CdcError as error:
        return WriteRefusal(error, is_namespace=True)
    try:
        trial.use_table(name)
        trial.drop(namespace)
    except CdcError as error:
        with suppress(CdcError):
            trial.drop(namespace)
        return WriteRefusal(error)
    return None


@dataclass(frozen=True, slots=True)
class _Trial:
    """The statements of one trial."""

    config: ReplicationConfig
    spark: SparkSession
    steps: Steps

    @property
    def catalog(self) -> str:
        return self.config.lake.catalog.name

    def run(self, step: str, statement: str) -> Sequence[Row]:
        with self.steps.step(step):
            return self.spark.sql(statement).collect()

    def use_table(self, name: LakeName) -> None:
        from cdc_assets.merge.statements import sql

        properties = {"format-version": str(self.config.lake.format_version)}
        table, columns = sql.table(self.catalog, name), [("id", "BIGINT")]
        made = sql.create_side_table(self.catalog, name, columns, properties)
        self.run("create a table", made)
        self.require_same_catalog(name)
        self.run("append to a table", f"INSERT INTO {table} VALUES (1)")  # noqa: S608 - quoted
        self.run("read a table", f"SELECT id FROM {table}")  # noqa: S608 - quoted

    def require_same_catalog(self, name: LakeName) -> None:
        """Looks for Spark's table in the configured catalog: a server's own of its name wins.

        Raises:
            TerminalError: if Spark has made the table elsewhere.
            UnreachableError: if the catalog does not answer.
        """
        from cdc_assets.lake.connection import CatalogConnection

        if CatalogConnection(self.config.lake).load(name) is None:
            what = f"Spark's catalog {self.catalog} is not the configured one"
            remedy = (
                f"define spark.sql.catalog.{self.catalog} on the server as lake.catalog says, or "
                "name another lake.catalog.name: sessions define a catalog that the server lacks"
            )
            where = "a table that Spark has made is not in lake.catalog"
            raise TerminalError(what, where=where, remedy=remedy)

    def drop_left(self, now: datetime) -> None:
        """Drops what assessments have left that began an hour ago or earlier."""
        from cdc_assets.merge.statements import sql

        for row in self.run("list namespaces", f"SHOW NAMESPACES IN {sql.quote(self.catalog)}"):
            begun = _begun(namespace := str(row["namespace"]))
            if begun is not None and now - begun >= _LEFT_AFTER:
                with suppress(CdcError):  # another assessment may drop it too
                    self.drop(namespace)

    def drop(self, namespace: str) -> None:
        """Drops a namespace of an assessment, with its tables."""
        from cdc_assets.merge.statements import sql

        place, step = f"{sql.quote(self.catalog)}.{sql.quote(namespace)}", "drop a table"
        for row in self.run(step, f"SHOW TABLES IN {place}"):
            name = LakeName(namespace, str(row["tableName"]))
            self.run(step, sql.drop_table(self.catalog, name))
        self.run("drop a namespace", f"DROP NAMESPACE {place}")
        _remove_folders(self.config.lake.warehouse, namespace)


def _new_namespace(now: datetime) -> str:
    return f"{PREFIX}{now.astimezone(UTC):{_TIME}}_{uuid.uuid4().hex[:8]}"


def _begun(namespace: str) -> datetime | None:
    """Returns when an assessment made a namespace; None if none did."""
    if not namespace.startswith(PREFIX):
        return None
    try:
        said = namespace.removeprefix(PREFIX).partition("_")[0]
        return datetime.strptime(said, _TIME).replace(tzinfo=UTC)
    except ValueError:
        return None


def _remove_folders(warehouse: str, namespace: str) -> None:
    """Removes a namespace's empty folders from a local disk: dropping tables leaves them."""
    parts = urlsplit(warehouse)
    if parts.scheme not in {"", "file"}:
        return
    whole = Path(parts.path) / namespace
    for folder in (*sorted(whole.rglob("*"), reverse=True), whole):
        with suppress(OSError):  # a file of somebody else's, or no folder
            folder.rmdir()
