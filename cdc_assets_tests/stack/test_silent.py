"""Partitions and rewritten rows of a real PostgreSQL: seen, refused or marked, and put right."""

from __future__ import annotations

import pytest
from cdc_assets_devstack.stack import LocalStack

from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import SilentChangeError
from cdc_assets.lake.at_source import AtSource
from cdc_assets.operate.services import Services
from cdc_assets.operations.accept_restart.desk import RestartDesk
from cdc_assets.orchestration.verify_schedules import doubted_tables
from cdc_assets.schema.silent import SilentChange, SilentKind
from cdc_assets_tests.operated import session_of
from cdc_assets_tests.pipeline import Session
from cdc_assets_tests.stack.merging import Merging
from cdc_assets_tests.stack.replicated import new_database, record_settings, replicated
from cdc_assets_tests.stack.test_verify import verified

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900)]

MADE = (
    "CREATE TYPE status AS ENUM ('new', 'old')",
    "CREATE TABLE prices (id int PRIMARY KEY, price int, code text, state status)",
    "INSERT INTO prices VALUES (1, 19, 'ABC', 'new'), (2, 20, 'DEF', 'old')",
    "CREATE TABLE events (id int, day int, PRIMARY KEY (id, day)) PARTITION BY RANGE (day)",
    "CREATE TABLE p0 PARTITION OF events FOR VALUES FROM (0) TO (10)",
    "CREATE TABLE p1 PARTITION OF events FOR VALUES FROM (10) TO (20)",
    "CREATE TABLE p2 PARTITION OF events FOR VALUES FROM (20) TO (30)",
    "INSERT INTO events VALUES (1, 1), (11, 11), (21, 21)",
    "CREATE TABLE filled (LIKE events INCLUDING ALL)",
    "INSERT INTO filled VALUES (31, 31)",
    "CREATE SCHEMA elsewhere",
    "CREATE TABLE elsewhere.nudges (id int PRIMARY KEY)",
)
NUDGE = "INSERT INTO elsewhere.nudges SELECT coalesce(max(id), 0) + 1 FROM elsewhere.nudges"


class World(Merging):
    """A database whose silent changes a test looks at."""

    def known(self, table: str) -> tuple[SilentChange, ...]:
        entry, config = self.database.entry(table), self.database.config
        return AtSource.of(Services(config).lake.state(entry.target), "").silent

    def accept(self, table: str) -> None:
        entry = self.database.entry(table)
        desk = RestartDesk(session_of(self.database.config, entry, self.spark))
        desk.accept_silent(desk.silent())

    def is_next(self, table: str) -> bool:
        """Whether a schedule compares it next, though nothing of it was merged since."""
        entry = self.database.entry(table)
        return entry in doubted_tables(Services(self.database.config), [entry])


def test_what_no_event_tells_is_seen_in_the_catalog_and_put_right(
    stack: LocalStack, stack_config: ReplicationConfig, spark: Session
) -> None:
    name = "unheard"
    publication = f"CREATE PUBLICATION {name} FOR TABLE prices, events, elsewhere.nudges"
    root = f"{publication} WITH (publish_via_partition_root = true)"
    dsn = new_database(stack, name, *MADE, root)
    settings = {
        **record_settings(stack, "schemas"),
        "publication.name": name,
        "publication.autocreate.mode": "disabled",
        "table.include.list": "public.prices,public.events,elsewhere.nudges",
    }
    with replicated(
        stack, stack_config, name, dsn, debezium=settings, verify={"nudge": NUDGE}
    ) as database:
        world = World(database, spark)
        world.require_equal("prices", "events")
        _prices(world, spark)
        _partitions(world, spark)


def _prices(world: World, spark: Session) -> None:
    database = world.database
    database.execute(
        "ALTER TABLE prices ALTER price TYPE bigint USING price * 100",
        "ALTER TABLE prices ALTER code TYPE text USING lower(code)",
        "ALTER TYPE status RENAME VALUE 'new' TO 'open'",
    )
    assert world.is_next("prices"), "before a record comes"
    database.execute("INSERT INTO prices VALUES (3, 3, 'ghi', 'open')")
    world.merge("prices")
    assert {row["id"]: row["price"] for row in world.rows("prices")} == {1: 19, 2: 20, 3: 3}
    assert [each.kind for each in world.known("prices")] == [SilentKind.REWRITTEN] * 2
    assert not verified(database, spark, "prices").is_proven
    assert len(world.known("prices")) == 2, "a comparison that finds differences ends no doubt"
    assert verified(database, spark, "prices", repair=True).repaired == 2
    assert database.differences("prices") == []
    assert world.known("prices") == ()
    assert not world.is_next("prices")
    database.execute("TRUNCATE prices", "INSERT INTO prices VALUES (9, 9, 'x', 'old')")
    world.merge("prices")
    database.execute("INSERT INTO prices VALUES (10, 9, 'x', 'old')")
    world.require_equal("prices")
    assert world.known("prices") == (), "a truncate that was merged explains new files"


def _partitions(world: World, spark: Session) -> None:
    database = world.database
    database.execute(
        "ALTER TABLE events DETACH PARTITION p0",
        "CREATE TABLE p4 PARTITION OF events FOR VALUES FROM (40) TO (50)",
        "INSERT INTO events VALUES (41, 41)",
    )
    with pytest.raises(SilentChangeError, match=r"partition public\.p0 was detached or dropped"):
        world.merge("events")
    database.execute("ALTER TABLE events ATTACH PARTITION p0 FOR VALUES FROM (0) TO (10)")
    with pytest.raises(SilentChangeError, match="was detached"):
        world.merge("events")
    database.execute("ALTER TABLE events DETACH PARTITION p0")
    world.accept("events")
    with pytest.raises(SilentChangeError, match="was detached"):
        world.merge("events")  # it happened once more
    world.accept("events")
    world.merge("events")
    database.execute("TRUNCATE p1", "INSERT INTO events VALUES (12, 12)")
    database.execute("ALTER TABLE events ATTACH PARTITION filled FOR VALUES FROM (30) TO (40)")
    with pytest.raises(SilentChangeError, match="filled was attached with rows"):
        world.merge("events")
    world.accept("events")
    world.merge("events")
    rows = {row["id"] for row in world.rows("events")}
    assert rows == {1, 11, 12, 21, 41}, "detached and truncated rows are there, attached ones not"
    assert verified(database, spark, "events", repair=True).repaired == 3
    assert database.differences("events") == []
    assert world.known("events") == ()
