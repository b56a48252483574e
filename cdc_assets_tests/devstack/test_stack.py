import json
import os
import signal
import socket
import time
from dataclasses import replace
from pathlib import Path

import grpc
import psutil
import psycopg
import pytest
import requests
from cdc_assets_devstack.layout import StackLayout
from cdc_assets_devstack.part import (
    PartDiedError,
    PartInUseError,
    PartOfOthersError,
    PartState,
)
from cdc_assets_devstack.ports import pick_free_ports
from cdc_assets_devstack.process import RunningProcess
from cdc_assets_devstack.shop.connector import connector_config
from cdc_assets_devstack.spark_server import ensure_spark
from cdc_assets_devstack.stack import DEFAULT_PARTS, LocalStack

from cdc_assets.errors import TerminalError
from cdc_assets_tests.processes import LOOPBACK, command_lines, listened_at
from cdc_assets_tests.toy.profiles import in_soak

pytestmark = pytest.mark.stack


@pytest.fixture
def own_stack(tmp_path, stack_config):
    """A stack apart from the session's, for tests that kill and stop."""
    local = LocalStack(StackLayout(tmp_path / "home", pick_free_ports()))
    yield local
    local.down()


def pids(local: LocalStack) -> dict[str, int | None]:
    return {part.name: part.pid for part in local.status().parts}


def running(local: LocalStack) -> dict[str, int]:
    """The process of each part that runs."""
    return {name: pid for name, pid in pids(local).items() if pid}


def process_of(layout: StackLayout, part: str) -> RunningProcess:
    found = RunningProcess.read(layout.pidfile(part))
    assert found is not None
    return found


def test_all_parts_are_ready_and_say_where_they_are(stack):
    found = json.loads(stack.status().to_json())["parts"]
    assert [part["name"] for part in found] == [*DEFAULT_PARTS, "mariadb", "registry"]
    for part in found[: len(DEFAULT_PARTS)]:
        assert part["state"] == "ready"
        assert part["memory_bytes"] > 0
        assert Path(part["log"]).exists()


def test_up_twice_changes_nothing(stack):
    before = pids(stack)
    stack.up()
    assert pids(stack) == before


def test_everything_listens_on_the_loopback_interface_only(stack):
    listening = [
        (name, address) for name, pid in running(stack).items() for address, _ in listened_at(pid)
    ]
    assert {name for name, _ in listening} >= set(DEFAULT_PARTS)
    assert [entry for entry in listening if entry[1] not in LOOPBACK] == []


def test_no_secret_is_on_a_command_line_or_readable_by_others(stack):
    secrets = [stack.spark.token, stack.postgres.password]
    for pid in running(stack).values():
        assert not any(secret in command_lines(pid) for secret in secrets)
    for name in ("spark", "postgres"):
        assert stack.layout.secret(name).stat().st_mode & 0o077 == 0


def test_spark_refuses_a_client_without_the_token(stack):
    with grpc.insecure_channel(f"127.0.0.1:{stack.layout.ports.spark}") as channel:
        call = channel.unary_unary("/spark.connect.SparkConnectService/Config")
        with pytest.raises(grpc.RpcError) as caught:
            call(b"", timeout=10)
    assert caught.value.code() == grpc.StatusCode.UNAUTHENTICATED


def test_spark_answers_a_client_with_the_token_in_utc(spark_endpoint):
    from pyspark.sql import SparkSession

    session = SparkSession.builder.remote(spark_endpoint.url).create()
    try:
        row = session.sql("SELECT 40 + 2, current_timezone()").first()
        assert tuple(row) == (42, "UTC")
    finally:
        session.stop()


def test_a_running_spark_server_is_reused(stack):
    before = pids(stack)["spark"]
    assert ensure_spark(stack.layout) == stack.spark.endpoint
    assert ensure_spark(stack.layout, stack.spark.conf, stack.spark.memory) == stack.spark.endpoint
    assert pids(stack)["spark"] == before


@in_soak
def test_two_configurations_of_one_folder_do_not_take_sparks_server_from_each_other(own_stack):
    """The second is told whose it is; the first goes on with its server and its session."""
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.client.retries import DefaultPolicy

    layout = own_stack.layout
    mine = replace(layout, config=layout.home / "mine.yaml")
    theirs = replace(layout, config=layout.home / "theirs.yaml")
    endpoint = ensure_spark(mine, {"spark.sql.catalog.lake.warehouse": "one"})
    pid = process_of(layout, "spark").pid
    session = SparkSession.builder.remote(endpoint.url).create()
    session.client.set_retry_policies([DefaultPolicy(max_retries=3, max_backoff=1000)])
    try:
        assert session.sql("SELECT 1").first()[0] == 1
        for _ in range(3):
            with pytest.raises(PartOfOthersError, match=rf"mine\.yaml at 20.* pid {pid}"):
                ensure_spark(theirs, {"spark.sql.catalog.lake.warehouse": "two"})
            assert ensure_spark(mine, {"spark.sql.catalog.lake.warehouse": "one"}) == endpoint
        with pytest.raises(PartInUseError, match=f"connected: .*pid {os.getpid()}"):
            ensure_spark(mine, {"spark.sql.catalog.lake.warehouse": "three"})
        assert session.sql("SELECT 1").first()[0] == 1
    finally:
        session.stop()
    assert LocalStack(theirs).down(spare_others=True) != ()
    assert process_of(layout, "spark").pid == pid


def test_connect_never_shows_the_databases_password(stack, shop_dsn):
    shown = requests.get(f"http://{stack.connect.address}/connectors/shop", timeout=10).text
    assert "cdc_assets_shop" in shown
    assert stack.postgres.password not in shown


def test_an_unknown_part_is_refused_with_the_choice(stack):
    with pytest.raises(TerminalError, match=r"no part is called kafak .* postgres, kafka.*mariadb"):
        stack.up(["kafak"])


def test_a_taken_port_stops_up_before_anything_is_started(own_stack):
    with socket.create_server(("127.0.0.1", own_stack.layout.ports.connect)):
        with pytest.raises(TerminalError) as caught:
            own_stack.up(["postgres", "connect"])
    assert "which connect needs" in str(caught.value)
    assert f"pid {os.getpid()}" in str(caught.value)
    assert {part.state for part in own_stack.status().parts} == {PartState.STOPPED}


def test_up_starts_only_the_chosen_parts_and_what_they_need(own_stack):
    own_stack.up(["connect"])
    states = {part.name: part.state for part in own_stack.status().parts}
    assert states == {
        "postgres": PartState.STOPPED,
        "kafka": PartState.READY,
        "connect": PartState.READY,
        "spark": PartState.STOPPED,
        "mariadb": PartState.STOPPED,
        "registry": PartState.STOPPED,
    }


def test_a_part_that_died_is_reported_by_name_with_its_log_and_started_again(own_stack):
    own_stack.up(["postgres"])
    killed = process_of(own_stack.layout, "postgres")
    os.kill(killed.pid, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while killed.alive:
        assert time.monotonic() < deadline
    with pytest.raises(PartDiedError, match="postgres ended by itself") as caught:
        own_stack.require_alive()
    assert "ready to accept connections" in str(caught.value)
    status = own_stack.status()["postgres"]
    assert status.state is PartState.DIED
    assert "ready to accept connections" in status.last_words
    own_stack.up(["postgres"])
    own_stack.require_alive()


def test_a_part_that_cannot_start_is_reported_with_the_end_of_its_log(own_stack):
    own_stack.up(["kafka"])
    own_stack.kafka.stop()
    meta = own_stack.layout.data("kafka") / "meta.properties"
    meta.write_text(meta.read_text().replace("node.id=1", "node.id=2"))
    with pytest.raises(
        PartDiedError, match=r"(?s)kafka ended by itself.*Stored node id 2 doesn't match"
    ):
        own_stack.up(["kafka"])


def test_down_leaves_no_process_and_up_finds_the_data_again(own_stack):
    own_stack.up(["postgres", "kafka"])
    home = str(own_stack.layout.home)
    own_stack.down()
    left = [p.info["cmdline"] for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"]]
    assert [each for each in left if home in " ".join(each)] == []
    assert {part.state for part in own_stack.status().parts} == {PartState.STOPPED}
    own_stack.up(["postgres"])
    assert own_stack.status()["postgres"].state is PartState.READY


@in_soak
def test_a_log_folder_that_was_never_finished_is_made_and_a_damaged_one_is_kept(own_stack):
    data = own_stack.layout.data("kafka")
    data.mkdir(parents=True)
    (data / "bootstrap.checkpoint").write_bytes(b"half")
    own_stack.up(["kafka"])
    own_stack.down()
    (data / "meta.properties").unlink()
    with pytest.raises(TerminalError, match=r"data of Kafka is damaged.*cdc-assets stack down"):
        own_stack.up(["kafka"])
    assert any(data.glob("*/*.log"))


def test_a_failed_connector_is_started_again_by_registering_it(stack, shop_dsn):
    """It fails because its database is away, and stays failed when the database is back."""
    config = connector_config(stack.layout, database="later", prefix="later")
    with pytest.raises(TerminalError, match=r"later"):
        stack.register_connector("later", config)
    new = psycopg.connect(stack.postgres.dsn(), autocommit=True)
    with new:
        new.execute("CREATE DATABASE later")
    try:
        stack.register_connector("later", config)
        assert stack.connect.state_of("later").runs
    finally:
        stack.connect.unregister("later")
