"""Foreign keys of a real MariaDB change rows without events: seen, refused, and put right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from cdc_assets_devstack.stack import LocalStack

from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import SilentChangeError
from cdc_assets.lake.at_source import AtSource
from cdc_assets.operate.schema_drift import newest_drift
from cdc_assets.operate.services import Services
from cdc_assets.schema.silent import SilentChange
from cdc_assets_tests.pipeline import Session
from cdc_assets_tests.stack.merging import Merging
from cdc_assets_tests.stack.replicated import new_mariadb_database, record_settings, replicated
from cdc_assets_tests.stack.test_verify import verified

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900)]

MADE = (
    "CREATE TABLE orders (id int PRIMARY KEY)",
    "CREATE TABLE items (id int PRIMARY KEY, order_id int,"
    " FOREIGN KEY (order_id) REFERENCES orders (id) ON DELETE CASCADE)",
    "CREATE TABLE notes (id int PRIMARY KEY, order_id int, FOREIGN KEY (order_id)"
    " REFERENCES orders (id) ON DELETE SET NULL ON UPDATE CASCADE)",
    "CREATE TABLE gone (id int PRIMARY KEY)",
    "CREATE TRIGGER telling AFTER DELETE ON orders FOR EACH ROW INSERT INTO gone VALUES (old.id)",
    "INSERT INTO orders VALUES (1), (2), (3)",
    "INSERT INTO items VALUES (10, 1), (11, 1), (20, 2)",
    "INSERT INTO notes VALUES (10, 1), (30, 3)",
    "CREATE TABLE nudges (id int AUTO_INCREMENT PRIMARY KEY)",
)
TABLES = ("orders", "items", "notes", "gone")
MARKING: Mapping[str, Any] = {
    "silent_changes": {"cascades": "mark"},
    "verify": {"nudge": "INSERT INTO nudges VALUES (NULL)"},
}


def known(merging: Merging, config: ReplicationConfig, table: str) -> tuple[SilentChange, ...]:
    entry = merging.database.entry(table)
    return AtSource.of(Services(config).lake.state(entry.target), "").silent


def test_cascades_are_in_no_binlog_and_their_tables_are_refused_or_put_right(
    stack: LocalStack, stack_config: ReplicationConfig, spark: Session
) -> None:
    name = "cascading"
    dsn = new_mariadb_database(stack, name, *MADE)
    settings = record_settings(stack, "schemas")
    with replicated(stack, stack_config, name, dsn, debezium=settings, **MARKING) as database:
        merging = Merging(database, spark)
        merging.require_equal(*TABLES[:3])  # the last one has no topic yet
        database.execute("DELETE FROM orders WHERE id = 1")
        database.execute("UPDATE orders SET id = 33 WHERE id = 3")
        merging.merge(*TABLES)
        # No event of a row that the storage engine has changed; triggers' rows have theirs.
        assert database.differences("orders", "gone") == []
        assert {each["id"] for each in merging.rows("items")} == {10, 11, 20}
        assert {(n["id"], n["order_id"]) for n in merging.rows("notes")} == {(10, 1), (30, 3)}
        assert len(database.differences("items", "notes")) == 2
        (items,), (notes,) = (known(merging, database.config, each) for each in TABLES[1:3])
        assert f"those of {name}.orders (ON DELETE CASCADE)" in items.why
        assert "(ON DELETE SET NULL ON UPDATE CASCADE)" in notes.why
        services = Services(database.config)
        entry = database.entry("items")
        state = services.lake.state(entry.target)
        assert state is not None
        drift = newest_drift(services, entry, state)
        assert (drift.is_in_sync, drift.stops) == (False, False)
        assert [verified(database, spark, t, repair=True).repaired for t in TABLES[1:3]] == [2, 2]
        assert database.differences(*TABLES[:3]) == []
        assert known(merging, database.config, "items") == (items,), "it goes on"


def test_a_rule_that_is_added_stops_a_table_that_exists(
    stack: LocalStack, stack_config: ReplicationConfig, spark: Session
) -> None:
    name = "cascadelater"
    made = (
        MADE[0],
        "CREATE TABLE items (id int PRIMARY KEY, order_id int)",
        *MADE[5:7],
    )
    dsn = new_mariadb_database(stack, name, *made)
    settings = record_settings(stack, "schemas")
    with replicated(stack, stack_config, name, dsn, debezium=settings) as database:
        merging = Merging(database, spark)
        merging.require_equal("orders", "items")
        database.execute(
            "ALTER TABLE items ADD CONSTRAINT fk FOREIGN KEY (order_id) REFERENCES orders (id)"
            " ON DELETE CASCADE"
        )
        database.execute("DELETE FROM orders WHERE id = 1", "INSERT INTO items VALUES (21, 2)")
        merging.merge("orders")
        with pytest.raises(SilentChangeError, match=r"foreign key fk .*ON DELETE CASCADE"):
            merging.merge("items")
        database.execute("ALTER TABLE items DROP FOREIGN KEY fk")
        merging.merge("items")
        (left,) = known(merging, database.config, "items")
        assert not left.is_standing
        assert len(database.differences("items")) == 1, "what cascaded is still there"
