"""`cdc-assets assess` against real parts: every seeded mistake is named, and none is invented."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import dagster as dg
import psycopg
import pytest
from cdc_assets_devstack.stack import LocalStack
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import TerminalError
from cdc_assets.operate.assess.gate import require_assessed
from cdc_assets.operate.assess.parts import look_at_spark
from cdc_assets.operate.assess.writing import PREFIX
from cdc_assets.operate.discovery import discover
from cdc_assets.operate.services import Services, utc_now
from cdc_assets.orchestration import build_definitions
from cdc_assets.orchestration.assessing import look_now, verdicts
from cdc_assets.registry import RegistryFile
from cdc_assets_tests.command import run_command
from cdc_assets_tests.configuration import beside, database_of, source
from cdc_assets_tests.pipeline import Session
from cdc_assets_tests.stack.assessed import findings, places
from cdc_assets_tests.stack.replicated import new_database
from cdc_assets_tests.waiting import until

pytestmark = pytest.mark.stack

_READ = "SELECT active FROM pg_replication_slots WHERE slot_name = %s"

WEEK = str(int(timedelta(days=7).total_seconds() * 1000))
KEPT = {"cleanup.policy": "delete", "retention.ms": WEEK, "retention.bytes": "-1"}

GOOD = """
CREATE TABLE fine (
    id bigint PRIMARY KEY, name text DEFAULT 'x', price numeric(12,2) DEFAULT 0, at timestamptz
);
INSERT INTO fine SELECT n, 'n', 1.5, now() FROM generate_series(1, 100) n;
CREATE PUBLICATION assessed_good FOR ALL TABLES;
"""
BAD = """
CREATE TABLE fine (id bigint PRIMARY KEY, name text);
CREATE TABLE defaulted (id bigint PRIMARY KEY, name text DEFAULT 'x');
CREATE UNLOGGED TABLE unlogged (id bigint PRIMARY KEY);
CREATE TABLE unpublished (id bigint PRIMARY KEY);
CREATE TABLE keyless (a text);
CREATE TABLE late_key (id bigint PRIMARY KEY DEFERRABLE);
CREATE TABLE generated (id bigint PRIMARY KEY, g int GENERATED ALWAYS AS (1) STORED);
CREATE TABLE odd_type (id bigint PRIMARY KEY, bits varbit);
CREATE TABLE unbounded (id bigint PRIMARY KEY, n numeric);
CREATE TABLE not_numbers (id bigint PRIMARY KEY, n numeric(12,2));
INSERT INTO not_numbers VALUES (1, 1), (2, 1), (3, 'NaN');
CREATE TABLE endless (id bigint PRIMARY KEY, d date);
INSERT INTO endless VALUES (1, 'infinity');
CREATE TABLE filtered (id bigint PRIMARY KEY, a int);
CREATE TABLE parts (id bigint PRIMARY KEY) PARTITION BY RANGE (id);
CREATE TABLE part PARTITION OF parts FOR VALUES FROM (0) TO (9);
CREATE TABLE unreadable (id bigint PRIMARY KEY);
CREATE TABLE compacted (id bigint PRIMARY KEY);
CREATE TABLE short (id bigint PRIMARY KEY);
CREATE TABLE sized (id bigint PRIMARY KEY);
CREATE TABLE forever (id bigint PRIMARY KEY);
CREATE TABLE vanished (id bigint PRIMARY KEY);
CREATE TABLE cut (id bigint PRIMARY KEY);
CREATE TABLE without_keys (id bigint PRIMARY KEY);
CREATE PUBLICATION assessed_bad FOR TABLE fine, defaulted, keyless, late_key, generated,
    odd_type, unbounded, not_numbers, endless, filtered WHERE (id > 5), parts, unreadable,
    compacted, short, sized, forever, vanished, cut, without_keys
    WITH (publish = 'insert, update');
CREATE ROLE assessing LOGIN REPLICATION PASSWORD 'assessing';
GRANT SELECT ON ALL TABLES IN SCHEMA public TO assessing;
REVOKE SELECT ON unreadable FROM assessing;
"""
TOPICS = {
    "compacted": {"cleanup.policy": "compact"},
    "short": {"retention.ms": "60000"},
    "sized": {"retention.bytes": "1000000"},
    "forever": {"retention.ms": "-1"},
}
TABLES = (
    "fine", "defaulted", "unlogged", "unpublished", "keyless", "late_key", "generated",
    "odd_type", "unbounded", "not_numbers", "endless", "filtered", "parts", "unreadable",
    "compacted", "short", "sized", "forever", "vanished", "cut", "without_keys", "gone",
)  # fmt: skip

SETTINGS = {
    "errors.tolerance": "all",
    "skipped.operations": "t",
    "snapshot.mode": "no_data",
    "unavailable.value.placeholder": "unchanged",
    "binary.handling.mode": "hex",
    "time.precision.mode": "connect",
    "heartbeat.interval.ms": "0",
    "column.exclude.list": "public.fine.nothing",
    "slot.drop.on.stop": "true",
    "transforms": "told",
    "transforms.told.type": "org.apache.kafka.connect.transforms.InsertHeader",
    "transforms.told.header": "told",
    "transforms.told.value.literal": "yes",
    "value.converter.replace.null.with.default": "true",
    "database.user": "assessing",
    "database.password": "assessing",
    "provide.transaction.metadata": "false",
}
SEEDED = {
    ("conversion_failures", ""), ("errors_tolerated", ""), ("truncates_skipped", ""),
    ("snapshot_mode", ""), ("placeholder_differs", ""), ("modes_differ", ""), ("times_cut", ""),
    ("heartbeat", ""), ("columns_left_out", ""), ("slot_dropped", ""), ("transformations", ""),
    ("publication_operations", ""), ("numbers_stop", ""),
    ("nulls_replaced", "defaulted.name"), ("unlogged", "unlogged"),
    ("table_not_published", "unpublished"), ("no_row_identity", "keyless"),
    ("no_transactions", "keyless"), ("refused_table", "late_key"),
    ("unpublished_column", "generated.g"), ("refused_column", "odd_type.bits"),
    ("stored_as_text", "unbounded.n"), ("values_not_convertible", "not_numbers.n"),
    ("values_out_of_range", "endless.d"), ("row_filter", "filtered"), ("by_partition", "parts"),
    ("connector_user", "unreadable"), ("compacted", "compacted"), ("retention", "short"),
    ("retention_bytes", "sized"), ("remembered_deletes", "forever"),
    ("topic_missing", "vanished"), ("log_begins_late", "cut"),
    ("records_without_key", "without_keys"), ("table_gone", "gone"),
}  # fmt: skip
"""Name and place of each mistake: 35."""


@pytest.fixture(scope="module")
def assessed(stack: LocalStack, stack_config: ReplicationConfig) -> Iterator[ReplicationConfig]:
    """Two sources: one as the documentation has it, one with mistakes."""
    good, bad = new_database(stack, "assessed_good", GOOD), new_database(stack, "assessed_bad", BAD)
    admin = AdminClient({"bootstrap.servers": stack.kafka.address})
    _topics(admin, "assessed_good", ["fine"])
    _topics(admin, "assessed_bad", TABLES)
    _records(admin, stack.kafka.address)
    modes = {"assessed_good": {"connector": {"decimal_handling_mode": "string"}}}
    sources = {
        name: source(name, **database_of(f"{name.upper()}_DSN"), **modes.get(name, {}))
        for name in ("assessed_good", "assessed_bad")
    }
    config = beside(stack_config, "assessed", registry="assessed/registry.json", sources=sources)
    _register(stack, "assessed_good", good, {})
    _register(stack, "assessed_bad", bad, SETTINGS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASSESSED_GOOD_DSN", good)
        patch.setenv("ASSESSED_BAD_DSN", bad)
        discover(Services(config))
        for future in admin.delete_topics(["assessed_bad.public.vanished"]).values():
            future.result()
        yield config
    for name in ("assessed_good", "assessed_bad"):
        stack.connect.unregister(name)
        topics = [each for each in admin.list_topics().topics if each.startswith(f"{name}.")]
        for future in admin.delete_topics(topics).values():
            future.result()


def _topics(admin: AdminClient, prefix: str, tables: tuple[str, ...] | list[str]) -> None:
    new = [
        NewTopic(f"{prefix}.public.{name}", 2, config={**KEPT, **TOPICS.get(name, {})})
        for name in tables
    ]
    for future in admin.create_topics(new).values():
        future.result()


def _records(admin: AdminClient, address: str) -> None:
    producer = Producer({"bootstrap.servers": address})
    source_of = {"connector": "postgresql", "db": "x", "schema": "public", "ts_ms": 1}
    for table, key in (("without_keys", None), ("cut", b'{"id": 1}')):
        about = {**source_of, "table": table, "lsn": 8, "sequence": '[null,"8"]'}
        event = {"before": None, "after": {"id": 1}, "source": about, "op": "c", "ts_ms": 1}
        for _ in range(2):
            producer.produce(f"assessed_bad.public.{table}", json.dumps(event).encode(), key, 0)
    assert producer.flush(20) == 0
    cut = TopicPartition("assessed_bad.public.cut", 0, 1)
    for future in admin.delete_records([cut]).values():
        future.result()


def _register(
    stack: LocalStack,
    name: str,
    dsn: str,
    settings: dict[str, str],
    *,
    names_converters: bool = True,
) -> None:
    from cdc_assets_devstack.shop.connector import connector_config

    usual = {
        "publication.name": name,
        "publication.autocreate.mode": "disabled",
        "event.converting.failure.handling.mode": "fail" if not settings else "warn",
        "decimal.handling.mode": "string" if not settings else "precise",
    }
    config = connector_config(stack.layout, database=name, prefix=name)
    whole = {**config, **usual, **settings}
    if not names_converters:
        whole = {key: value for key, value in whole.items() if "converter" not in key}
    stack.register_connector(name, whole)
    with psycopg.connect(dsn, autocommit=True) as connection:
        slot = (config["slot.name"],)
        until(
            lambda: connection.execute(_READ, slot).fetchone() == (True,),
            f"somebody reads the slot of {name}",
            every_seconds=0.5,
        )


def test_each_mistake_is_named_and_none_is_invented(
    assessed: ReplicationConfig, tmp_path: Path
) -> None:
    done = run_command(tmp_path, "assess", "--json", config=assessed.path)
    document = json.loads(done.stdout)

    assert findings(document, "assessed_good") == [], done.stdout
    assert places(findings(document, "assessed_bad")) == SEEDED
    assert done.returncode == 1
    assert "failed: assessed_bad.public.compacted: NO" in done.stderr
    assert "assessed_good" not in done.stderr.partition("failed:")[2]
    warehouse = Path(assessed.lake.warehouse.removeprefix("file://"))
    assert not [*warehouse.glob(".cdc-assets-*"), *warehouse.glob(f"{PREFIX}*")]


def test_the_job_assesses_a_good_source_with_everything(assessed: ReplicationConfig) -> None:
    known = RegistryFile(assessed.registry).load()
    job = build_definitions(assessed, known).resolve_job_def("assess_tables")
    wish = {"ops": {"assess_all_parts": {"config": {"source": "assessed_good"}}}}
    with dg.DagsterInstance.ephemeral() as instance:
        done = job.execute_in_process(wish, instance=instance)
    (output,) = (each for each in done.all_events if each.is_successful_output)
    metadata = output.step_output_data.metadata
    assert (metadata["verdict"].value, metadata["not judged"].value) == ("YES", "nothing")


def test_one_table_is_shown_with_its_source(assessed: ReplicationConfig, tmp_path: Path) -> None:
    done = run_command(
        tmp_path, "assess", "--table", "assessed_bad.public.unlogged", "--read-only",
        config=assessed.path,
    )  # fmt: skip
    assert "UNLOGGED" in done.stdout
    assert "compacted" not in done.stdout


def test_the_check_of_a_table_has_itsfindings(assessed: ReplicationConfig) -> None:
    services = Services(assessed)
    entries = services.registry.load().entries
    found = {
        verdict.asset.path[-1]: verdict
        for verdict in verdicts(assessed, entries, look_now(services, entries))
        if verdict.asset.path[0] == "assessed_bad"
    }
    assert not found["compacted"].passed
    assert "is compacted" in found["compacted"].description


def test_what_a_source_accepts_is_no_finding(
    assessed: ReplicationConfig,
) -> None:
    services = Services(assessed)
    entry = next(e for e in services.registry.load() if e.table.name == "unlogged")
    with pytest.raises(TerminalError, match="UNLOGGED") as caught:
        require_assessed(services, entry)
    assert "assess.accept: [" in str(caught.value)

    assert require_assessed(Services(accepting(assessed, names_in(caught.value))), entry) == ()


def test_a_value_that_becomes_null_stops_its_table_as_far_as_it_is_searched(
    assessed: ReplicationConfig,
) -> None:
    entry = next(e for e in Services(assessed).registry.load() if e.table.name == "not_numbers")
    with pytest.raises(TerminalError, match="NaN or infinity: it arrives as NULL") as caught:
        require_assessed(Services(assessed), entry)

    config = accepting(assessed, names_in(caught.value) - {"values_not_convertible"})
    with pytest.raises(TerminalError, match="NaN or infinity: it arrives as NULL"):
        require_assessed(Services(config), entry)
    one_row = config.assess.model_copy(update={"rows": 1})
    (unsearched,) = require_assessed(Services(config.model_copy(update={"assess": one_row})), entry)
    assert unsearched == "only 1 rows were searched for NaN and infinity"
    config = accepting(assessed, names_in(caught.value))
    assert require_assessed(Services(config), entry) == ()


def names_in(error: TerminalError) -> set[str]:
    """The findings that an error says can be accepted."""
    return {*str(error).partition("accept: [")[2].partition("]")[0].split(", ")}


def accepting(config: ReplicationConfig, names: set[str]) -> ReplicationConfig:
    """The configuration, whose bad source accepts some findings."""
    bad = config.source("assessed_bad")
    accept = bad.assess.model_copy(update={"accept": tuple(names)})
    changed = bad.model_copy(update={"assess": accept})
    return config.model_copy(update={"sources": {"assessed_bad": changed}})


def test_a_good_table_may_begin(assessed: ReplicationConfig) -> None:
    services = Services(assessed)
    entry = next(e for e in services.registry.load() if e.table.source == "assessed_good")
    require_assessed(services, entry)


def test_a_database_that_is_away_stops_no_first_batch(
    assessed: ReplicationConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSESSED_GOOD_DSN", "postgresql://x:y@127.0.0.1:1/x")
    services = Services(assessed)
    entry = next(e for e in services.registry.load() if e.table.source == "assessed_good")
    require_assessed(services, entry)

    found = look_now(services, [entry])
    assert [each.name for each in found.findings] == ["database"]


def test_spark_says_what_it_has(assessed: ReplicationConfig, spark: Session) -> None:
    drivers = ["org.postgresql.Driver", "no.such.Driver"]
    facts, _ = look_at_spark(assessed, spark, utc_now, drivers)
    assert facts.no_drivers == {"no.such.Driver"}
    assert facts.iceberg.startswith("1.")


def test_of_a_workers_converter_the_records_tell_what_they_can(
    stack: LocalStack, assessed: ReplicationConfig, tmp_path: Path
) -> None:
    """The last one: it registers the good connector anew, without converters of its own."""
    dsn = stack.postgres.dsn("assessed_good")
    _register(stack, "assessed_good", dsn, {}, names_converters=False)
    done = run_command(
        tmp_path, "assess", "--source", "assessed_good", "--json", config=assessed.path
    )
    found = places(findings(json.loads(done.stdout), "assessed_good"))
    assert found == {("nulls_unseen", "fine.name"), ("nulls_unseen", "fine.price")}
    assert done.returncode == 0
