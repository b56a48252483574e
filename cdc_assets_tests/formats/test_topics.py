"""Which topics are tables."""

import pytest

from cdc_assets.changes.names import TableName
from cdc_assets.errors import ConfigError
from cdc_assets.formats.names import match_topics
from cdc_assets_tests.formats.debezium import debezium_json

NOT_TABLES = (
    "__consumer_offsets",
    "__transaction_state",
    "__debezium-heartbeat.shop",
    "__debezium-heartbeat.eu.west.shop",
    "connect-configs",
    "connect-offsets",
    "connect-status",
    "_schemas",
    "shop",
    "shop.transaction",
    "shop.message",
    "shop-signal",
    "shop.notifications",
    "beats.shop",
    "schemahistory.shop",
)
BY_RECORDS = (
    "acme-heartbeat.eu.west.shop",
    "eu.west.transaction",
    "eu.west.message",
    "eu.west.shop-signal",
)
"""Topics whose names could be those of tables."""


def names(**topics):
    return debezium_json(**topics).topics


def tables(topics, **patterns):
    return {topic: table.qualified for table, topic in match_topics(names(**patterns), "s", topics)}


@pytest.mark.unit
def test_a_topic_names_its_schema_and_table():
    assert match_topics(names(), "shop", ["shop.public.orders"]) == (
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
@pytest.mark.parametrize("topic", BY_RECORDS)
def test_a_name_that_a_table_could_have_decides_only_as_long_as_there_are_no_records(topic):
    assert topic in tables([topic])
    assert names().looks_like_side_topic(topic)
    assert match_topics(names(), "s", [topic], not_tables={topic}) == ()


@pytest.mark.unit
@pytest.mark.parametrize("topic", ["acme.beats.shop", "shop.signals.kafka", "ops.cdc.notices"])
def test_a_topic_under_a_chosen_name_is_told_by_its_records_alone(topic):
    """``topic.heartbeat.prefix``, ``signal.kafka.topic``, ``notification.sink.topic.name``."""
    assert topic in tables([topic])
    assert match_topics(names(), "s", [topic], not_tables={topic}) == ()


@pytest.mark.unit
def test_tables_with_the_names_of_side_topics_are_tables():
    """Whatever their neighbours are called: a table's name may hold a dot."""
    topics = ["shop.public.transaction", "shop.public.message", "shop.public.orders.archive"]
    assert set(topics[:2]) <= set(tables(topics))
    assert set(tables(topics, prefix="shop")) == set(topics)


TOPICS = (
    "eu.transaction",
    "eu.west.transaction",
    "public.transaction",
    "shop.public.transaction",
    "shop.transaction",
    "sql.db.transaction",
    "sql.transaction",
)


@pytest.mark.unit
@pytest.mark.parametrize(
    ("topic", "qualified", "found"),
    [
        ("shop.public.orders", "public.orders", ["shop.transaction"]),
        ("shop.public.transaction", "public.transaction", ["shop.transaction"]),
        ("eu.west.public.orders", "public.orders", ["eu.west.transaction", "eu.transaction"]),
        ("eu.east.public.orders", "public.orders", ["eu.transaction"]),
        ("sql.db.dbo.orders", "dbo.orders", ["sql.db.transaction", "sql.transaction"]),
        ("us.public.orders", "public.orders", []),
        ("euro.public.orders", "public.orders", []),
    ],
    ids=["3 parts", "a table called transaction", "4 parts", "shorter prefix", "SQL Server", "none",
         "part of a word"],
)  # fmt: skip
def test_the_metadata_topic_is_what_precedes_the_table_or_less_of_it(topic, qualified, found):
    assert list(names().transaction_topics(topic, qualified, TOPICS)) == found


@pytest.mark.unit
def test_a_configured_prefix_or_name_settles_which_topic_has_the_metadata():
    at = ("eu.west.public.orders", "public.orders")
    assert names(prefix="eu.west").transaction_topics(*at, TOPICS) == ("eu.west.transaction",)
    assert names(prefix="eu.east").transaction_topics(*at, TOPICS) == ()
    other = names(prefix="eu.west", transaction="tx")
    assert other.transaction_topics(*at, [*TOPICS, "eu.west.tx"]) == ("eu.west.tx",)


@pytest.mark.unit
def test_two_topics_of_one_table_are_refused_with_both_names():
    with pytest.raises(ConfigError) as caught:
        match_topics(names(), "shop", ["a.public.orders", "b.public.orders"])
    assert "a.public.orders" in str(caught.value)
    assert "b.public.orders" in str(caught.value)
