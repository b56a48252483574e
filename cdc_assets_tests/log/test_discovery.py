"""Which topics are tables."""

import pytest

from cdc_assets.changes.names import TableName
from cdc_assets.config import SourceConfig
from cdc_assets.errors import ConfigError
from cdc_assets.log.discovery import is_internal, match_topics

NOT_TABLES = (
    "__consumer_offsets",
    "__transaction_state",
    "__debezium-heartbeat.shop",
    "__debezium-heartbeat.eu.west.shop",
    "acme-heartbeat.eu.west.shop",
    "connect-configs",
    "connect-offsets",
    "connect-status",
    "_schemas",
    "shop",
    "shop.transaction",
    "schemahistory.shop",
)


def source(include=(".*",), exclude=(), prefix=None):
    topics = {"include": list(include), "exclude": list(exclude), "prefix": prefix}
    return SourceConfig.model_validate({"format": "debezium-json", "topics": topics})


def tables(topics, **patterns):
    return {
        topic: table.qualified for table, topic in match_topics(source(**patterns), "s", topics)
    }


@pytest.mark.unit
def test_a_topic_names_its_schema_and_table():
    assert match_topics(source(), "shop", ["shop.public.orders"]) == (
        (TableName("shop", "public", "orders"), "shop.public.orders"),
    )


@pytest.mark.unit
@pytest.mark.parametrize("topic", NOT_TABLES)
def test_topics_of_kafka_connect_and_debezium_are_no_tables(topic):
    assert tables([topic, "shop.public.orders"]) == {"shop.public.orders": "public.orders"}


@pytest.mark.unit
def test_patterns_match_whole_names_and_exclusion_wins():
    topics = ["shop.public.orders", "shop.public.orders_old", "xshop.public.orders", "shop.a.b"]
    found = tables(topics, include=[r"shop\..*"], exclude=[r".*_old"])
    assert found == {"shop.public.orders": "public.orders", "shop.a.b": "a.b"}


@pytest.mark.unit
def test_a_prefix_may_hold_dots():
    assert tables(["eu.west.public.orders"]) == {"eu.west.public.orders": "public.orders"}


@pytest.mark.unit
def test_a_configured_prefix_lets_names_hold_dots():
    found = tables(["eu.west.public.my.table", "other.a.b"], prefix="eu.west")
    assert found == {"eu.west.public.my.table": "public.my.table"}


@pytest.mark.unit
def test_a_table_named_transaction_is_a_table():
    topics = ["shop.public.transaction", "shop.public.orders", "shop.transaction"]
    assert set(tables(topics)) == {"shop.public.transaction", "shop.public.orders"}


@pytest.mark.unit
def test_the_transaction_topic_of_a_prefix_with_dots_is_told_by_its_neighbours():
    topics = ["eu.west.transaction", "eu.west.public.orders"]
    assert set(tables(topics)) == {"eu.west.public.orders"}
    assert is_internal("eu.west.transaction", frozenset(topics))


@pytest.mark.unit
def test_two_topics_of_one_table_are_refused_with_both_names():
    with pytest.raises(ConfigError) as caught:
        match_topics(source(), "shop", ["a.public.orders", "b.public.orders"])
    assert "a.public.orders" in str(caught.value)
    assert "b.public.orders" in str(caught.value)
