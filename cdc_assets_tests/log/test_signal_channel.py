"""What a connector lacks to be signalled, and what it is sent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cdc_assets_devstack.layout import StackLayout
from cdc_assets_devstack.shop.connector import (
    connector_config,
    mariadb_connector_config,
    signal_settings,
)

from cdc_assets.errors import ConfigError
from cdc_assets.log.signal_channel import SignalChannel, is_begun, lacking
from cdc_assets.log.signalling import Signal
from cdc_assets_tests.world import entry_of, write_config

pytestmark = pytest.mark.unit

POSTGRES = {
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "topic.prefix": "shop",
}
READY = {
    **POSTGRES,
    "read.only": "true",
    "signal.enabled.channels": "kafka",
    "signal.kafka.bootstrap.servers": "kafka:9092",
    "notification.enabled.channels": "log,sink",
    "notification.sink.topic.name": "said",
}
SQLSERVER = {"connector.class": "io.debezium.connector.sqlserver.SqlServerConnector"}


def test_a_connector_that_nobody_set_up_lacks_each_setting_by_name_and_value() -> None:
    assert dict(lacking(POSTGRES)) == {
        "signal.enabled.channels": "kafka",
        "signal.kafka.bootstrap.servers": "<the brokers of this Kafka>",
        "read.only": "true",
        "notification.enabled.channels": "sink",
        "notification.sink.topic.name": "shop-notifications",
    }
    assert not is_begun(POSTGRES)


@pytest.mark.parametrize(
    ("changed", "missing"),
    [
        ({}, {}),
        ({"signal.enabled.channels": "source, kafka"}, {}),
        ({"signal.enabled.channels": "file"}, {"signal.enabled.channels": "kafka"}),
        ({"notification.enabled.channels": "log"}, {"notification.enabled.channels": "log,sink"}),
        ({"read.only": "false"}, {"read.only": "true"}),
        (
            {"read.only": "false", "signal.data.collection": "public.signals"},
            {"signal.enabled.channels": "source,kafka"},
        ),
        (
            {
                "read.only": "false",
                "signal.data.collection": "public.signals",
                "signal.enabled.channels": "source,kafka",
            },
            {},
        ),
        (SQLSERVER, {"signal.data.collection": "<a table that the connector may write to>"}),
    ],
)
def test_each_setting_that_is_wrong_is_named(
    changed: dict[str, str], missing: dict[str, str]
) -> None:
    assert dict(lacking({**READY, **changed})) == missing


def test_the_connectors_of_the_demo_can_be_signalled(tmp_path: Path) -> None:
    layout = StackLayout(tmp_path)
    for config in (connector_config(layout), mariadb_connector_config(layout)):
        prefix = config["topic.prefix"]
        assert lacking({**config, **signal_settings(layout, prefix)}) == ()


def test_a_table_is_called_as_its_topic_behind_the_prefix(tmp_path: Path) -> None:
    channel = SignalChannel("shop", "shop", "shop-signal", "said")
    config = write_config(tmp_path)
    assert channel.collection_of(entry_of("orders", config)) == "public.orders"
    with pytest.raises(ConfigError, match="does not tell what connector shop calls it"):
        channel.collection_of(entry_of("orders", config, topic="routed.orders"))


def test_a_signal_always_has_data_and_names_tables_as_patterns() -> None:
    assert json.loads(Signal("1", "pause-snapshot").to_json()) == {
        "id": "1", "type": "pause-snapshot", "data": {"type": "INCREMENTAL"},
    }  # fmt: skip
    asked = json.loads(Signal("2", "execute-snapshot", ("public.a_b", "public.c$d")).to_json())
    assert asked["data"] == {
        "type": "INCREMENTAL", "data-collections": ["public.a_b", r"public.c\$d"],
    }  # fmt: skip
