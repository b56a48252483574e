"""`cdc-assets rebuild --from-source`: PostgreSQL's rows, with Debezium's changes over them."""

from __future__ import annotations

import json
import random
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import pytest
from confluent_kafka import OFFSET_END, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import functions as F

from cdc_assets.config import ReplicationConfig
from cdc_assets.devstack.stack import LocalStack
from cdc_assets.effects import Hook, Moment, hooked
from cdc_assets.errors import CdcError, LostRangeError, RejectedRecordError
from cdc_assets.lake import Lake
from cdc_assets.merge.fold import read_rows
from cdc_assets.merge.replicate import Replicator
from cdc_assets.orchestration.rebuilding import Outcome, Wish, run_rebuild
from cdc_assets_tests.faults import Anywhere, Death, How
from cdc_assets_tests.lake_view import read_rows as rows_of
from cdc_assets_tests.pipeline import Session, hours_since
from cdc_assets_tests.stack.corrupting import corrupt
from cdc_assets_tests.stack.ledger import ledger, writing
from cdc_assets_tests.stack.replicated import (
    NOW,
    Replicated,
    new_database,
    replicated,
    write_config,
)
from cdc_assets_tests.toy.profiles import in_soak
from cdc_assets_tests.waiting import until

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900)]

VERIFY = {"nudge": True, "wait_seconds": 120}
ROWS = 1_200
CHANGES = 2
SIZES = {"chunk_rows": 200, "parallel": 2}
WHILE_NOBODY_MERGES = (
    "UPDATE ledger SET n = -1 WHERE id IN (3, 13, 23, 33, 43)",
    "DELETE FROM ledger WHERE id IN (3, 13)",
    "INSERT INTO ledger VALUES (13, 1, 'came back')",
    "UPDATE ledger SET id = 100023 WHERE id = 23",
    "INSERT INTO ledger VALUES (23, 2, repeat('another one', 500))",
    "DELETE FROM ledger WHERE id = 53",
    "UPDATE ledger SET id = 53 WHERE id = 63",
    "UPDATE ledger SET id = 100033 WHERE id = 33",
    "UPDATE ledger SET n = -2 WHERE id = 100033",
    "DELETE FROM ledger WHERE id = 100033",
)
"""Large values are left alone by changes of rows that are gone, or of another key, once it is read.

A statement is a transaction."""


@contextmanager
def world(
    stack: LocalStack, base: ReplicationConfig, name: str, *, batches: int = 40
) -> Iterator[Replicated]:
    """A table that was merged completely; from then on in batches of so many records."""
    dsn = new_database(stack, name, *ledger(ROWS))
    said = {"verify": VERIFY, "resnapshot": SIZES}
    with replicated(stack, base, name, dsn, **said) as database:
        database.wait_until_delivered()
        database.replicate()
        yield replace(database, config=in_batches(base, name, of=batches))


def in_batches(base: ReplicationConfig, name: str, of: int) -> ReplicationConfig:
    """The configuration with batches of so many records."""
    said = {"verify": VERIFY, "resnapshot": SIZES}
    return write_config(base, name, **said, batch={"max_records": of})


def change(database: Replicated, statements: tuple[str, ...]) -> None:
    for statement in statements:
        database.execute(statement)


def build(database: Replicated, **wishes: bool) -> Outcome:
    name = str(database.entry("ledger").table)
    return run_rebuild(database.config, name, Wish(**wishes), print)


def spoil(database: Replicated, spark: Session) -> list[dict[str, object]]:
    """Corrupt the lake's rows; what they are then."""
    keys = random.Random(7).sample(range(100, ROWS, 2), 60)
    corrupt(database, spark, "ledger", keys, new=10 * ROWS, seed=7)
    return lake_rows(database)


def lake_rows(database: Replicated) -> list[dict[str, object]]:
    rows = rows_of(database.config, database.entry("ledger").target)
    return sorted(rows, key=lambda row: json.dumps(row, default=str, sort_keys=True))


def lose_the_log(database: Replicated) -> None:
    """As retention does: all that the topic holds so far."""
    admin = AdminClient({"bootstrap.servers": database.config.kafka.bootstrap_servers})
    topic = database.entry("ledger").topic
    partitions = admin.list_topics(topic, timeout=30).topics[topic].partitions
    places = [TopicPartition(topic, each, OFFSET_END) for each in partitions]
    for future in admin.delete_records(places).values():
        future.result(30)


@in_soak
def test_an_update_of_a_row_that_was_gone_before_it_was_read_is_passed_over(
    stack: LocalStack,
    stack_config: ReplicationConfig,
    spark: Session,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nor is a value taken from another row that has the key by then."""
    with world(stack, stack_config, "readbeside", batches=8) as database:
        spoil(database, spark)
        change(database, WHILE_NOBODY_MERGES)
        database.wait_until_delivered()
        assert build(database, from_source=True, dry_run=True).is_done
        with monkeypatch.context() as patch:
            patch.setattr(read_rows, "is_below", lambda _: F.lit(False))
            with pytest.raises(RejectedRecordError, match="an update without its unchanged"):
                build(database, from_source=True)
        done = build(database, verify=False)
        assert done.swapped
        assert (done.rows, done.waves) == (ROWS - 2, 3)
        database.wait_until_delivered()
        merge(database, spark)
        assert database.differences("ledger") == []
        replicator = Replicator(in_batches(stack_config, "readbeside", of=10_000), spark)
        list(replicator.replay(database.entry("ledger"), hours_since(NOW), run_id="replay"))
        assert database.differences("ledger") == []


def test_a_log_that_was_lost_is_not_needed_however_often_it_is_killed(
    stack: LocalStack, stack_config: ReplicationConfig, spark: Session
) -> None:
    with world(stack, stack_config, "readlost") as database:
        change(database, WHILE_NOBODY_MERGES[:4])
        database.wait_until_delivered()
        lose_the_log(database)
        change(database, WHILE_NOBODY_MERGES[4:])
        database.wait_until_delivered()
        with pytest.raises(LostRangeError, match=r"rebuild readlost\.public\.ledger --from-source"):
            merge(database, spark)
        kills_and_changes(database, spark, [Anywhere(place=n, how=How.DEATH) for n in (4, 12)])


@in_soak
@pytest.mark.parametrize("how", [How.BEFORE, How.DEATH])
def test_killed_at_any_effect_it_goes_on(
    stack: LocalStack, stack_config: ReplicationConfig, spark: Session, how: How
) -> None:
    """Each try gets one effect further than the one before, until one is done."""
    with world(stack, stack_config, f"readkilled{how.name.lower()}") as database:
        change(database, WHILE_NOBODY_MERGES)
        kills_and_changes(database, spark, [Anywhere(place=n, how=how) for n in range(1, 500)])


def merge(database: Replicated, spark: Session) -> None:
    """What waits, in this process."""
    replicator, entry = Replicator(database.config, spark), database.entry("ledger")
    list(replicator.drain(entry, window=None, run_id="test", budget_seconds=120))


def kills_and_changes(database: Replicated, spark: Session, kills: Sequence[Anywhere]) -> None:
    """Let one try after the other fail, with changes at each kind of effect, until one is done.

    Readers see the old rows until all of the new ones are there.
    """
    before, rng, seen = spoil(database, spark), random.Random(3), Counter[str]()
    for dies in [*kills, Anywhere(place=0)]:
        try:
            with hooked(changing(database, rng, seen, dies)):
                done = build(database, from_source=True, verify=False)
        except (CdcError, Death):
            assert dies.happened
        else:
            break
        state = Lake(database.config).state(database.entry("ledger").target)
        assert state is not None
        assert state.published is not None
        if not state.published.carried.generation:
            assert lake_rows(database) == before
    else:
        pytest.fail("none of the tries was done")
    assert done.is_done
    database.wait_until_delivered()
    merge(database, spark)
    assert database.differences("ledger") == []


def changing(database: Replicated, rng: random.Random, seen: Counter[str], dies: Anywhere) -> Hook:
    """A few changes at each kind of effect; whatever merges them must catch up."""

    def hook(point: str, moment: Moment) -> None:
        if moment is Moment.AFTER and seen[point] < CHANGES:
            seen[point] += 1
            change(database, (random_change(rng),))
        dies(point, moment)

    return hook


def random_change(rng: random.Random) -> str:
    key = rng.randrange(ROWS) // 10 * 10 + 3
    free = f"NOT EXISTS (SELECT FROM ledger WHERE id = {key + 10_000})"
    return rng.choice(
        (
            f"UPDATE ledger SET n = n + 1 WHERE id = {key}",
            f"UPDATE ledger SET n = n + 1, note = repeat('new {key} ', 500) WHERE id = {key}",
            f"DELETE FROM ledger WHERE id = {key}",
            f"INSERT INTO ledger VALUES ({key}, 0, repeat('{key} ', 500)) ON CONFLICT DO NOTHING",
            f"UPDATE ledger SET id = id + 10000 WHERE id = {key} AND {free}",
        )
    )


@in_soak
def test_killed_by_the_system_under_load_the_command_goes_on(
    stack: LocalStack, stack_config: ReplicationConfig, spark: Session
) -> None:
    with world(stack, stack_config, "readload") as database:
        spoil(database, spark)
        with writing(database.dsn, ROWS):
            entry, lake = database.entry("ledger"), Lake(database.config)
            beside = replace(entry.target, name=f"{entry.target.name}__rebuild1")

            def has_begun() -> bool:
                state = lake.state(beside)
                published = state.published if state else None
                return bool(published and published.carried.beside)

            process = database.start("rebuild", "ledger", "--from-source")
            until(has_begun, within_seconds=120)
            process.send_signal(signal.SIGKILL)
            process.wait()
            database.run("rebuild", "ledger", "--json", "--no-verify")
        said = json.loads(database.last_words()[database.last_words().rindex("{\n") :])
        assert said["swapped"]
        assert said["rows"] > ROWS // 2
        database.wait_until_delivered()
        database.replicate()
        assert database.differences("ledger") == [], database.last_words()
