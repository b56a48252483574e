"""What a user's shell says about other programs reaches no part of the stack."""

import os

import pytest
from cdc_assets_devstack import environment, java
from cdc_assets_devstack.connect import Connect
from cdc_assets_devstack.demo_parts import Dagster, ShopLoadProcess
from cdc_assets_devstack.kafka import Kafka
from cdc_assets_devstack.layout import Ports, StackLayout
from cdc_assets_devstack.postgres import Postgres
from cdc_assets_devstack.spark_server import SparkServer

pytestmark = pytest.mark.unit

HOSTILE = {
    **dict.fromkeys(
        (
            "SPARK_HOME", "SPARK_CONF_DIR", "SPARK_LOCAL_DIRS", "HADOOP_CONF_DIR", "PGDATA",
            "PGPASSFILE", "PGSERVICEFILE", "KAFKA_HOME", "DAGSTER_HOME", "JRE_HOME",
        ),
        "/nowhere",
    ),
    "SPARK_REMOTE": "sc://192.0.2.1:15002",
    "SPARK_API_MODE": "classic",
    "SPARK_TESTING": "1",
    "SPARK_LOCAL_IP": "192.0.2.1",
    "SPARK_MASTER_HOST": "192.0.2.1",
    "SPARK_CONNECT_AUTHENTICATE_TOKEN": "another",
    "SPARK_USER": "nobody-of-this-machine",
    "MASTER": "spark://192.0.2.1:7077",
    "PYSPARK_SUBMIT_ARGS": "--master yarn pyspark-shell",
    "PYSPARK_PYTHON": "/nowhere/python",
    "PYSPARK_NO_NAMESPACE_SHARE": "1",
    "JAVA_TOOL_OPTIONS": "-XX:+NoSuchOption",
    "_JAVA_OPTIONS": "-Xmx1m",
    "JDK_JAVA_OPTIONS": "--no-such-option",
    "CLASSPATH": "/nowhere/a.jar",
    "KAFKA_OPTS": "-javaagent:/nowhere.jar",
    "KAFKA_HEAP_OPTS": "-Xmx1m",
    "KAFKA_LOG4J_OPTS": "-Dlog4j.configuration=file:/nowhere",
    "PGPORT": "1",
    "PGHOST": "192.0.2.1",
    "PGHOSTADDR": "192.0.2.1",
    "PGUSER": "somebody",
    "PGDATABASE": "other",
    "PGPASSWORD": "wrong",
    "PGSERVICE": "nowhere",
    "PGOPTIONS": "-c search_path=nowhere -c default_transaction_read_only=on",
    "PGSSLMODE": "verify-full",
    "http_proxy": "http://192.0.2.1:9",
    "https_proxy": "http://192.0.2.1:9",
    "HTTP_PROXY": "http://192.0.2.1:9",
    "HTTPS_PROXY": "http://192.0.2.1:9",
    "grpc_proxy": "http://192.0.2.1:9",
    "LC_ALL": "xx_YY.nonsense",
    "LANG": "tr_TR.ISO-8859-9",
    "DAGSTER_GRPC_TIMEOUT_SECONDS": "0",
    "DAGSTER_IS_DEV_CLI": "no",
}  # fmt: skip
"""Each of them stops a part, or leads a client astray, where it is believed."""


@pytest.fixture
def hostile(monkeypatch):
    for name in [*os.environ]:
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    for name, value in HOSTILE.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def layout(tmp_path):
    return StackLayout(tmp_path, Ports())


@pytest.mark.parametrize("part", [Postgres, Kafka, Connect, SparkServer])
def test_a_part_gets_nothing_of_what_is_meant_for_others(hostile, layout, part):
    found = part(layout).environment()
    allowed = {"http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"}
    assert {name for name in HOSTILE if found.get(name) == HOSTILE[name]} <= allowed
    assert found["LANG"] == "C.UTF-8"
    if allowed & found.keys():
        assert set(found["no_proxy"].split(",")) >= {"127.0.0.1", "localhost"}
    assert found[environment.PART_VARIABLE] == part.name


def test_the_demos_parts_get_what_the_configuration_names(hostile, layout, tmp_path, monkeypatch):
    monkeypatch.setenv("LAKE_PASSWORD", "secret")
    monkeypatch.setenv("AWS_PROFILE", "lake")
    file, instance = tmp_path / "replication.yaml", tmp_path / "dagster.yaml"
    file.write_text("lake: {catalog: {properties: {password: {env: LAKE_PASSWORD}}}}")
    instance.write_text("storage: {postgres: {postgres_url: {env: PGPASSWORD}}}")
    dagster = Dagster(layout, 3000, instance, environment.named_in(file)).command().env
    assert dagster["LAKE_PASSWORD"] == "secret"
    assert dagster["AWS_PROFILE"] == "lake"
    assert dagster["PGPASSWORD"] == HOSTILE["PGPASSWORD"]
    assert dagster["DAGSTER_HOME"] == str(tmp_path / "dagster")
    assert not {"PGHOST", "SPARK_REMOTE", "DAGSTER_GRPC_TIMEOUT_SECONDS"} & dagster.keys()
    load = ShopLoadProcess(layout, "dsn", 1).command().env
    assert not {"PGHOST", "LAKE_PASSWORD", "http_proxy"} & load.keys()


def test_java_is_found_whatever_its_variables_say(hostile):
    java.find_java.cache_clear()
    assert java.find_java().version in java.SUPPORTED


def test_options_of_java_that_a_person_wants_come_last(tmp_path, monkeypatch):
    monkeypatch.delenv(java.OPTIONS_VARIABLE, raising=False)
    usual = java.jvm_options(heap="1g", tmp=tmp_path)
    monkeypatch.setenv(java.OPTIONS_VARIABLE, "-Xmx2g '-Dtext=two words'")
    wanted = java.jvm_options(heap="1g", tmp=tmp_path)
    assert wanted == [*usual, "-Xmx2g", "-Dtext=two words"]


def test_hosts_that_need_no_proxy_are_kept(hostile, monkeypatch):
    monkeypatch.setenv("NO_PROXY", ".example.org")
    found = environment.chosen(*environment.NETWORK)
    assert found["no_proxy"] == found["NO_PROXY"] == ".example.org,127.0.0.1,localhost,::1"
