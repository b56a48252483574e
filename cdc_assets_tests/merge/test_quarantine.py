"""Out of quarantine again: listed, put right, merged, and the promise is green."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from cdc_assets import desired
from cdc_assets.desired import NOTHING, Directive
from cdc_assets.effects import Moment, hooked
from cdc_assets.errors import RejectedRecordError
from cdc_assets.operate.quarantine import QuarantineScope, list_quarantined
from cdc_assets.operate.services import Services
from cdc_assets.operate.status import read_status
from cdc_assets.operate.survey import survey
from cdc_assets.operations.quarantine import REPLAY_QUARANTINE, QuarantineReplayOptions
from cdc_assets.operations.running import Runner
from cdc_assets.operations.session import Host
from cdc_assets.orchestration.checks import verdicts
from cdc_assets.orchestration.keys import CHECK_SLO
from cdc_assets.registry import RegistryFile
from cdc_assets_tests.command import run_command
from cdc_assets_tests.merge.events import PLACEHOLDER, event
from cdc_assets_tests.merge.one_table import TABLE, Make
from cdc_assets_tests.pipeline import Message, Pipeline
from cdc_assets_tests.quarantine_world import QuarantineWorld
from cdc_assets_tests.toy.profiles import in_soak
from cdc_assets_tests.world import registry_of

BAD = "canary-9d2"
CLOCK = {"begun_ms": 0}


@pytest.fixture(autouse=True)
def begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """The source commits from now on, so that all is merged in time."""
    monkeypatch.setitem(CLOCK, "begun_ms", int(datetime.now(UTC).timestamp() * 1000))


def fresh(message: Message, lsn: int) -> Message:
    """With the time that belongs to its place in the source: one that comes late is older."""
    assert message.value is not None
    value = json.loads(message.value)
    value["source"]["ts_ms"] = CLOCK["begun_ms"] + lsn
    return replace(message, value=json.dumps(value).encode())


def change(op: str, lsn: int, **row: Any) -> Message:
    return fresh(event(op, row, lsn, commit=lsn - 5), lsn)


@dataclass
class User:
    """Somebody with a configuration and a shell."""

    pipeline: Pipeline

    def __post_init__(self) -> None:
        entry = self.pipeline.entry(TABLE)
        RegistryFile(self.pipeline.config.registry).add([entry])
        self.table = str(entry.table)

    def replays(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        made = self.pipeline
        done = run_command(made.folder, "quarantine", "replay", *arguments, config=made.config.path)
        assert "Traceback" not in done.stderr
        assert BAD not in done.stdout + done.stderr
        return done

    @property
    def services(self) -> Services:
        return Services(self.pipeline.config)

    def offsets(self) -> dict[int, str]:
        """Offsets of partition 0 in quarantine, and the reasons."""
        listing = list_quarantined(self.services, QuarantineScope(source=self.pipeline.prefix), 100)
        return {each.coordinate.offset: each.reason for each in listing.records}

    def quarantined(self) -> int:
        (table,) = read_status(self.services, [self.pipeline.entry(TABLE)]).tables
        return table.quarantined

    def slo_is_green(self) -> bool:
        services = self.services
        seen = survey(services, [self.pipeline.entry(TABLE)]).complete()
        (slo,) = (each for each in verdicts(services, seen, {}) if each.check == CHECK_SLO)
        return slo.passed


def start(pipeline: Make, *messages: Message, **source: object) -> User:
    made = pipeline(bad_records="quarantine", **source)
    made.create_topic(TABLE)
    made.produce(TABLE, messages)
    made.merge(TABLE)
    return User(made)


@in_soak
@pytest.mark.stack
def test_a_record_that_kafka_has_lost_is_merged_once_the_configuration_is_right(
    pipeline: Make,
) -> None:
    long = "b" * 6_000
    changes = [change("c", 10 * n, id=n, name=long if n == 2 else "a") for n in (1, 2, 3)]
    user = start(pipeline, *changes, batch={"max_record_bytes": 5_000})
    made = user.pipeline
    assert set(made.by_key(TABLE)) == {1, 3}
    assert set(user.offsets()) == {1}
    assert user.quarantined() == 1
    assert not user.slo_is_green()

    for lost in made.admin.delete_records([TopicPartition(made.topic(TABLE), 0, 2)]).values():
        lost.result(30)
    right = User(replace(made, source={**made.source, "batch": {"max_record_bytes": 10_000}}))
    done = right.replays("--table", right.table)
    assert done.returncode == 0, done.stderr
    assert f"{right.table}: 1 merged, 0 overtaken" in done.stdout
    assert right.pipeline.by_key(TABLE)[2] == {"id": 2, "name": long}
    assert right.offsets() == {}
    assert right.quarantined() == 0
    assert right.slo_is_green()


@pytest.mark.stack
def test_what_is_merged_or_overtaken_leaves_and_the_rest_stays_with_its_reason(
    pipeline: Make,
) -> None:
    user = start(
        pipeline,
        change("c", 10, id=1, name="a", n=1),
        change("u", 20, id=2, name=PLACEHOLDER, n=2),  # no row to complete it
        change("u", 21, id=3, name=PLACEHOLDER, n=3),
        Message(b'{"id":4}', f"{BAD} is not JSON".encode()),
    )
    made = user.pipeline
    assert set(user.offsets()) == {1, 2, 3}
    before = user.offsets()
    made.produce(TABLE, [change("c", 15, id=2, name="late", n=0)])
    made.produce(TABLE, [change("c", 40, id=3, name="newer", n=9)])
    made.merge(TABLE)
    assert user.quarantined() == 3

    done = user.replays("--table", TABLE)
    assert done.returncode == 1
    assert "1 merged, 0 overtaken by newer changes, 2 rejected again" in done.stdout
    assert f"partition=0 offset=3: {before[3]}" in done.stdout
    assert "columns of it unchanged" in user.offsets()[2], "the new reason is kept"

    done = user.replays("--table", TABLE, "--accept-overtaken")
    assert done.returncode == 1
    assert "0 merged, 1 overtaken by newer changes, 1 rejected again" in done.stdout
    assert made.by_key(TABLE) == {
        1: {"id": 1, "name": "a", "n": 1},
        2: {"id": 2, "name": "late", "n": 2},
        3: {"id": 3, "name": "newer", "n": 9},
    }
    assert user.offsets() == {3: before[3]}
    assert user.quarantined() == 1
    assert not user.slo_is_green()


@in_soak
@pytest.mark.stack
def test_whoever_merges_a_busy_table_waits_for_what_is_replayed(pipeline: Make) -> None:
    """Else a table that is published all the time never lets it come through."""
    lacking = change("u", 20, id=2, name=PLACEHOLDER, n=2)
    user = start(pipeline, change("c", 10, id=1, name="a", n=1), lacking)
    made = user.pipeline
    made.produce(TABLE, [change("c", 15, id=2, name="late", n=0)])
    made.merge(TABLE)
    book, table = user.services.desired, made.entry(TABLE).table
    waited = list[bool]()

    def others(point: str, moment: Moment) -> None:
        if point != "spark: publish rows" or moment is not Moment.BEFORE:
            return
        waited.append(book.of(table).yields is not None)
        if not waited[-1]:
            with hooked(lambda *_: None):
                made.produce(TABLE, [change("u", 100 + len(waited), id=1, name="b", n=1)])
                made.merge(TABLE)

    with hooked(others):
        options = QuarantineReplayOptions(table=user.table)
        host = Host("a-run", made.spark)
        done = Runner(user.services, host, lambda _: None).run(REPLAY_QUARANTINE, options)
    assert not done.is_bad
    assert waited == [True]
    assert made.by_key(TABLE)[2] == {"id": 2, "name": "late", "n": 2}
    assert book.of(table) == NOTHING


@in_soak
@pytest.mark.stack
def test_only_the_records_that_are_named_are_replayed(pipeline: Make) -> None:
    user = start(
        pipeline,
        change("c", 10, id=1, name="a", n=1),
        change("u", 20, id=2, name=PLACEHOLDER, n=2),
        change("u", 21, id=3, name=PLACEHOLDER, n=3),
    )
    made = user.pipeline
    created = [change("c", 15 + n, id=n, name="late", n=0) for n in (2, 3)]
    made.produce(TABLE, created)
    made.merge(TABLE)

    done = user.replays("--table", TABLE, "--offset", "0:2", "--offset", "0:77")
    assert done.returncode == 0, done.stderr
    assert "1 merged" in done.stdout
    assert "offset=77: not in quarantine" in done.stdout
    assert {key: row["n"] for key, row in made.by_key(TABLE).items()} == {1: 1, 2: 0, 3: 3}
    assert set(user.offsets()) == {1}
    assert user.quarantined() == 1


@in_soak
@pytest.mark.stack
def test_a_replay_moves_no_offsets_and_the_table_goes_on_after_it(pipeline: Make) -> None:
    user = start(
        pipeline,
        change("c", 10, id=1, name="a", n=1),
        change("u", 20, id=2, name=PLACEHOLDER, n=2),
    )
    made = user.pipeline
    made.produce(TABLE, [change("c", 15, id=2, name="late", n=0)])
    made.merge(TABLE)
    made.produce(TABLE, [change("u", 50, id=1, name="unread", n=5)])

    assert user.replays().returncode == 0
    state = made.lake.state(made.entry(TABLE).target)
    assert state is not None
    assert state.published is not None
    assert state.published.offsets.as_dict() == {0: 3}
    assert made.by_key(TABLE)[1]["name"] == "a"
    made.merge(TABLE)
    assert made.by_key(TABLE)[1]["name"] == "unread"
    assert made.by_key(TABLE)[2] == {"id": 2, "name": "late", "n": 2}


@in_soak
@pytest.mark.stack
def test_a_table_stops_when_more_lies_there_than_the_configuration_allows(pipeline: Make) -> None:
    bad = [Message(b'{"id":%d}' % n, b"no JSON") for n in (2, 3, 4)]
    good = change("c", 10, id=1, name="a", n=1)
    user = start(pipeline, good, *bad[:2], quarantine={"max_records": 2})
    user.pipeline.produce(TABLE, bad[2:])
    with pytest.raises(RejectedRecordError, match="more than 2"):
        user.pipeline.merge(TABLE)
    assert set(user.pipeline.by_key(TABLE)) == {1}


@pytest.mark.unit
def test_nothing_leaves_the_quarantine_while_its_table_is_built_anew(tmp_path: Path) -> None:
    """The new table may lack what would be merged into the old one."""
    world = QuarantineWorld(tmp_path, "127.0.0.1:1")
    entries = registry_of(world.config, "orders")
    RegistryFile(world.config.registry).add(entries)
    world.set_aside("orders", [(0, 1)])
    (entry,) = entries
    begun = desired.DirectiveNote(datetime(2026, 3, 4, 12, tzinfo=UTC), "cdc-assets rebuild")
    world.services.desired.put(entry.table, Directive.REBUILD, begun)
    done = run_command(tmp_path, "quarantine", "replay")
    assert done.returncode == 1
    said = " ".join(done.stderr.split())
    assert "is being rebuilt, since 2026-03-04 12:00:00Z by cdc-assets rebuild" in said
    assert "cdc-assets rebuild shop.public.orders --abandon" in said
    assert list_quarantined(world.services, QuarantineScope(), 1).total == 1


@pytest.mark.unit
@pytest.mark.usefixtures("impatient")
def test_a_table_that_cannot_be_reached_fails_and_keeps_its_records(tmp_path: Path) -> None:
    world = QuarantineWorld(tmp_path, "127.0.0.1:1")
    RegistryFile(world.config.registry).add(registry_of(world.config, "orders"))
    world.set_aside("orders", [(0, 1)])
    done = run_command(tmp_path, "quarantine", "replay")
    assert done.returncode == 1
    assert "failed: shop.public.orders" in done.stderr
    assert "127.0.0.1:1" in done.stderr
    assert "Traceback" not in done.stderr
    assert list_quarantined(world.services, QuarantineScope(), 1).total == 1
