"""Orphans are removed from a lake in S3, for which Spark has no file system."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import s3fs
from cdc_assets_devstack.configured import layout_of, spark_of, spark_settings
from cdc_assets_devstack.layout import StackLayout
from cdc_assets_devstack.ports import pick_free_ports
from cdc_assets_devstack.spark_server import SparkServer
from pyspark.sql import SparkSession

from cdc_assets.config import ReplicationConfig
from cdc_assets.connect_session import open_session
from cdc_assets.lake import Lake
from cdc_assets.merge.statements import sql
from cdc_assets.merge.upkeep import Upkeep
from cdc_assets_tests.configuration import on_ports, source, write
from cdc_assets_tests.elsewhere.catalog import WAREHOUSE, s3_properties
from cdc_assets_tests.elsewhere.lake import SECRETS
from cdc_assets_tests.elsewhere.s3 import S3
from cdc_assets_tests.lake_view import read_rows
from cdc_assets_tests.world import entry_of

pytestmark = pytest.mark.stack

FRESH_FILES_TOO = {"spark.testing": "true"}
"""Otherwise Iceberg removes no file that is younger than a day; the store says when it was made."""

LEFT = b"by a writer that was killed"


@dataclass(frozen=True)
class InS3:
    """A lake in S3 and a local Spark server that has Iceberg's access to it, and no other."""

    config: ReplicationConfig
    spark: SparkSession
    files: s3fs.S3FileSystem


@pytest.fixture
def lake(stack_config: ReplicationConfig, tmp_path: Path) -> Iterator[InS3]:
    """With the JVM pieces of the tests' stack, of which nothing is started."""
    assert stack_config
    ports = pick_free_ports()
    s3 = S3(StackLayout(tmp_path / "s3"), ports.postgres)
    with ExitStack() as started, pytest.MonkeyPatch.context() as patch:
        started.callback(s3.stop)
        s3.bring_up(lambda _: None)
        properties = {**s3_properties(s3)}
        for name in SECRETS.keys() & properties.keys():
            patch.setenv(SECRETS[name], properties[name])
        said = {
            name: {"env": SECRETS[name]} if name in SECRETS else value
            for name, value in properties.items()
        }
        catalog = {"type": "sql", "uri": "sqlite:///lake/catalog.db", "properties": said}
        document = on_ports(
            ports,
            lake={"catalog": catalog, "warehouse": WAREHOUSE},
            spark={"remote": "local", "memory": "1g", "conf": FRESH_FILES_TOO},
            sources={"shop": source("shop")},
        )
        config = write(tmp_path / "replication.yaml", document)
        started.callback(SparkServer(layout_of(config), spark_settings(config)).stop)
        session = open_session(spark_of(config).url, isolated=False)
        started.callback(session.stop)
        files = s3fs.S3FileSystem(
            key=s3.key, secret=s3.secret, endpoint_url=s3.endpoint, use_listings_cache=False
        )
        yield InS3(config, session, files)


def test_orphans_go_and_files_of_a_table_of_a_similar_name_stay(lake: InS3) -> None:
    entry = entry_of("orders", lake.config)
    similar = entry_of("orders_of_others", lake.config)
    lake.spark.sql(f"CREATE NAMESPACE lake.{entry.target.namespace}")
    for each in (entry, similar):
        name = sql.table("lake", each.target)
        lake.spark.sql(f"CREATE TABLE {name} (id int) USING iceberg")
        lake.spark.sql(f"INSERT INTO {name} VALUES (1), (2)")
    opened = Lake(lake.config)
    place, beside = opened.place(entry.target), opened.place(similar.target)
    assert place is not None
    assert beside is not None
    assert place.is_listed_by_prefix
    left = [f"{each.location}/data/left.parquet" for each in (place, beside)]
    for each in left:
        lake.files.pipe_file(each, LEFT)
    later = datetime.now(UTC) + timedelta(days=4)
    upkeep = Upkeep(lake.config, [entry], opened, lambda: lake.spark, lambda: later)
    done = list(upkeep.carry_out(orphans=True))
    assert "remove orphans" in {each.task.value for each in done}
    assert [lake.files.exists(each) for each in left] == [False, True]
    for each in (entry, similar):
        assert [row["id"] for row in read_rows(lake.config, each.target)] == [1, 2]
