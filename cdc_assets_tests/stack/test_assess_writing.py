"""Whether Spark's account may write: tried, and nothing is left, whatever ended it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cdc_assets.config import ReplicationConfig
from cdc_assets.operate.assess.finding import Subject, Verdict
from cdc_assets.operate.assess.writing import PREFIX, judge_writing, probe_tables
from cdc_assets_tests.pipeline import Session

pytestmark = pytest.mark.stack

NOW = datetime(2026, 3, 4, 12, tzinfo=UTC)
SOURCE = Subject("shop")


def left(spark: Session, catalog: str) -> list[str]:
    """The namespaces of assessments that are there."""
    rows = spark().sql(f"SHOW NAMESPACES IN {catalog} LIKE '{PREFIX}*'").collect()
    return sorted(str(row["namespace"]) for row in rows)


def test_what_a_killed_assessment_left_is_dropped_by_a_later_one(
    stack_config: ReplicationConfig, spark: Session
) -> None:
    catalog, session = stack_config.lake.catalog.name, spark()
    old = f"{PREFIX}{NOW - timedelta(hours=2):%Y%m%d%H%M%S}_0000000a"
    young = f"{PREFIX}{NOW - timedelta(minutes=2):%Y%m%d%H%M%S}_0000000b"
    foreign = f"{PREFIX}of_somebody"
    for namespace in (old, young, foreign):
        session.sql(f"CREATE NAMESPACE {catalog}.{namespace}")
    session.sql(f"CREATE TABLE {catalog}.{old}.tried (id BIGINT) USING iceberg")
    try:
        assert probe_tables(stack_config, session, NOW) is None
        assert left(spark, catalog) == [young, foreign]
    finally:
        for namespace in (young, foreign):
            session.sql(f"DROP NAMESPACE {catalog}.{namespace}")
    warehouse = Path(stack_config.lake.warehouse.removeprefix("file://"))
    assert not [*warehouse.glob(f"{PREFIX}*/*")]


def on_spark(
    spark: Session, config: ReplicationConfig, catalog: str, kind: str, database: Path, files: Path
) -> ReplicationConfig:
    """The configuration with a catalog that Spark has defined as said."""
    conf = {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": kind,
        ".warehouse": f"file://{files}",
        ".uri": f"jdbc:sqlite:{database}",
    }
    for key, value in conf.items():
        spark().conf.set(f"spark.sql.catalog.{catalog}{key}", value)
    named = config.lake.catalog.model_copy(update={"name": catalog})
    changed = config.lake.model_copy(update={"catalog": named, "warehouse": f"file://{files}"})
    return config.model_copy(update={"lake": changed})


def test_a_catalog_of_the_same_name_elsewhere_is_found(
    stack_config: ReplicationConfig, spark: Session, tmp_path: Path
) -> None:
    config = on_spark(spark, stack_config, "same_name", "jdbc", tmp_path / "theirs.db", tmp_path)
    (found,) = judge_writing(SOURCE, probe_tables(config, spark(), NOW))
    assert (found.name, found.verdict) == ("spark_tables", Verdict.NO)
    assert "Spark's catalog same_name is not the configured one" in found.problem
    assert left(spark, "same_name") == []


@pytest.mark.parametrize(
    ("kind", "name", "verdict"),
    [("hadoop", "spark_namespaces", Verdict.PARTIAL), ("jdbc", "spark_tables", Verdict.NO)],
)
def test_an_account_that_may_not_write_is_found(
    stack_config: ReplicationConfig, spark: Session, tmp_path: Path,
    kind: str, name: str, verdict: Verdict,
) -> None:  # fmt: skip
    file = tmp_path / "a file, and no folder"
    file.touch()
    catalog = f"refusing_{kind}"
    config = on_spark(spark, stack_config, catalog, kind, tmp_path / "catalog.db", file)

    (found,) = judge_writing(SOURCE, probe_tables(config, spark(), NOW))
    assert (found.name, found.verdict) == (name, verdict)
    if kind == "jdbc":
        assert left(spark, catalog) == []
