"""The local stack for tests that need it: started once, in a home of its own, on free ports.

Nothing is downloaded here: the JVM pieces are those of the checkout (``make install``).
A fixture starts only the parts that it needs; a second one finds them running.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cdc_assets_devstack.configured import stack_of
from cdc_assets_devstack.java import OPTIONS_VARIABLE
from cdc_assets_devstack.layout import JARS_VARIABLE, Ports
from cdc_assets_devstack.ports import pick_free_ports
from cdc_assets_devstack.spark_server import SparkEndpoint
from cdc_assets_devstack.stack import LocalStack

from cdc_assets.config import ReplicationConfig
from cdc_assets_tests.configuration import database_of, on_ports, source, write
from cdc_assets_tests.markers import KINDS, chosen_by, kinds_in, require_one_kind
from cdc_assets_tests.toy import profiles
from cdc_assets_tests.workers import Dealer, sort_for_dealing

if TYPE_CHECKING:  # Spark's client takes seconds: the process that deals out tests needs none
    from cdc_assets_tests.pipeline import Pipeline, Session

profiles.load()
if not profiles.is_soak():  # a server ends before Java's second compiler has paid for its work
    os.environ.setdefault(OPTIONS_VARIABLE, "-XX:TieredStopAtLevel=1")

MARIADB_VARIABLE = "CDC_ASSETS_TESTS_MARIADB_DSN"
CHECKOUT_JARS = Path(__file__).parents[1] / ".cdc" / "jars"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no module of tests that ``-m`` leaves out as a whole."""
    chosen = chosen_by(config.option.markexpr)
    if len(chosen) == len(KINDS) or not collection_path.match("test_*.py"):
        return None
    return True if chosen.isdisjoint(kinds_in(collection_path)) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse tests of no kind, and bring the others into the order they are dealt out in."""
    require_one_kind(items)
    sort_for_dealing(items)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Dealer | None:
    """Keep tests together that share a stack's fixtures; see `cdc_assets_tests.workers`."""
    return Dealer(config, log) if config.getoption("dist") == "loadscope" else None


@pytest.fixture(scope="session")
def _no_finalizers() -> Iterator[None]:
    """Keep PySpark from closing forgotten sessions inside calls of others: it waits for itself.

    See ``_KEPT`` in `cdc_assets.connect_session`; tests make sessions elsewhere too.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pyspark.sql.connect.session.SparkSession.__del__", lambda _: None)
        yield


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take a closed port for closed at the first look, where nobody is about to listen."""
    monkeypatch.setattr("cdc_assets.log.admin.TURNED_AWAY_SECONDS", 0.1)
    monkeypatch.setattr("cdc_assets.orchestration.resources.PATIENCE_SECONDS", 0.3)


@pytest.fixture(scope="session")
def stack_config(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReplicationConfig]:
    """A configuration file in the home of the tests' stack: `stack_config.path`.

    A test with other sources writes its own file beside it, with the same home, lake and
    ports, so that it shares the Spark server.
    """
    ports: Ports = pick_free_ports()
    file = tmp_path_factory.mktemp("stack") / "replication.yaml"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(JARS_VARIABLE, os.environ.get(JARS_VARIABLE, str(CHECKOUT_JARS)))
        told = {"decimal_handling_mode": "string"}  # as the demo's connector is set
        shop = source("shop", connector=told, **database_of("SHOP_DSN"))
        config = write(file, on_ports(ports, sources={"shop": shop}))
        patch.setenv("SHOP_DSN", stack_of(config).postgres.dsn("shop"))
        yield config


@pytest.fixture(scope="session")
def _local_stack(stack_config: ReplicationConfig) -> Iterator[LocalStack]:
    local = stack_of(stack_config)
    yield local
    local.down()


@pytest.fixture(scope="session")
def stack_parts(_local_stack: LocalStack) -> Callable[..., LocalStack]:
    """Start only some parts: ``stack_parts("postgres", "kafka")`` returns the stack."""

    def start(*names: str) -> LocalStack:
        _local_stack.up(names)
        return _local_stack

    return start


@pytest.fixture(scope="session")
def stack(_local_stack: LocalStack) -> LocalStack:
    """The stack with all its parts running."""
    _local_stack.up()
    return _local_stack


@pytest.fixture(scope="session")
def postgres_dsn(stack_parts: Callable[..., LocalStack]) -> str:
    """A running PostgreSQL's database ``postgres``."""
    return stack_parts("postgres").postgres.dsn()


@pytest.fixture(scope="session")
def mariadb_dsn() -> str:
    """A running MariaDB with a binlog, for a user who may do everything."""
    dsn = os.environ.get(MARIADB_VARIABLE)
    if dsn is None:
        pytest.skip(f"the local stack has no MariaDB; {MARIADB_VARIABLE} may name one")
    return dsn


@pytest.fixture(scope="session")
def kafka_bootstrap(stack_parts: Callable[..., LocalStack]) -> str:
    """A running broker."""
    return stack_parts("kafka").kafka.address


@pytest.fixture(scope="session")
def spark_endpoint(stack_parts: Callable[..., LocalStack], _no_finalizers: None) -> SparkEndpoint:
    """A running Spark Connect server with the catalog ``lake`` of `stack_config`."""
    return stack_parts("spark").spark.endpoint


@pytest.fixture(scope="session")
def spark(spark_endpoint: SparkEndpoint) -> Iterator[Session]:
    """One session for all tests, as a function that gives it."""
    from cdc_assets import decode
    from cdc_assets.connect_session import open_session

    session = open_session(spark_endpoint.url)
    for name, value in decode.SETTINGS.items():
        session.conf.set(name, value)
    yield lambda: session
    session.stop()


@pytest.fixture
def pipeline(
    stack_config: ReplicationConfig, kafka_bootstrap: str, spark: Session, tmp_path: Path
) -> Callable[..., Pipeline]:
    """Make a pipeline: ``pipeline(tables={…}, bad_records=…)``, keys as under ``sources``."""
    from cdc_assets_tests.pipeline import Pipeline

    assert kafka_bootstrap

    def make(**source: object) -> Pipeline:
        return Pipeline(stack_config, spark, tmp_path, source)

    return make
