"""`initial: read`: a new table's rows come from PostgreSQL, its changes from Debezium."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from itertools import count

import pytest
from cdc_assets_devstack.stack import LocalStack

from cdc_assets.changes.names import TableName
from cdc_assets.config import ReplicationConfig
from cdc_assets.effects import Moment, hooked
from cdc_assets.errors import CdcError, LostRangeError, TerminalError, TransientError
from cdc_assets.operate.discovery import discover
from cdc_assets.operate.services import Services
from cdc_assets_tests.faults import Anywhere, Death, How, Injected
from cdc_assets_tests.lake_view import read_rows
from cdc_assets_tests.pipeline import Session
from cdc_assets_tests.stack.first_reads import read, shadow, target, unread
from cdc_assets_tests.stack.ledger import ledger
from cdc_assets_tests.stack.read_beside import (
    POSTGRES,
    ROWS,
    WHILE_NOBODY_MERGES,
    change,
    lose_the_log,
    merge,
)
from cdc_assets_tests.stack.replicated import Replicated, new_database
from cdc_assets_tests.toy.profiles import in_soak, is_soak

pytestmark = [pytest.mark.stack, pytest.mark.timeout(1200)]

ODD = 'Odd "Näme'
QUOTED = '"Odd ""Näme"'
TABLES = (
    "CREATE TABLE empty (id int PRIMARY KEY, n int)",
    f'CREATE TABLE {QUOTED} ("der key" text PRIMARY KEY, "a.b" int)',
    f"INSERT INTO {QUOTED} VALUES ('a', 1), ('ü', NULL)",
    "CREATE TABLE pairs (a uuid, b int, at timestamptz, PRIMARY KEY (a, b))",
    "INSERT INTO pairs SELECT gen_random_uuid(), n, now() FROM generate_series(1, 700) AS n",
    "CREATE TABLE keyless (n int)",
    "INSERT INTO keyless VALUES (1), (1)",
    "CREATE SCHEMA apart",
    "CREATE TABLE apart.not_captured (id int PRIMARY KEY)",
)
SHOP = replace(POSTGRES, make=lambda stack, name: new_database(stack, name, *ledger(ROWS), *TABLES))
NAMES = ("ledger", "empty", "pairs")
FROM_LOG = {"public.keyless": {"initial": "log"}}


def test_tables_are_read_without_their_log_and_continue_with_it(
    stack: LocalStack, stack_config: ReplicationConfig
) -> None:
    """Also those without changes, whose topics do not exist, and those without rows."""
    with unread(stack, stack_config, "firstread", SHOP, tables=FROM_LOG) as database:
        database.replicate()
        assert database.differences(*NAMES) == []
        assert odd_rows(database) == {("a", 1), ("ü", None)}
        assert all(shadow(database, each) is None for each in NAMES)
        state = target(database)
        assert state is not None
        assert state.published is not None
        assert state.published.topic_id == ""
        said = status(database)
        assert {each["state"] for each in said.values()} == {"CURRENT"}
        assert set(said) == {f"firstread.public.{each}" for each in (*NAMES, ODD)}
        assert all(each["initial"] is None for each in said.values())

        change(database, WHILE_NOBODY_MERGES)
        database.execute("INSERT INTO empty VALUES (1, 1)", "INSERT INTO keyless VALUES (2)")
        database.execute("UPDATE pairs SET at = NULL WHERE b < 100")
        database.execute(f'DELETE FROM {QUOTED} WHERE "a.b" = 1')
        database.wait_until_delivered()
        database.replicate()
        assert database.differences(*NAMES) == []
        assert odd_rows(database) == {("ü", None)}
        publishes = database.publishes("ledger")
        assert publishes[-1].topic_id
        assert publishes[-1].carried.partitions == 4


def test_killed_it_goes_on_and_readers_see_no_part_of_the_table(
    stack: LocalStack, stack_config: ReplicationConfig, spark: Session
) -> None:
    """Each try gets further than the one before, while rows change at each kind of effect."""
    places = count(1) if is_soak() else iter((6, 17, 30))
    with unread(stack, stack_config, "firstkilled", POSTGRES) as database:
        rng, seen = random.Random(5), Counter[str]()
        while True:
            dies = Anywhere(place=next(places, 0), how=How.DEATH)
            try:
                with hooked(lambda *at, dies=dies: changing(database, rng, seen, dies, *at)):
                    read(database, spark)
            except (CdcError, Death, Injected):
                assert dies.happened
            else:
                break
            state = target(database)
            assert state is None or shadow(database) is None
        database.wait_until_delivered()
        merge(database, spark)
        assert database.differences("ledger") == []


def test_what_the_log_holds_from_before_or_has_lost_makes_no_difference(
    stack: LocalStack, stack_config: ReplicationConfig, spark: Session
) -> None:
    """Deletes before the read, a snapshot, a log that has expired, and columns added meanwhile."""
    with unread(stack, stack_config, "firstlog", POSTGRES, debezium={}) as database:
        change(database, WHILE_NOBODY_MERGES[:4])
        database.wait_until_delivered()
        lose_the_log(database)
        change(database, WHILE_NOBODY_MERGES[4:])
        database.wait_until_delivered()
        meanwhile = [
            "ALTER TABLE ledger ADD more int DEFAULT 5",
            "UPDATE ledger SET more = 6 WHERE id IN (0, 1103)",
            "DELETE FROM ledger WHERE id IN (7, 1107)",
        ]

        def hook(point: str, moment: Moment) -> None:
            if (point, moment) == ("source: read a wave", Moment.AFTER) and meanwhile:
                change(database, [meanwhile.pop(0)])

        with hooked(hook):
            read(database, spark)
        assert not meanwhile
        database.wait_until_delivered()
        merge(database, spark)
        assert database.differences("ledger") == []
        state = target(database)
        assert state is not None
        assert state.published is not None
        assert state.published.carried.shadow is None


def test_what_cannot_be_read_exactly_is_refused_by_name(
    stack: LocalStack, stack_config: ReplicationConfig, spark: Session
) -> None:
    with unread(stack, stack_config, "firstrefused", SHOP) as database:
        found = discover(Services(database.config)).registry.tables
        assert TableName(database.name, "apart", "not_captured") not in found
        with pytest.raises(TerminalError, match=r"the table has no key.*initial: log"):
            read(database, spark, "keyless")
        apart = replace(
            database.entry("not_captured"),
            table=TableName(database.name, "apart", "not_captured"),
            topic="firstrefused.apart.not_captured",
        )
        with pytest.raises(TerminalError, match="its connector leaves the table out"):
            read(database, spark, entry=apart)
        begun(database, spark)
        database.execute("ALTER TABLE ledger RENAME note TO remark")
        with pytest.raises(TerminalError, match=r"has no note any more.*reset --table"):
            read(database, spark)
        database.execute("ALTER TABLE ledger RENAME remark TO note")
        change(database, WHILE_NOBODY_MERGES)
        database.wait_until_delivered()
        lose_the_log(database)
        with pytest.raises(LostRangeError, match=r"retention.*reset --table"):
            read(database, spark)
        database.run("reset", "--table", "firstrefused.public.ledger")
        assert shadow(database) is None
        read(database, spark)
        database.wait_until_delivered()
        merge(database, spark)
        assert database.differences("ledger") == []


@in_soak
def test_nothing_is_read_before_the_connector_streams(
    stack: LocalStack, stack_config: ReplicationConfig, spark: Session
) -> None:
    """Else changes between the first wave and the slot would be in neither."""
    patient = replace(POSTGRES, verify={**POSTGRES.verify, "wait_seconds": 5})
    with unread(stack, stack_config, "firstearly", patient) as database:
        database.wait_until_delivered()
        stack.connect.unregister(database.name)
        with pytest.raises((TransientError, CdcError)):
            read(database, spark)
        assert shadow(database) is None


def begun(database: Replicated, spark: Session) -> None:
    """The first wave is read, and the process dies."""

    def hook(point: str, moment: Moment) -> None:
        if (point, moment) == ("source: read a wave", Moment.BEFORE) and shadow(
            database
        ) is not None:
            state = shadow(database)
            progress = state.published.carried.shadow if state and state.published else None
            if progress is not None and progress.waves:
                raise Death(point)

    with hooked(hook), pytest.raises(Death):
        read(database, spark)


def changing(
    database: Replicated,
    rng: random.Random,
    seen: Counter[str],
    dies: Anywhere,
    point: str,
    moment: Moment,
) -> None:
    """A few changes at each kind of effect, then perhaps the end."""
    if moment is Moment.AFTER and seen[point] < 2:
        seen[point] += 1
        key = rng.randrange(ROWS) // 10 * 10 + 3
        change(database, (POSTGRES.random_change(rng, key, key + 10_000),))
    dies(point, moment)


def odd_rows(database: Replicated) -> set[tuple[object, object]]:
    source = database.config.source(database.name)
    name = source.lake_name(TableName(database.name, "public", ODD))
    return {(row["der key"], row["a.b"]) for row in read_rows(database.config, name)}


def status(database: Replicated) -> dict[str, dict[str, object]]:
    """What the command says of each table that has been merged or read."""
    command = [sys.executable, "-m", "cdc_assets.cli", "status", "--json"]
    done = subprocess.run(command, env=database.env, capture_output=True, text=True, check=False)
    tables = json.loads(done.stdout)["tables"]
    return {each["table"]: each for each in tables if each["table"].split(".")[-1] != "keyless"}
