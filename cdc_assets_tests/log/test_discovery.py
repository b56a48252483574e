"""Which topics are tables."""

import pytest

from cdc_assets.changes.names import TableName
from cdc_assets.config import SourceConfig
from cdc_assets.errors import ConfigError
from cdc_assets.log.discovery import looks_like_side_topic, match_topics, transaction_topics

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
    "schemahistory.shop",
)
BY_RECORDS = ("acme-heartbeat.eu.west.shop", "eu.west.transaction", "eu.west.message")
"""Topics whose names could be those of tables."""


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
@pytest.mark.parametrize("topic", BY_RECORDS)
def test_a_name_that_a_table_could_have_decides_only_as_long_as_there_are_no_records(topic):
    assert topic in tables([topic])
    assert looks_like_side_topic(topic)
    assert match_topics(source(), "s", [topic], not_tables={topic}) == ()


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
    assert list(transaction_topics(topic, qualified, source(), TOPICS)) == found


@pytest.mark.unit
def test_a_configured_prefix_or_name_settles_which_topic_has_the_metadata():
    at = ("eu.west.public.orders", "public.orders")
    assert transaction_topics(*at, source(prefix="eu.west"), TOPICS) == ("eu.west.transaction",)
    assert transaction_topics(*at, source(prefix="eu.east"), TOPICS) == ()
    renamed = {"include": [".*"], "prefix": "eu.west", "transaction": "tx"}
    other = SourceConfig.model_validate({"format": "debezium-json", "topics": renamed})
    assert transaction_topics(*at, other, [*TOPICS, "eu.west.tx"]) == ("eu.west.tx",)


@pytest.mark.unit
def test_two_topics_of_one_table_are_refused_with_both_names():
    with pytest.raises(ConfigError) as caught:
        match_topics(source(), "shop", ["a.public.orders", "b.public.orders"])
    assert "a.public.orders" in str(caught.value)
    assert "b.public.orders" in str(caught.value)
