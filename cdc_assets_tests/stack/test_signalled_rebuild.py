"""`cdc-assets rebuild --from-snapshot --via signal` against real parts: killed, stopped, joined."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator

import pytest
from cdc_assets_devstack.stack import LocalStack

from cdc_assets.config import ReplicationConfig
from cdc_assets.lake import Lake
from cdc_assets.merge.statements import sql
from cdc_assets_tests.pipeline import Session
from cdc_assets_tests.stack.ledger import ledger
from cdc_assets_tests.stack.merging import records
from cdc_assets_tests.stack.replicated import (
    Replicated,
    new_database,
    new_mariadb_database,
    replicated,
)
from cdc_assets_tests.stack.signalled import READ_ONLY, Signals
from cdc_assets_tests.toy.profiles import in_soak
from cdc_assets_tests.waiting import until

pytestmark = [pytest.mark.stack, in_soak, pytest.mark.timeout(600)]

NAME = "rebuiltasked"
ROWS = 6_000
CHUNK = {"incremental.snapshot.chunk.size": "10"}
"""Small, so that a snapshot is not over before its rebuild is killed."""
REBUILD = ("rebuild", "ledger")
ASK = (*REBUILD, "--from-snapshot", "--via", "signal")


@pytest.fixture(scope="module")
def database(stack: LocalStack, stack_config: ReplicationConfig) -> Iterator[Replicated]:
    """A replicated ledger, whose connector can be signalled."""
    dsn = new_database(stack, NAME, *ledger(ROWS))
    debezium = {**Signals(stack, NAME).settings, **READ_ONLY, **CHUNK}
    verify = {"nudge": True, "wait_seconds": 120}
    with replicated(stack, stack_config, NAME, dsn, debezium=debezium, verify=verify) as database:
        database.wait_until_delivered()
        database.replicate()
        yield database


def test_it_is_asked_for_once_however_often_the_command_is_killed_and_is_whole(
    database: Replicated, spark: Session
) -> None:
    lake = sql.table(database.config.lake.catalog.name, database.entry("ledger").target)
    spark().sql(f"DELETE FROM {lake} WHERE id % 3 = 0")
    before = asked_for(database)
    process = database.start(*ASK)
    until(lambda: "was asked for a snapshot" in words_of(database), "it is asked for")
    process.send_signal(signal.SIGKILL)
    process.wait()
    database.execute(
        "DELETE FROM ledger WHERE id % 7 = 0",
        "UPDATE ledger SET n = -1, note = 'changed' WHERE id % 11 = 0",
        f"INSERT INTO ledger VALUES ({10 * ROWS}, 1, 'new')",
    )
    database.run(*REBUILD)
    assert asked_for(database) == before + 1, "it was asked for a second time"
    assert "swapped in" in words_of(database)
    database.wait_until_delivered()
    database.replicate()
    assert database.differences("ledger") == []
    state = Lake(database.config).state(database.entry("ledger").target)
    assert state is not None
    assert not [each for each in state.properties if "rebuild" in each]


def test_one_that_is_stopped_is_asked_for_anew(database: Replicated) -> None:
    before, said = asked_for(database), len(words_of(database))
    process = database.start(*ASK)
    until(lambda: asked_for(database) == before + 1, "it is asked for")
    Signals(database.stack, NAME).stop("no more", "ledger")
    assert process.wait(120) == 1
    assert "a signal has stopped the snapshot before it was done" in words_of(database)[said:]
    database.run(*ASK)
    assert asked_for(database) == before + 2
    assert database.differences("ledger") == []


def test_one_that_others_have_asked_for_does_not_do(database: Replicated) -> None:
    before = read_times(database)
    Signals(database.stack, NAME).snapshot("theirs", "ledger")
    database.run(*ASK)
    assert read_times(database) == before + 2
    assert database.differences("ledger") == []


@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
def test_under_load_it_is_what_its_source_is(
    stack_parts: Callable[..., LocalStack], stack_config: ReplicationConfig, kind: str
) -> None:
    stack, name, rows = stack_parts(), f"{NAME}{kind}", 2_000
    nudge: object = True
    if kind == "postgres":
        dsn = new_database(stack, name, *ledger(rows), "ALTER TABLE ledger REPLICA IDENTITY FULL")
    else:
        made = "CREATE TABLE ledger (id int PRIMARY KEY, n int NOT NULL, note text)"
        fill = f"INSERT INTO ledger SELECT seq, seq, concat('row ', seq) FROM seq_1_to_{rows}"
        dsn = new_mariadb_database(stack, name, made, fill)
        nudge = "INSERT INTO elsewhere.nudges VALUES (current_timestamp(6))"
    debezium = {**Signals(stack, name).settings, **READ_ONLY, **CHUNK}
    verify = {"nudge": nudge, "wait_seconds": 120}
    with replicated(stack, stack_config, name, dsn, debezium=debezium, verify=verify) as database:
        database.wait_until_delivered()
        database.replicate()
        process, n = database.start(*ASK, "--no-verify"), 0
        while process.poll() is None:
            n += 1
            database.execute(
                f"UPDATE ledger SET n = n + 1 WHERE id % 97 = {n % 97}",
                f"DELETE FROM ledger WHERE id % 97 = {n % 89} AND n % 5 = 0",
                f"INSERT INTO ledger VALUES ({10 * rows + n}, 0, 'new')",
            )
        assert process.wait() == 0, database.last_words()
        database.wait_until_delivered()
        database.replicate()
        assert database.differences("ledger") == []


def asked_for(database: Replicated) -> int:
    """How many snapshots were asked for."""
    sent = Signals(database.stack, NAME).sent(database)
    return sum(each["type"] == "execute-snapshot" for each in sent)


def read_times(database: Replicated) -> int:
    """How often the connector has said that it has read the table."""
    told = records(database.config, Signals(database.stack, NAME).notifications)
    return sum((each.value or {}).get("type") == "TABLE_SCAN_COMPLETED" for each in told)


def words_of(database: Replicated) -> str:
    """All that the commands have printed."""
    return database.log.read_text(errors="replace")
