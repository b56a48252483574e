"""The configuration: what it accepts, and that every error names file, line, key and remedy."""

import copy
import json
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from cdc_assets_devstack.configured import make_lake_folders
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pyiceberg.io import load_file_io

from cdc_assets.changes.names import LakeName, TableName
from cdc_assets.changes.slo import SloTarget
from cdc_assets.config import ReplicationConfig, Secret, load_config, parse_config
from cdc_assets.config.batch import BatchConfig
from cdc_assets.config.load import DeprecatedKey
from cdc_assets.databases.postgres.columns import PostgresColumn
from cdc_assets.databases.postgres.types import describe_table
from cdc_assets.errors import ConfigError
from cdc_assets.files import files_at, replace_file
from cdc_assets.schema.modes import (
    BinaryMode,
    ConnectorModes,
    DecimalMode,
    TimeMode,
    UnsignedMode,
)
from cdc_assets.schema.parse import TypeSpec
from cdc_assets.schema.types import Decimal, Primitive
from cdc_assets_tests.command import run_command
from cdc_assets_tests.configuration import platform, source, write
from cdc_assets_tests.words import CHECKOUT

DESIGN_EXAMPLE = r"""
kafka: {bootstrap_servers: 127.0.0.1:19092, properties: {}}
lake:  {catalog: {type: sql, uri: "sqlite:///.cdc/lake/catalog.db"}, warehouse: .cdc/lake/warehouse}
spark: {remote: local}
registry: .cdc/registry.json
sources:
  shop:
    format: debezium-json
    topics: {include: ['shop\..*'], exclude: []}
    database: {kind: postgres, dsn: {env: SHOP_DSN}}
    target: {namespace: '{source}_{schema}', table: '{table}'}
    slo: {percent: 95, within_minutes: 5, over_hours: 24}
    schema_changes: evolve
    bad_records: fail
    tables: {'public.orders': {primary_key: [id], columns: {price: 'decimal(12,2)'}}}
"""
MINIMAL = {
    "kafka": {"bootstrap_servers": "broker:9092"},
    "lake": {"catalog": {"type": "rest", "uri": "https://catalog"}, "warehouse": "s3://lake/w"},
}
SHOP = {"format": "debezium-json", "topics": {"include": ["shop.*"]}}
SECRET = "hunter2-and-more"
OAUTH = {"token_url": "https://l/token", "client_id": "c", "client_secret": {"env": "S"}}


def edited(path, value):
    """The minimal configuration with one place changed, as text."""
    document = copy.deepcopy(MINIMAL)
    document["sources"] = {"shop": copy.deepcopy(SHOP)}
    *parents, last = path.split("/")
    node = document
    for parent in parents:
        node = node.setdefault(parent, {})
    node[last] = value
    return yaml.safe_dump(document, sort_keys=False)


def error_of(text, file=Path("/etc/cdc/replication.yaml")):
    with pytest.raises(ConfigError) as caught:
        parse_config(text, file)
    return caught.value


@pytest.mark.unit
def test_the_example_of_the_design_is_read(tmp_path):
    file = tmp_path / "replication.yaml"
    file.write_text(DESIGN_EXAMPLE)
    config = load_config(file)
    shop = config.source("shop")
    assert config.path == file
    assert shop.slo.target == SloTarget(95, 300, 24)
    assert shop.lake_name(TableName("shop", "public", "orders")) == LakeName(
        "shop_public", "orders"
    )
    orders = shop.overrides(TableName("shop", "public", "orders"))
    assert orders.primary_key == ("id",)
    assert orders.column_types == {"price": TypeSpec(Decimal(12, 2))}
    assert shop.overrides(TableName("shop", "public", "other")).primary_key == ()
    assert shop.database is not None
    assert shop.database.dsn.env == "SHOP_DSN"


@pytest.mark.unit
def test_paths_resolve_against_the_folder_of_the_file(tmp_path, monkeypatch):
    file = tmp_path / "conf" / "replication.yaml"
    file.parent.mkdir()
    file.write_text(DESIGN_EXAMPLE)
    monkeypatch.chdir("/")
    config = load_config(file)
    assert config.home == file.parent / ".cdc"
    assert config.registry == f"file://{file.parent}/.cdc/registry.json"
    assert config.lake.warehouse == f"file://{file.parent}/.cdc/lake/warehouse"
    assert config.lake.catalog.uri == f"sqlite:///{file.parent}/.cdc/lake/catalog.db"
    assert config.resolve("x/y") == file.parent / "x/y"


@pytest.mark.unit
@pytest.mark.parametrize("folder", ["mit leer ö", "a%20b", "a#b", "a?b", "Übung & co"])
def test_a_folder_of_any_name_is_the_one_that_is_written_to(tmp_path, folder):
    file = tmp_path / folder / "replication.yaml"
    file.parent.mkdir()
    file.write_text(DESIGN_EXAMPLE)
    config = load_config(file)
    files, registry = files_at(config.registry)
    assert Path(registry) == file.parent / ".cdc/registry.json"
    replace_file(files, registry, b"{}")
    warehouse = file.parent / ".cdc/lake/warehouse"
    make_lake_folders(config)
    io = load_file_io({"py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO"}, config.lake.warehouse)
    with io.new_output(f"{config.lake.warehouse}/x").create() as out:
        out.write(b"x")
    found = {path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()}
    inside = (file, file.parent / ".cdc/registry.json", warehouse / "x")
    assert found == {path.relative_to(tmp_path) for path in inside}


@pytest.mark.unit
@pytest.mark.parametrize(
    "url", ["s3://bucket/warehouse", "abfss://c@account.dfs.core.windows.net/w", "memory://r.json"]
)
def test_urls_stay_as_they_are(url):
    config = parse_config(edited("lake/warehouse", url), Path("/etc/r.yaml"))
    assert config.lake.warehouse == url


@pytest.mark.unit
def test_the_file_is_found_by_argument_then_variable_then_folder(tmp_path, monkeypatch):
    files = {name: tmp_path / name / "replication.yaml" for name in ("argument", "env", "cwd")}
    for file in files.values():
        file.parent.mkdir()
        file.write_text(yaml.safe_dump(MINIMAL))
    monkeypatch.chdir(files["cwd"].parent)
    monkeypatch.delenv("CDC_ASSETS_CONFIG", raising=False)
    assert load_config().path == files["cwd"]
    monkeypatch.setenv("CDC_ASSETS_CONFIG", str(files["env"]))
    assert load_config().path == files["env"]
    assert load_config(files["argument"]).path == files["argument"]


@pytest.mark.unit
def test_a_file_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(ConfigError, match="does not exist") as caught:
        load_config(tmp_path / "none.yaml")
    assert str(tmp_path / "none.yaml") in str(caught.value)
    assert "CDC_ASSETS_CONFIG" in str(caught.value)


@pytest.mark.unit
@pytest.mark.parametrize(
    ("path", "value", "key", "words"),
    [
        ("lake/readers", 5, "lake.readers", "must be a list"),
        ("lake/readers", [["spark"]], "lake.readers", "must be text"),
        ("sources/shop/topcis", {}, "sources.shop.topcis", "did you mean 'topics'?"),
        ("sources/shop/slo", {"procent": 9}, "sources.shop.slo.procent", "'percent'"),
        ("kafak", {}, "kafak", "did you mean 'kafka'?"),
        ("zzz", 1, "zzz", "known: alerts, assess, home"),
        ("sources/shop/slo", {"percent": "95"}, "sources.shop.slo.percent", "must be a number"),
        ("sources/shop/slo", {"percent": 101}, "sources.shop.slo.percent", "at most 100"),
        ("sources/shop/maintenance", {"keep_minutes": math.inf}, "keep_minutes", "finite number"),
        ("sources/shop/batch", {"drain_seconds": math.inf}, "drain_seconds", "finite number"),
        ("runs", {"retry_hours": math.inf}, "runs.retry_hours", "finite number"),
        ("assess", {"every_minutes": math.nan}, "assess.every_minutes", "finite number"),
        ("sources/shop/maintenance", {"orphan_days": 1e9}, "orphan_days", "at most 3650"),
        ("sources/shop/maintenance", {"every_minutes": 1e9}, "every_minutes", "at most 5256000"),
        ("sources/shop/slo", {"over_hours": 0}, "sources.shop.slo.over_hours", "at least 1"),
        ("sources/shop/quarantine", {"max_records": 0}, "quarantine.max_records", "more than 0"),
        ("sources/shop/quarantine", {"max_record": 9}, "quarantine.max_record", "'max_records'"),
        ("sources/shop/schema_changes", "evlove", "schema_changes", "did you mean 'evolve'?"),
        ("sources/shop/format", "debezium-jsn", "sources.shop.format", "'debezium-json'"),
        ("sources/shop/topics", {"include": ["shop("]}, "topics.include", "regular expression"),
        ("sources/shop/topics", {"include": []}, "topics.include", "at least 1"),
        ("sources/shop/target", {"table": "{tabel}"}, "target.table", "did you mean 'table'?"),
        ("sources/shop/target", {"table": "{table"}, "target.table", "not a template"),
        ("sources/shop/tables", {"orders": {}}, "tables", "schema.table"),
        (
            "sources/shop/tables",
            {"public.o": {"layout": {"partition_by": ["week(at)"]}}},
            "layout.partition_by",
            "no column and no transform",
        ),
        (
            "sources/shop/tables",
            {"public.o": {"layout": {"partition_by": ["day(at)", "hours(at)"]}}},
            "layout.partition_by",
            "keep the finest",
        ),
        (
            "sources/shop/tables",
            {"public.o": {"layout": {"sort_by": ["at sideways"]}}},
            "layout.sort_by",
            "no column and no transform",
        ),
        (
            "sources/shop/tables",
            {"public.o": {"layout": {"properties": {"write.merge.mode": "copy-on-write"}}}},
            "layout.properties",
            "not to be set here",
        ),
        (
            "sources/shop",
            {
                "format": "debezium-json",
                "topics": {"include": ["x"]},
                "merge_into": [{"tables": "s..o", "namespace": "all"}],
                "tables": {
                    "s1.o": {"layout": {"partition_by": ["id"]}},
                    "s2.o": {"layout": {"partition_by": []}},
                },
            },
            "sources.shop",
            "merged into the same table",
        ),
        (
            "sources/shop/tables",
            {"public.o": {"columns": {"p": "decimal(12;2)"}}},
            "sources.shop.tables.public.o.columns",
            "decimal(12,2)",
        ),
        (
            "sources/shop/tables",
            {"public.o": {"columns": {"p": "timestampz"}}},
            "columns",
            "did you mean 'timestamp",
        ),
        (
            "sources/shop/tables",
            {"public.o": {"columns": {"p": {"mask": "sha256", "exclude": True}}}},
            "columns.p",
            "one of type, exclude and mask",
        ),
        (
            "sources/shop/tables",
            {"public.o": {"columns": {"p": {"large_values": "accept", "exclude": True}}}},
            "columns.p",
            "one of type, exclude and mask",
        ),
        (
            "sources/shop/tables",
            {"public.o": {"columns": {"p": {"large_values": "fail"}}}},
            "columns.p",
            "write a type",
        ),
        (
            "sources/shop/tables",
            {"public.o": {"primary_key": ["p"], "columns": {"p": {"exclude": True}}}},
            "tables.public.o",
            "mask it instead",
        ),
        ("sources/shop/unbounded_numeric", "double", "unbounded_numeric", "is not a decimal"),
        ("sources/shop/unbounded_numeric", "decimal(99,1)", "unbounded_numeric", "precision is"),
        ("sources/sh-op", SHOP, "sources", "letters, digits"),
        ("sources/shop", None, "sources.shop", "must be a mapping"),
        ("sources/shop/tables", [], "sources.shop.tables", "must be a mapping"),
        ("lake/catalog", {"type": "hive"}, "lake.catalog", "needs a uri"),
        ("lake/format_version", 1, "lake.format_version", "choose 2 or 3"),
        ("lake/readers", ["atena"], "lake.readers", "did you mean 'athena'?"),
        ("lake/readers", "athena", "lake.readers", "list"),
        (
            "lake",
            {**MINIMAL["lake"], "readers": ["spark", "athena"], "format_version": 3},
            "lake.format_version",
            "write 2, or leave it out",
        ),
        ("spark", {"remote": "spark://x"}, "spark.remote", "sc://"),
        ("spark", {"remote": "local", "master": "local[2]"}, "spark", "exclude each other"),
        ("spark", {"remote": "local", "send_jar": True}, "spark", "a server of your own"),
        ("spark", {"master": "local[2]", "send_jar": True}, "spark", "a server of your own"),
        ("stack", {"ports": {"kafka": 15432}}, "stack.ports", "postgres and kafka"),
        ("stack", {"ports": {"kafka": 99999}}, "stack.ports.kafka", "at most 65535"),
        ("kafka/properties", {"group.id": "x"}, "kafka.properties", "cdc_assets itself"),
        ("kafka/properties", {"sasl.mechnism": "PLAIN"}, "kafka.properties", "'sasl.mechanism'"),
        (
            "sources/shop/schema_registry",
            {"url": "ftp://x"},
            "sources.shop.schema_registry.url",
            "http://127.0.0.1:8081",
        ),
        ("sources/shop/schema_registry", {"url": []}, "schema_registry.url", "at least 1"),
        ("sources/shop/schema_registry", {}, "sources.shop.schema_registry", "url is missing"),
        (
            "sources/shop/schema_registry",
            {"url": "http://r", "tokn": {"env": "T"}},
            "sources.shop.schema_registry.tokn",
            "did you mean 'token'?",
        ),
        (
            "sources/shop/schema_registry",
            {"url": "http://r", "username": "me"},
            "sources.shop.schema_registry",
            "username and password go together",
        ),
        (
            "sources/shop/schema_registry",
            {"url": "http://r", "username": "m", "password": {"env": "P"}, "token": {"env": "T"}},
            "sources.shop.schema_registry",
            "exclude each other",
        ),
        (
            "sources/shop/schema_registry",
            {"url": "http://r", "token": {"env": "T"}, "oauth": OAUTH},
            "sources.shop.schema_registry",
            "oauth excludes username and token",
        ),
        (
            "sources/shop/schema_registry",
            {"url": "http://r", "oauth": OAUTH | {"token_url": "login.example/token"}},
            "sources.shop.schema_registry.oauth.token_url",
            "https://login.example/oauth2/token",
        ),
        (
            "sources/shop/schema_registry",
            {"url": "http://r", "oauth": OAUTH | {"client_secret": SECRET}},
            "sources.shop.schema_registry.oauth.client_secret",
            "{env: NAME}",
        ),
        (
            "sources/shop/schema_registry",
            {"url": "http://r", "oauth": OAUTH | {"identity_pool": "pool\nX-Other: 1"}},
            "sources.shop.schema_registry.oauth.identity_pool",
            "pattern",
        ),
        (
            "sources/shop/schema_registry",
            {"url": "http://r", "key_file": "k.pem"},
            "sources.shop.schema_registry",
            "needs certificate_file",
        ),
        (
            "sources/shop/schema_registry",
            {"url": "http://r", "api": "apicuro"},
            "sources.shop.schema_registry.api",
            "did you mean 'apicurio'?",
        ),
        (
            "sources/shop/schema_registry",
            {"url": "http://r", "ids": "global"},
            "sources.shop.schema_registry",
            "ids is of api: apicurio",
        ),
        (
            "sources/shop/schema_registry",
            {"url": "http://r", "timeout_seconds": 0},
            "schema_registry.timeout_seconds",
            "more than 0",
        ),
        (
            "kafka/properties",
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "NTLM"},
            "kafka.properties",
            "SCRAM-SHA-512",
        ),
        (
            "kafka/properties",
            {"security.protocol": "sasl_ssl", "sasl.mechanism": "PLAIN"},
            "kafka.properties",
            "needs sasl.username",
        ),
    ],
)
def test_an_error_names_file_line_key_and_remedy(path, value, key, words):
    text = edited(path, value)
    message = str(error_of(text))
    assert "/etc/cdc/replication.yaml:" in message
    assert key in message
    assert words in message


@pytest.mark.unit
def test_the_line_is_that_of_the_key():
    text = DESIGN_EXAMPLE.replace("    bad_records: fail", "    bad_record: fail")
    line = text.splitlines().index("    bad_record: fail") + 1
    assert f"replication.yaml:{line} sources.shop.bad_record" in str(error_of(text))


@pytest.mark.unit
def test_a_missing_part_is_named():
    message = str(error_of("kafka: {bootstrap_servers: x}"))
    assert "lake is missing" in message
    assert "[/etc/cdc/replication.yaml lake]" in message


@pytest.mark.unit
def test_several_problems_are_told_at_once():
    text = edited("sources/shop/slo", {"percent": 101, "within_minutes": "x"})
    message = str(error_of(text))
    assert "2 problems" in message
    assert "sources.shop.slo.percent" in message
    assert "sources.shop.slo.within_minutes" in message


@pytest.mark.unit
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kafka: {a: 1}\nkafka: {b: 2}", "'kafka' is given twice"),
        ("kafka: {\n  a: 'b", "not valid YAML"),
        ("kafka: \x00", "not valid YAML"),
        ("kafka: \ud800", "not valid YAML"),
        ("kafka:\n  a: 2026-13-01", "replication.yaml:2] → check that line"),
        ("kafka: !!int secret", "the value is no int"),
        ("runs:\n  many_changes: 0100", "replication.yaml:2] → write it without"),
        ("runs: {many_changes: 1:30}", "base 60"),
        ("runs: {idle_seconds: 1:30.5}", "base 60"),
        ("kafka: {properties: {client.id: 007}}", "base 8"),
        ("sources: {'{{ env.SHOP }}': {}}", "a key cannot name an environment variable"),
        ("name: 12", "must be text [line 1 name] → write it in quotes"),
        ("kafka: " + "[" * 100_000, "nested too deeply"),
        ("- a\n- b", "must be a mapping"),
        ("", "is missing"),
        ("a: &x [*x]", "unknown key 'a'"),
    ],
)
def test_a_document_that_is_no_configuration_is_refused(text, words):
    assert words in str(error_of(text))


@pytest.mark.unit
@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("sources/shop/database", {"kind": "postgres", "dsn": f"postgresql://u:{SECRET}@h/d"}),
        ("sources/shop/database", {"kind": "postgres", "dsn": {"env": f"{SECRET} !"}}),
        ("sources/shop/database", {"kind": "postgres", "dsn": {"env": 1, SECRET: 2}}),
        ("sources/shop/database", {"kind": SECRET, "dsn": {"env": "A"}}),
        ("kafka/properties", {"sasl.password": SECRET}),
        ("kafka/properties", {"sasl.password": [SECRET]}),
        ("kafka/properties", {"ssl.key.pem": SECRET}),
        ("lake/catalog", {"type": "rest", "uri": f"https://u:{SECRET}@h"}),
        ("lake/catalog", {"type": "rest", "uri": "x", "properties": {"token": SECRET}}),
        (
            "lake/catalog",
            {"type": "rest", "uri": "x", "properties": {"s3.secret-access-key": SECRET}},
        ),
        ("lake/catalog", {"type": "rest", "uri": "x", "properties": {"credential": SECRET}}),
        ("lake/warehouse", f"s3://key:{SECRET}@bucket/w"),
        ("lake/warehouse", [SECRET]),
        ("registry", f"s3://bucket/r.json?secret={SECRET}"),
        ("spark", {"remote": f"sc://host:15002/;token={SECRET}"}),
        ("spark", {"remote": "local", "token": SECRET}),
        ("spark", {"memory": SECRET}),
        ("spark", {"conf": {"spark.hadoop.fs.s3a.secret.key": SECRET}}),
        ("alerts", {"webhook": f"https://hooks/{SECRET}"}),
        ("alerts", {"apprise": [f"mailto://u:{SECRET}@example.com"]}),
        ("sources/shop/schema_registry", {"url": f"http://u:{SECRET}@h"}),
        ("sources/shop/schema_registry", {"url": ["http://a", f"http://u:{SECRET}@h"]}),
        ("sources/shop/schema_registry", {"url": f"http://h?token={SECRET}"}),
        ("sources/shop/schema_registry", {"url": f"http://h?a={SECRET}"}),
        (
            "sources/shop/schema_registry",
            {"url": "http://h", "username": "me", "password": SECRET},
        ),
        ("sources/shop/schema_registry", {"url": "http://h", "token": SECRET}),
        ("sources/shop/slo", {"percent": SECRET}),
        ("sources/shop/bad_records", SECRET),
    ],
    ids=str,
)
def test_no_message_repeats_a_value_that_may_be_secret(path, value):
    error = error_of(edited(path, value))
    chain = [error, error.__cause__, error.__context__ if not error.__suppress_context__ else None]
    assert SECRET not in " ".join(str(each) for each in chain)


@pytest.mark.unit
@pytest.mark.parametrize("name", ["sasl.password", "ssl.key.password", "s3.secret-access-key",
                                  "token", "s3.access-key-id", "credential"])  # fmt: skip
@pytest.mark.parametrize("value", [12345678, 1234.5678])
def test_a_secret_of_digits_alone_is_refused_too(name, value):
    error = error_of(edited("kafka/properties", {name: value}))
    assert "holds a secret in plain text" in str(error)
    assert str(value) not in str(error)


@pytest.mark.unit
def test_a_number_is_no_secret_if_the_name_says_that_it_is_an_amount():
    given = {"token.refresh-window-ms": 300, "password.encoder.iterations": 4096,
             "token-refresh-enabled": True}  # fmt: skip
    config = parse_config(edited("kafka/properties", given))
    assert dict(config.kafka.properties) == {
        "token.refresh-window-ms": "300",
        "password.encoder.iterations": "4096",
        "token-refresh-enabled": "true",
    }


@pytest.mark.property
@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=40), st.text(max_size=20))
def test_broken_yaml_never_leaks_what_follows(before, after):
    text = f"kafka: {before}\n  password: {SECRET}{after}"
    with pytest.raises(ConfigError) as caught:
        parse_config(text)
    assert SECRET not in str(caught.value)


@pytest.mark.unit
def test_a_secret_is_read_late_and_never_shown(monkeypatch):
    secret = Secret(env="A_SECRET")
    monkeypatch.delenv("A_SECRET", raising=False)
    with pytest.raises(ConfigError, match="A_SECRET is not set"):
        secret.reveal()
    monkeypatch.setenv("A_SECRET", SECRET)
    assert secret.reveal() == SECRET
    assert SECRET not in f"{secret!r} {secret} {secret.model_dump()}"


@pytest.mark.unit
@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_secret_in_a_file_is_read_anew_at_each_login(tmp_path, end):
    file = tmp_path / "password"
    login = {
        "security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "cdc",
        "sasl.password": {"file": str(file)},
    }  # fmt: skip
    kafka = parse_config(edited("kafka/properties", login)).kafka
    for password in ("first ", "sécond"):
        file.write_bytes(f"{password}{end}".encode())
        assert kafka.librdkafka()["sasl.password"] == password
        assert f'password="{password}"' in kafka.spark_options()["kafka.sasl.jaas.config"]
    assert "sécond" not in f"{kafka!r} {kafka} {kafka.model_dump()}"


@pytest.mark.unit
@pytest.mark.parametrize("content", [None, b"", b"\n", b"hunter2\xff"])
def test_a_file_without_a_secret_is_named(tmp_path, content):
    file = tmp_path / "password"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match="of a secret") as caught:
        Secret(file=str(file)).reveal()
    assert str(file) in str(caught.value)
    assert SECRET not in f"{caught.value}"


@pytest.mark.unit
@pytest.mark.parametrize(
    "form", [{"file": f"{SECRET}/relative"}, {"file": 1}, {"env": "A", "file": f"/{SECRET}"}, {}]
)
def test_a_secret_of_another_form_is_refused(form):
    with pytest.raises(ConfigError, match=r"\{file: /PATH\}") as caught:
        parse_config(edited("sources/shop/database", {"kind": "postgres", "dsn": form}))
    assert SECRET not in str(caught.value)


@pytest.mark.unit
def test_properties_may_be_numbers_and_booleans_as_yaml_writes_them():
    properties = {"socket.keepalive.enable": True, "metadata.max.age.ms": 5000}
    config = parse_config(edited("kafka/properties", properties))
    assert config.kafka.librdkafka() == {
        "bootstrap.servers": "broker:9092",
        "socket.keepalive.enable": "true",
        "metadata.max.age.ms": "5000",
    }


@pytest.mark.unit
def test_kafka_speaks_both_spellings(tmp_path, monkeypatch):
    monkeypatch.setenv("PW", 'a"b\\c')
    for name in ("ca", "certificate", "key"):
        (tmp_path / name).write_text(f"PEM {name}")
    config = parse_config(
        edited(
            "kafka/properties",
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.username": "me",
                "sasl.password": {"env": "PW"},
                "ssl.ca.location": str(tmp_path / "ca"),
                "ssl.certificate.location": str(tmp_path / "certificate"),
                "ssl.key.location": str(tmp_path / "key"),
                "ssl.endpoint.identification.algorithm": "none",
                "debug": "broker",
            },
        )
    )
    assert config.kafka.librdkafka()["sasl.password"] == 'a"b\\c'
    assert config.kafka.spark_options() == {
        "kafka.bootstrap.servers": "broker:9092",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required "
            'username="me" password="a\\"b\\\\c";'
        ),
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.certificates": "PEM ca",
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.certificate.chain": "PEM certificate",
        "kafka.ssl.keystore.key": "PEM key",
        "kafka.ssl.endpoint.identification.algorithm": "",
    }


@pytest.mark.unit
def test_certificates_are_found_beside_the_configuration(tmp_path, monkeypatch):
    (tmp_path / "ca.pem").write_text("PEM ca")
    monkeypatch.chdir("/")
    properties = {"security.protocol": "SSL", "ssl.ca.location": "ca.pem"}
    config = parse_config(edited("kafka/properties", properties), tmp_path / "replication.yaml")
    assert config.kafka.librdkafka()["ssl.ca.location"] == str(tmp_path / "ca.pem")
    assert config.kafka.spark_options()["kafka.ssl.truststore.certificates"] == "PEM ca"


@pytest.mark.unit
def test_a_certificate_that_cannot_be_read_is_named(tmp_path):
    properties = {"security.protocol": "SSL", "ssl.ca.location": str(tmp_path / "none.pem")}
    config = parse_config(edited("kafka/properties", properties))
    with pytest.raises(ConfigError, match=r"ssl\.ca\.location"):
        config.kafka.spark_options()


@pytest.mark.unit
def test_connector_modes_reach_the_core():
    modes = {"decimal_handling_mode": "string", "time_precision_mode": "connect"}
    config = parse_config(edited("sources/shop/connector", modes))
    assert config.source("shop").connector.modes == ConnectorModes(
        DecimalMode.STRING, TimeMode.CONNECT, BinaryMode.BYTES
    )


def database(kind):
    return {"kind": kind, "dsn": {"env": "SHOP_DSN"}}


@pytest.mark.unit
@pytest.mark.parametrize(
    ("given", "kind", "time"),
    [
        ("postgres", "postgres", TimeMode.ADAPTIVE),
        ("postgresql", "postgres", TimeMode.ADAPTIVE),
        ("mysql", "mysql", TimeMode.ADAPTIVE_TIME_MICROSECONDS),
        ("mariadb", "mariadb", TimeMode.ADAPTIVE_TIME_MICROSECONDS),
    ],
)
def test_each_kind_of_database_has_its_connectors_defaults(given, kind, time):
    source = parse_config(edited("sources/shop/database", database(given))).source("shop")
    assert source.database is not None
    assert source.database.kind == kind
    assert source.modes == ConnectorModes(time=time)


@pytest.mark.unit
def test_without_a_database_the_modes_are_those_of_postgresql_unless_told():
    assert parse_config(edited("home", ".")).source("shop").modes == ConnectorModes()
    modes = {"time_precision_mode": "microseconds", "bigint_unsigned_handling_mode": "precise"}
    assert parse_config(edited("sources/shop/connector", modes)).source("shop").modes == (
        ConnectorModes(time=TimeMode.MICROSECONDS, unsigned=UnsignedMode.PRECISE)
    )


@pytest.mark.unit
def test_a_mode_that_mysqls_connector_has_not_is_refused():
    text = edited("sources/shop/connector", {"time_precision_mode": "adaptive"})
    document = yaml.safe_load(text)
    document["sources"]["shop"]["database"] = database("mysql")
    assert "adaptive_time_microseconds" in error_of(yaml.safe_dump(document)).remedy


@pytest.mark.unit
def test_a_publication_is_postgresqls():
    error = error_of(edited("sources/shop/database", {**database("mysql"), "publication": "p"}))
    assert "mysql has none" in error.what


@pytest.mark.unit
@pytest.mark.parametrize("zone", ["UTC", "Asia/Shanghai", "+08:00", "-03:30"])
def test_a_time_zone_is_a_name_or_an_offset(zone):
    config = parse_config(edited("sources/shop/connector", {"time_zone": zone}))
    assert config.source("shop").connector.time_zone == zone


@pytest.mark.unit
@pytest.mark.parametrize("zone", ["Mars/Olympus", "08:00", "+8", "", "../etc/passwd", "+15:00"])
def test_a_time_zone_that_nobody_knows_is_refused(zone):
    error = error_of(edited("sources/shop/connector", {"time_zone": zone}))
    assert "Europe/Zurich" in error.remedy


@pytest.mark.unit
@pytest.mark.parametrize("url", ["http://r:8081", ["http://r:8081"]], ids=["one", "list"])
def test_a_schema_registry_has_one_url_or_several(url):
    config = parse_config(edited("sources/shop/schema_registry", {"url": url}))
    registry = config.source("shop").schema_registry
    assert registry is not None
    assert registry.url == ("http://r:8081",)
    assert (registry.api, registry.ids, registry.timeout_seconds) == ("confluent", None, 10)


@pytest.mark.unit
def test_a_schema_registry_may_ask_for_anything():
    given = {
        "url": [{"env": "URL"}, "https://b/apis"], "api": "apicurio", "ids": "global",
        "token": {"env": "T"}, "ca_file": "ca.pem", "certificate_file": "/c.pem",
        "key_file": "k.pem", "timeout_seconds": 2.5,
    }  # fmt: skip
    text = edited("sources/shop/schema_registry", given)
    registry = parse_config(text, Path("/etc/cdc/r.yaml")).source("shop").schema_registry
    assert registry is not None
    assert registry.url == (Secret(env="URL"), "https://b/apis")
    assert registry.ca_file == Path("/etc/cdc/ca.pem")
    assert registry.certificate_file == Path("/c.pem")
    assert registry.key_file == Path("/etc/cdc/k.pem")


@pytest.mark.unit
def test_timestamps_of_the_configuration_have_no_zone_unless_they_say_so():
    columns = {"a": "timestamp(3)", "b": "timestamptz"}
    config = parse_config(edited("sources/shop/tables", {"public.o": {"columns": columns}}))
    assert config.source("shop").tables["public.o"].column_types == {
        "a": TypeSpec(Primitive.TIMESTAMP, 3),
        "b": TypeSpec(Primitive.TIMESTAMPTZ),
    }


@pytest.mark.unit
def test_large_values_that_are_lost_may_be_accepted_for_a_column():
    columns = {
        "place": {"large_values": "accept"},
        "area": {"large_values": "accept", "rename": "a"},
    }
    config = parse_config(edited("sources/shop/tables", {"public.o": {"columns": columns}}))
    source, table = config.source("shop"), TableName("shop", "public", "o")
    places = [
        PostgresColumn(name, "geometry", "geometry", may_be_toasted=True)
        for name in ("place", "area", "other")
    ]
    described = describe_table(places, (), ConnectorModes())
    found = source.laid_over(table, described, whole=True)
    assert [each.name for each in found.unmapped] == ["other"]
    alone = replace(described, columns=described.columns[2:])
    assert source.laid_over(table, alone, whole=False) == alone
    with pytest.raises(ConfigError, match=r"a column '(place|area)' that the table does not have"):
        source.laid_over(table, alone, whole=True)


@pytest.mark.unit
def test_a_source_that_does_not_exist_is_named_with_its_nearest():
    config = parse_config(edited("home", "/srv/cdc"))
    with pytest.raises(ConfigError, match="did you mean 'shop'"):
        config.source("shpo")


@pytest.mark.unit
@pytest.mark.parametrize(("given", "limit"), [({}, 1000), ({"max_records": 1}, 1)], ids=str)
def test_the_quarantine_has_a_limit(given, limit):
    config = parse_config(edited("sources/shop/quarantine", given))
    assert config.source("shop").quarantine.max_records == limit


@pytest.mark.unit
def test_a_topic_has_the_bound_of_the_most_generous_source_that_includes_it():
    def source(include: list[str], most: int) -> dict[str, object]:
        topics = {"include": include, "exclude": [r"a\.secret\..*"]}
        batch = {"max_record_bytes": most}
        return {"format": "debezium-json", "topics": topics, "batch": batch}

    sources = {"a": source([r"a\..*"], 2_000), "b": source([r"[ab]\.x\..*"], 3_000)}
    config = ReplicationConfig.model_validate({**MINIMAL, "sources": sources})
    assert config.max_record_bytes("a.y.t") == 2_000
    assert config.max_record_bytes("a.x.t") == 3_000
    assert config.max_record_bytes("a.secret.t") == 3_000, "of nobody's topic: as any source says"
    assert BatchConfig().max_record_bytes == 32 << 20


@pytest.mark.unit
def test_the_tree_is_frozen_and_has_defaults_for_all_but_two_parts():
    config = ReplicationConfig.model_validate(MINIMAL)
    assert config.spark.is_local_server
    assert config.stack.ports.kafka == 19092
    assert config.lake.format_version == 3
    with pytest.raises(ValueError, match="frozen"):
        config.home = Path("/")  # pyright: ignore[reportAttributeAccessIssue]


VARIABLES = """
kafka: {bootstrap_servers: "{{ env.OUR_KAFKA }}"}
lake: {warehouse: "s3://{{ env.OUR_BUCKET }}/lake",
  catalog: {type: sql, uri: "{{ env.OUR_CATALOG }}"}}
spark: {remote: "sc://spark", token: "{{env.OUR_TOKEN}}"}
"""


@pytest.mark.unit
def test_texts_may_name_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that may be secret are read when they are needed, all others at once."""
    monkeypatch.setenv("OUR_KAFKA", "kafka:9092")
    monkeypatch.setenv("OUR_BUCKET", "ours")
    for name in ("OUR_TOKEN", "OUR_CATALOG"):
        monkeypatch.delenv(name, raising=False)
    config = parse_config(VARIABLES)
    assert config.kafka.bootstrap_servers == "kafka:9092"
    assert config.lake.warehouse == "s3://ours/lake"
    assert (config.lake.catalog.uri, config.spark.token) == (
        Secret(env="OUR_CATALOG"),
        Secret(env="OUR_TOKEN"),
    )


@pytest.mark.unit
@pytest.mark.parametrize(
    ("name", "place"),
    [("OUR_KAFKA", ":2 kafka.bootstrap_servers"), ("OUR_BUCKET", ":3 lake.warehouse")],
)
def test_a_variable_that_is_not_set_is_named(
    monkeypatch: pytest.MonkeyPatch, name: str, place: str
) -> None:
    for each in ("OUR_KAFKA", "OUR_BUCKET"):
        monkeypatch.setenv(each, "set")
    monkeypatch.delenv(name)
    with pytest.raises(ConfigError, match=f"variable {name} is not set") as raised:
        parse_config(VARIABLES)
    assert place in str(raised.value)


def whole_documents() -> Iterator[dict[str, Any]]:
    """The shipped configurations, and those in the pages, made whole where they are parts."""
    for file in CHECKOUT.glob("*/**/replication*.yaml"):
        yield yaml.safe_load(file.read_text())
    whole = yaml.safe_load((CHECKOUT / "replication.yaml").read_text())
    for page in CHECKOUT.glob("docs/**/*.md"):
        for block in re.findall(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL):
            part = yaml.safe_load(block) if "…" not in block else None
            if (
                not isinstance(part, dict)
                or not part.keys() <= ReplicationConfig.model_fields.keys()
            ):
                continue
            sources = part.get("sources") or whole["sources"]
            usual = {"format": "debezium-json", "topics": {"include": ["shop"]}}
            yield {**whole, **part, "sources": {key: usual | of for key, of in sources.items()}}


@pytest.mark.slow
def test_the_schema_of_the_configuration_accepts_what_is_shown_and_describes_fields() -> None:
    done = run_command(CHECKOUT, "config", "schema")
    schema = json.loads(done.stdout)
    Draft202012Validator.check_schema(schema)
    documents = list(whole_documents())
    assert len(documents) > 15
    for document in documents:
        parse_config(yaml.safe_dump(document))
        assert not [*Draft202012Validator(schema).iter_errors(document)], document
    shown = schema["$defs"]["ResnapshotConfig"]["properties"]
    about = shown["parallel"]["description"]
    assert about.startswith("number of statements that read at once.")
    done = run_command(CHECKOUT, "config", "check")
    assert done.stdout == f"{CHECKOUT / 'replication.yaml'}: correct; sources: shop\n"


OLD = (
    DeprecatedKey("sources.*.batch.max_records", "sources.NAME.batch.most", "1.4"),
    DeprecatedKey("sources.*.gone", "sources.NAME.there", "1.2"),
    DeprecatedKey("sources.*.merge_into.*.shard", "sources.NAME.merge_into.name", "1.3"),
)


@pytest.mark.unit
def test_a_deprecated_key_warns_and_a_removed_one_names_its_replacement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cdc_assets.config.load.DEPRECATED", OLD)
    rule = {"tables": "a", "namespace": "n", "shard": "s"}
    shop = source("shop", batch={"max_records": 7}, merge_into=[rule])
    file = tmp_path / "replication.yaml"
    write(file, platform(sources={"shop": shop}))
    done = run_command(tmp_path, "config", "check")
    assert (done.returncode, done.stdout) == (0, f"{file}: correct; sources: shop\n")
    text = file.read_text().splitlines()
    lines = [next(n for n, line in enumerate(text, 1) if key in line)
             for key in ("max_records:", "shard:")]  # fmt: skip
    assert done.stderr.splitlines() == [
        f"warning: {file}:{lines[0]} sources.shop.batch.max_records is deprecated: "
        "write sources.NAME.batch.most instead (since version 1.4)",
        f"warning: {file}:{lines[1]} sources.shop.merge_into.0.shard is deprecated: "
        "write sources.NAME.merge_into.name instead (since version 1.3)",
    ]
    with pytest.raises(ConfigError, match="unknown key 'gone': it was removed") as refused:
        write(file, platform(sources={"shop": {**shop, "gone": 1}}))
    assert refused.value.remedy == "write sources.NAME.there instead (since version 1.2)"
    with pytest.raises(ConfigError) as refused:
        write(file, platform(gone=1))
    assert "removed" not in str(refused.value)


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
def test_assess_warns_of_a_deprecated_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cdc_assets.config.load.DEPRECATED", OLD)
    write(tmp_path / "replication.yaml", platform(sources={"shop": source("shop", batch={
        "max_records": 7})}, spark={"remote": "sc://127.0.0.1:1"}))  # fmt: skip
    done = run_command(tmp_path, "assess")
    assert "sources.shop.batch.max_records is deprecated" in done.stderr
