"""The promise over Avro: keys and values by a registry's schemas, which change, while it is away.

PostgreSQL under load → Debezium with Apicurio's converter, in Confluent's framing → Kafka →
`cdc-assets replicate` → Iceberg.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cdc_assets_devstack.converters import Avro, converter_settings
from cdc_assets_devstack.shop.database import TABLES, prepare_shop
from cdc_assets_devstack.stack import LocalStack

from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import UnreachableError
from cdc_assets.merge import BatchResult, Replicator
from cdc_assets_tests.pipeline import Session
from cdc_assets_tests.stack.replicated import Replicated, replicated
from cdc_assets_tests.stack.side import side_of
from cdc_assets_tests.stack.test_truth import SEED, loaded
from cdc_assets_tests.toy import profiles
from cdc_assets_tests.waiting import until

pytestmark = [pytest.mark.stack, pytest.mark.timeout(1200)]

NAME = "truthavro"
SHOP = TABLES if profiles.is_soak() else ("orders",)
KEPT = (*SHOP, "gauges", "dials")
MAKE = (
    "CREATE TABLE gauges (id int PRIMARY KEY, n int, old text)",
    "INSERT INTO gauges SELECT n, n, 'old ' || n FROM generate_series(1, 50) AS n",
    "CREATE TABLE dials (LIKE gauges INCLUDING ALL)",
    "INSERT INTO dials SELECT * FROM gauges",
)


@pytest.fixture
def truth(stack: LocalStack, stack_config: ReplicationConfig) -> Iterator[Replicated]:
    stack.up(["registry"])
    dsn = stack.postgres.dsn(NAME)
    prepare_shop(dsn, SEED)
    side_of(dsn).execute(*MAKE)
    source = {
        "format": "debezium-avro",
        "schema_registry": {"url": stack.registry.confluent_url},
        "topics": {"include": [rf"{NAME}\.(transaction|public\.({'|'.join(KEPT)}))"]},
    }
    converter = converter_settings(stack.layout, Avro())
    with replicated(stack, stack_config, NAME, dsn, debezium=converter, **source) as database:
        yield database
    stack.registry.stop()


@profiles.in_soak
def test_with_schemas_that_change_and_a_registry_that_goes_away_every_table_equals_its_source(
    truth: Replicated, spark: Session
) -> None:
    with loaded(truth, SEED):
        truth.wait_until_delivered()
        knowing = Replicator(truth.config, spark)
        assert merged(knowing, truth, "dials")
        truth.execute("UPDATE gauges SET n = n + 1")  # a transaction, whose end has a schema too
        truth.wait_until_delivered()
        assert merged(knowing, truth, "gauges")
        truth.execute("UPDATE gauges SET n = n + 1 WHERE id < 9", "DELETE FROM gauges WHERE id = 7")
        truth.execute(
            "ALTER TABLE dials ADD COLUMN added text, ALTER COLUMN n TYPE bigint",
            "UPDATE dials SET n = 5000000000 + id, added = 'x' WHERE id % 2 = 0",
        )
        truth.wait_until_delivered()

        truth.stack.registry.stop()
        assert merged(knowing, truth, "gauges"), "by schemas that are known"
        assert truth.differences("gauges") == []
        before = truth.publishes("dials")
        with pytest.raises(UnreachableError, match="the schema registry does not answer"):
            merged(knowing, truth, "dials")
        assert truth.publishes("dials") == before

        truth.stack.up(["registry"])
        until(lambda: connector_runs(truth), "the connector runs", within_seconds=120)
        assert merged(knowing, truth, "dials"), "by the schema that could not be had"
        assert truth.differences("dials") == []
        truth.execute("ALTER TABLE dials DROP COLUMN old", "UPDATE dials SET n = 1 WHERE id > 30")
    truth.wait_until_delivered()
    truth.replicate()
    assert truth.differences(*SHOP, "gauges") == [], f"CDC_ASSETS_SEED={SEED}"
    assert truth.differences("dials", ignoring=["old"]) == []
    truth.require_tiled(*KEPT)


def merged(replicator: Replicator, database: Replicated, table: str) -> int:
    """How many batches a table has until it is caught up."""
    entry = database.entry(table)
    drained = replicator.drain(entry, window=None, run_id="test", budget_seconds=300)
    return sum(isinstance(each, BatchResult) for each in drained)


def connector_runs(database: Replicated) -> bool:
    """Whether it does. Its converter asks the registry now and then, and fails without it."""
    state = database.stack.connect.state_of(NAME)
    if state.failure is not None:
        database.stack.connect.restart(NAME)
    return state.runs
