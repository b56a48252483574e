"""A Spark server without our jar, or with another build of it, is refused at the start."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from cdc_assets_devstack import local_files
from cdc_assets_devstack.configured import make_lake_folders
from cdc_assets_devstack.layout import StackLayout
from cdc_assets_devstack.ports import pick_free_ports
from cdc_assets_devstack.spark_server import SparkServer
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

from cdc_assets import decode
from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import ConfigError
from cdc_assets.operate.assess.parts import look_at_spark
from cdc_assets.operate.services import Services
from cdc_assets.orchestration.resources import spark_resource
from cdc_assets_tests import jars
from cdc_assets_tests.configuration import platform, source, write
from cdc_assets_tests.elsewhere.cluster import TOKEN_VARIABLE, spark_cluster

pytestmark = pytest.mark.stack

TOKEN = "SPARK_JAR_TOKEN"
ROW = StructType([StructField("id", LongType())])


class Server(SparkServer):
    """A server that was started with some jar of ours, or with none."""

    def __init__(self, home: Path, jar: Path | None, conf: Mapping[str, str]) -> None:
        super().__init__(StackLayout(home, pick_free_ports()), conf, "1g")
        self._jar = jar

    @property
    def own_jars(self) -> tuple[Path, ...]:
        return (local_files.JAR, *([self._jar] if self._jar is not None else []))

    def warm_up(self) -> None:
        """Not for a few statements."""


Configured = Callable[..., ReplicationConfig]


def leading_to(home: Path, spark: Mapping[str, object]) -> ReplicationConfig:
    made = write(home / "replication.yaml", platform(spark=spark, sources={"shop": source("shop")}))
    make_lake_folders(made)
    return made


@contextmanager
def server_with(home: Path, jar: Path | None, **conf: str) -> Iterator[Configured]:
    """Start it; a configuration that leads to it, with more keys of ``spark``."""
    server = Server(home, jar, {key.replace("_", "."): value for key, value in conf.items()})

    def configured(**more: object) -> ReplicationConfig:
        spark = {"remote": f"sc://localhost:{server.port}", "token": {"env": TOKEN}, **more}
        return leading_to(home, spark)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(TOKEN, server.token)
        server.bring_up(lambda _: None)
        try:
            yield configured
        finally:
            server.stop()


@pytest.fixture(scope="module")
def home(
    stack_config: ReplicationConfig, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Path]:
    """Makes a folder; the jars are those of the tests' stack."""
    assert stack_config
    return tmp_path_factory.mktemp


@pytest.fixture(scope="module")
def without(home: Callable[[str], Path]) -> Iterator[Configured]:
    with server_with(home("without"), None) as configured:
        yield configured


@pytest.fixture(scope="module")
def outdated(home: Callable[[str], Path]) -> Iterator[Configured]:
    """A server whose jar has the same classes, made of other sources."""
    folder = home("outdated")
    write_outdated(folder / "old.jar")
    with server_with(folder, folder / "old.jar") as configured:
        yield configured


def write_outdated(jar: Path) -> None:
    with zipfile.ZipFile(decode.JAR) as ours:
        files = {name: ours.read(name) for name in ours.namelist()}
    jars.write(jar, {**files, jars.entry(decode.JAR): b"0" * 64})


def refusal(config: ReplicationConfig) -> ConfigError:
    with pytest.raises(ConfigError) as refused:
        spark_resource(config).session()
    return refused.value


def reads(config: ReplicationConfig) -> bool:
    """Whether a run's session reads JSON by the function in the jar."""
    resource = spark_resource(config)
    try:
        documents = resource.session().range(0, 4, numPartitions=2)
        read = decode.read_json(F.expr("cast('{\"id\":7}' AS binary)"), ROW)
        found = documents.select(read.alias("d")).select("d.payload.id").collect()
        return [row["id"] for row in found] == [7] * 4
    finally:
        resource.forget()


def found_by_assess(config: ReplicationConfig) -> decode.JarMatch:
    resource = spark_resource(config, requires_jar=False)
    try:
        facts, _ = look_at_spark(config, resource.session, Services(config).clock, ())
        return facts.decoder
    finally:
        resource.forget()


def test_a_server_without_the_jar_is_refused_with_the_command(without: Configured) -> None:
    config = without()
    refused = refusal(config)
    assert refused.what == decode.JarMatch.NONE.value
    assert refused.where == f"Spark at {config.spark.remote}"
    assert "`cdc-assets jars`" in refused.remedy
    assert found_by_assess(config) is decode.JarMatch.NONE


def test_a_session_brings_the_jar_where_it_may(without: Configured) -> None:
    assert reads(without(send_jar=True))
    assert refusal(without()), "it left with its session"


def test_a_server_with_another_build_is_refused(outdated: Configured) -> None:
    refused = refusal(outdated())
    assert refused.what == decode.JarMatch.OTHER.value
    assert "`cdc-assets jars`" in refused.remedy
    assert found_by_assess(outdated()) is decode.JarMatch.OTHER


def test_the_servers_own_build_wins_over_one_that_a_session_brings(outdated: Configured) -> None:
    assert refusal(outdated(send_jar=True)).what == decode.JarMatch.OTHER.value


def test_an_executor_without_the_jar_or_with_another_build_is_found(
    home: Callable[[str], Path],
) -> None:
    """The driver has ours, as it would with an image of its own."""
    folder = home("executor")
    jar = folder / "executor.jar"
    with (
        spark_cluster(StackLayout(folder), given=[jar], size=1) as cluster,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv(TOKEN_VARIABLE, cluster.server.token)

        def configured(**more: object) -> ReplicationConfig:
            return leading_to(folder, {**cluster.document, **more})

        refused = refusal(configured())
        assert refused.what == decode.JarMatch.NONE_ON_EXECUTOR.value
        assert "`cdc-assets jars`" in refused.remedy
        assert reads(configured(send_jar=True))
        write_outdated(jar)
        for executor in cluster.executors():
            executor.kill()
            executor.wait(30)  # its worker starts another
        assert refusal(configured()).what == decode.JarMatch.OTHER.value


def test_a_server_started_with_jars_as_the_command_says_is_accepted(
    home: Callable[[str], Path],
) -> None:
    with server_with(home("told"), None, spark_jars=str(decode.JAR)) as configured:
        assert reads(configured())
        assert reads(configured(send_jar=True))
        assert found_by_assess(configured()) is decode.JarMatch.SAME
