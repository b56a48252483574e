from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cdc_assets_devstack.stack import LocalStack
from click.testing import CliRunner, _NamedTextIOWrapper
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from cdc_assets.config import Secret, load_config
from cdc_assets.operate.init import init
from cdc_assets_tests.command import run_command
from cdc_assets_tests.configuration import NOWHERE
from cdc_assets_tests.stack.replicated import new_database, new_mariadb_database


@pytest.mark.unit
def test_a_file_that_is_there_is_kept(tmp_path: Path) -> None:
    (tmp_path / "replication.yaml").write_text("mine")
    done = run_command(tmp_path, "init", "--kafka", NOWHERE)
    assert done.returncode == 2
    assert "--force" in done.stderr
    assert (tmp_path / "replication.yaml").read_text() == "mine"


@pytest.mark.unit
def test_a_dsn_in_place_of_a_variable_is_refused_and_not_repeated(tmp_path: Path) -> None:
    done = run_command(
        tmp_path, "init", "--kafka", NOWHERE, "--database", "postgres=postgresql://u:pw@h/db"
    )
    assert done.returncode == 2
    assert "pw" not in done.stderr + done.stdout
    assert not (tmp_path / "replication.yaml").exists()


@pytest.fixture
def produce(kafka_bootstrap: str) -> Iterator[Callable[[str, object], None]]:
    servers = {"bootstrap.servers": kafka_bootstrap}
    producer, admin, topics = Producer(servers), AdminClient(servers), set[str]()

    def send(topic: str, value: object) -> None:
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
        topics.add(topic)
        failed = list[object]()
        producer.produce(
            topic,
            json.dumps(value).encode(),
            key=b'{"id": 1}',
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
        assert producer.flush(30) == 0
        assert not failed, failed[0]

    yield send
    for future in admin.delete_topics([*topics]).values():
        future.result(30)


def debezium(connector: str, table: str = "orders") -> object:
    origin = {"connector": connector, "db": "shop", "schema": "public", "table": table}
    return {"before": None, "after": {"id": 1}, "op": "c", "ts_ms": 1, "source": origin}


@pytest.mark.stack
def test_topics_with_changes_become_sources_of_their_format_and_database(
    tmp_path: Path, kafka_bootstrap: str, produce: Callable[[str, object], None]
) -> None:
    shop, cash, log = (f"{name}{uuid.uuid4().hex[:6]}" for name in ("shop", "cash", "log"))
    produce(f"{shop}.public.orders", debezium("postgresql"))
    produce(f"{shop}.public.items", debezium("postgresql", "items"))
    row = {"database": "till", "table": "sales", "type": "insert", "ts": 1, "data": {"id": 1}}
    produce(f"{cash}.till.sales", {**row, "xid": 1, "commit": True})
    produce(f"{log}.of.clicks", {"level": "info"})
    arguments = ("--kafka", kafka_bootstrap, "--database", "postgres=SHOP_DSN", "--json")
    only = [word for name in (shop, cash, log) for word in ("--source", name)]

    shown = json.loads(run_command(tmp_path, "init", *arguments, *only, "--dry-run").stdout)
    assert not (tmp_path / "replication.yaml").exists()
    done = run_command(tmp_path, "init", *arguments, *only)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["other_topics"] == [f"{log}.of.clicks"]
    assert (tmp_path / "replication.yaml").read_text() == shown["text"]

    sources = load_config(tmp_path / "replication.yaml").sources
    assert {name: each.format for name, each in sources.items()} == {
        shop: "debezium-json", cash: "maxwell-json",
    }  # fmt: skip
    database = sources[shop].database
    assert database is not None
    assert database.kind == "postgres"
    assert sources[shop].topics.matches(f"{shop}.public.orders")
    assert "# public.items" in shown["text"]


@pytest.mark.stack
def test_a_terminal_is_asked_for_all_that_no_option_says(
    tmp_path: Path, kafka_bootstrap: str, produce: Callable[[str, object], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    shop, file = f"shop{uuid.uuid4().hex[:6]}", tmp_path / "replication.yaml"
    produce(f"{shop}.public.orders", debezium("postgresql"))
    monkeypatch.setattr(_NamedTextIOWrapper, "isatty", lambda _: True, raising=False)
    typed = [kafka_bootstrap, "SHOP_DSN", "env:CATALOG", "rest", "", "sc://spark:15002"]
    arguments = ["--source", shop, "--output", str(file)]
    done = CliRunner().invoke(init, arguments, input="".join(f"{each}\n" for each in typed))
    assert done.exit_code == 0, done.output

    read = load_config(file)
    assert read.kafka.bootstrap_servers == kafka_bootstrap
    database = read.sources[shop].database
    assert database is not None
    assert database.dsn.env == "SHOP_DSN"
    assert (read.lake.catalog.type, read.lake.catalog.uri) == ("rest", Secret(env="CATALOG"))
    assert read.lake.warehouse == f"file://{tmp_path}/.cdc/lake/warehouse"
    assert read.spark.remote == "sc://spark:15002"

    options = ["--catalog-uri", "https://catalog", "--warehouse", "/lake", "--spark", "local"]
    typed = [kafka_bootstrap, ""]
    done = CliRunner().invoke(
        init, [*arguments, *options, "--force"], input="".join(f"{each}\n" for each in typed)
    )
    assert done.exit_code == 0, done.output
    assert load_config(file).lake.catalog.type == "rest"
    assert load_config(file).sources[shop].database is None


@pytest.mark.stack
def test_a_database_that_is_named_says_what_its_tables_lack(
    tmp_path: Path, kafka_bootstrap: str, produce: Callable[[str, object], None],
    stack: LocalStack, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    shop = f"shop{uuid.uuid4().hex[:6]}"
    produce(f"{shop}.public.orders", debezium("postgresql"))
    produce(f"{shop}.public.clicks", debezium("postgresql", "clicks"))
    produce(f"{shop}.public.left", debezium("postgresql", "left"))
    dsn = new_database(
        stack, shop, "CREATE TABLE orders (id int PRIMARY KEY)", "CREATE TABLE clicks (at date)",
        "CREATE TABLE items (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE TABLE items_1 PARTITION OF items FOR VALUES FROM (0) TO (9)",
    )  # fmt: skip
    monkeypatch.setenv("SHOP_DSN", dsn)
    arguments = ("--kafka", kafka_bootstrap, "--source", shop, "--database", "postgres=SHOP_DSN")
    done = run_command(tmp_path, "init", *arguments, "--json")
    (said,) = json.loads(done.stdout)["sources"]
    assert said["without_key"] == ["public.clicks"]
    assert said["without_topic"] == ["public.items"]
    assert said["not_in_database"] == ["public.left"]
    assert said["database_not_asked"] is None
    text = (tmp_path / "replication.yaml").read_text()
    assert "#   public.clicks: {primary_key: [...]}" in text
    assert load_config(tmp_path / "replication.yaml").sources[shop].database is not None

    monkeypatch.setenv("SHOP_DSN", "postgresql://u:secret@127.0.0.1:1/x")
    told = run_command(tmp_path, "init", *arguments, "--dry-run").stderr
    assert "its database was not asked" in told
    assert "secret" not in told


@pytest.mark.stack
def test_a_source_without_topics_is_written_from_its_database(
    tmp_path: Path, kafka_bootstrap: str, stack: LocalStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"till{uuid.uuid4().hex[:6]}"
    dsn = new_mariadb_database(
        stack, name, "CREATE TABLE sales (id int PRIMARY KEY)", "CREATE TABLE notes (t text)"
    )
    monkeypatch.setenv("TILL_DSN", dsn)
    done = run_command(
        tmp_path, "init", "--kafka", kafka_bootstrap, "--source", name,
        "--database", "mariadb=TILL_DSN", "--json",
    )  # fmt: skip
    (said,) = json.loads(done.stdout)["sources"]
    assert said["without_topic"] == [f"{name}.notes", f"{name}.sales"]
    assert said["without_key"] == [f"{name}.notes"]
    source = load_config(tmp_path / "replication.yaml").sources[name]
    assert source.topics.matches(f"{name}.{name}.sales")
