"""What the demo does for each database."""

import re
from pathlib import Path

import pytest
from cdc_assets_devstack.demo_source import Server, demo_source
from cdc_assets_devstack.layout import StackLayout
from cdc_assets_devstack.stack import LocalStack

from cdc_assets.config import load_config
from cdc_assets.operate.assess.connector import Connector, ExpectedConnector
from cdc_assets.operate.assess.connector_rules import judge_connector
from cdc_assets.operate.assess.finding import Subject

pytestmark = pytest.mark.unit

CHECKOUT = Path(__file__).parents[2]
FILES = {Server.POSTGRES: "replication.yaml", Server.MARIADB: "replication-mariadb.yaml"}


@pytest.mark.parametrize("server", Server)
def test_only_the_server_of_the_shop_is_installed_and_started(tmp_path, server):
    shown = demo_source(server, LocalStack(StackLayout(tmp_path)))
    others = {each.value for each in Server} - {server.value}
    assert set(shown.parts) == {server.value, "kafka", "connect", "spark"}
    assert not others & set(shown.parts)
    assert ("mariadb" in shown.jars) is (server is Server.MARIADB)


@pytest.mark.parametrize("server", Server)
def test_its_checked_in_configuration_takes_what_its_connector_writes(tmp_path, server):
    shown = demo_source(server, LocalStack(StackLayout(tmp_path)))
    config = load_config(CHECKOUT / FILES[server])
    source = config.source(shown.connector)
    topic = f"{shown.settings['topic.prefix']}.{shown.schema}.orders"
    assert re.fullmatch(source.topics.include[0], topic)
    carries_schemas = shown.settings["value.converter.schemas.enable"] == "true"
    assert carries_schemas is (source.database is None)


@pytest.mark.parametrize("server", Server)
def test_no_value_stops_its_connector_or_becomes_null_unseen(tmp_path, server):
    shown = demo_source(server, LocalStack(StackLayout(tmp_path)))
    config = load_config(CHECKOUT / FILES[server]).source(shown.connector)
    expected = ExpectedConnector(
        Subject("shop"), config.format, config.connector, config.database is not None
    )
    found = judge_connector(Connector(shown.connector, "", shown.settings), expected)
    stops = {"conversion_failures", "numbers_stop", "large_records_stop", "modes_differ"}
    assert not stops & {each.name for each in found}


def test_both_configurations_share_the_stack_and_the_lake():
    one, other = (load_config(CHECKOUT / file) for file in FILES.values())
    assert (one.home, one.lake, one.spark, one.stack) == (
        other.home, other.lake, other.spark, other.stack,
    )  # fmt: skip
    assert one.registry != other.registry
