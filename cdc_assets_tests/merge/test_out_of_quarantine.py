"""What leaves the quarantine is merged in its turn, once, and as the record that was refused."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from pyspark.errors import PySparkException

from cdc_assets.effects import Moment, hooked
from cdc_assets.errors import RejectedRecordError, TransientError
from cdc_assets.lake.quarantined import QuarantinedRecord, QuarantineLake
from cdc_assets.merge.intake.planning import Planner
from cdc_assets.merge.plan.result import QuarantineReplay
from cdc_assets.merge.statements import sql
from cdc_assets.merge.tables.quarantine import Quarantine
from cdc_assets_tests.faults import Fault, How, faults
from cdc_assets_tests.merge.events import PLACEHOLDER, event
from cdc_assets_tests.merge.one_table import TABLE, Make, start
from cdc_assets_tests.operated import rebuild_of
from cdc_assets_tests.pipeline import Message, Pipeline
from cdc_assets_tests.toy import profiles
from cdc_assets_tests.waiting import until

pytestmark = pytest.mark.stack

BOUND = 4_000
REFUSING: dict[str, Any] = {"bad_records": "quarantine", "batch": {"max_record_bytes": BOUND}}
REMOVE = "spark: remove from quarantine"


def change(op: str, lsn: int, *, keyed: bool = True, large: bool = False, **row: Any) -> Message:
    """A change; a large one is above the bound by what nobody reads."""
    commit = None if op == "r" else lsn - 5
    made = event(op, row, lsn, commit=commit, key=("id",) if keyed else ())
    if not large:
        return made
    assert made.value is not None
    value = json.loads(made.value)
    value["source"]["query"] = "x" * BOUND
    return replace(made, value=json.dumps(value).encode())


def mended(made: Pipeline, **source: Any) -> Pipeline:
    return replace(made, source={**made.source, "batch": {}, **source})


def replayed(made: Pipeline) -> QuarantineReplay:
    done = made.replicator().replay_quarantined(made.entry(TABLE), None, run_id="replay")
    assert done is not None
    return done


def kept(made: Pipeline) -> tuple[QuarantinedRecord, ...]:
    return QuarantineLake(made.config).quarantined(made.prefix, TABLE, 100)[0]


def offsets(made: Pipeline) -> list[int]:
    return [each.coordinate.offset for each in kept(made)]


def counted(made: Pipeline) -> Counter[object]:
    return Counter(row["n"] for row in made.rows(TABLE))


def quarantined(made: Pipeline) -> int:
    state = made.lake.state(made.entry(TABLE).target)
    assert state is not None
    assert state.published is not None
    return state.published.counts["quarantined"]


def test_a_record_that_no_publish_has_passed_is_left_to_the_next_batch(pipeline: Make) -> None:
    """Merged before its turn, it would win over the change before it, whose value it leaves out."""
    first = change("c", 10, id=1, name="old", n=1)
    given_up = change("c", 11, id=9, name="given up", n=9, large=True)
    made = start(pipeline, first, given_up, **REFUSING, quarantine={"max_records": 1})
    assert quarantined(made) == 1
    made.spark().sql(f"DELETE FROM lake.cdc_assets_quarantine.{made.prefix}")
    made.produce(
        TABLE,
        [
            change("u", 20, id=1, name="new", n=2),
            change("u", 30, id=1, name=PLACEHOLDER, n=3, large=True),
            change("c", 40, id=2, name="b", n=4, large=True),
        ],
    )
    with pytest.raises(RejectedRecordError, match="more than 1"):
        made.merge(TABLE)
    assert offsets(made) == [3, 4], "set aside, and not published"

    right = mended(made, quarantine={"max_records": 100})
    done = replayed(right)
    assert [each.offset for each in done.unread] == [3, 4]
    assert not done.merged
    assert quarantined(right) == 0, "counted anew, though nothing was merged"
    assert right.by_key(TABLE) == {1: {"id": 1, "name": "old", "n": 1}}
    right.merge(TABLE)
    expected = {1: {"id": 1, "name": "new", "n": 3}, 2: {"id": 2, "name": "b", "n": 4}}
    assert right.by_key(TABLE) == expected

    done = replayed(right)
    assert [each.offset for each in done.merged] == [3, 4], "they only leave the quarantine"
    assert right.by_key(TABLE) == expected
    assert offsets(right) == []
    assert quarantined(right) == 0


@profiles.in_soak
def test_what_lies_there_from_before_the_tables_beginning_is_not_even_decoded(
    pipeline: Make,
) -> None:
    """It has a column that nobody knows, as another table of that name may have had."""
    gone = change("c", 20, id=2, name="b", n=2, gone="x", large=True)
    made = start(pipeline, change("c", 10, id=1, name="a", n=1), gone, **REFUSING)
    rebuild = rebuild_of(made.config, made.spark, made.entry(TABLE), "test")
    standing = rebuild.tables.standing()
    rebuild.begin(standing, from_now=True)
    made.produce(TABLE, [change("r", 30, id=1, name="a", n=1)])
    assert list(rebuild.fill(standing))
    assert rebuild.swap(standing)
    rebuild.tidy()
    right = mended(made)
    assert (offsets(right), quarantined(right)) == ([1], 1)
    done = replayed(right)
    assert [each.offset for each in done.before] == [1]
    assert (done.merged, done.overtaken, done.rejected) == ((), (), ())
    assert right.by_key(TABLE) == {1: {"id": 1, "name": "a", "n": 1}}
    assert (offsets(right), quarantined(right)) == ([], 0)


@profiles.in_soak
@pytest.mark.parametrize("taken", [True, False], ids=["merged", "counted"])
def test_a_record_that_is_refused_while_others_are_looked_for_is_not_forgotten(
    pipeline: Make, monkeypatch: pytest.MonkeyPatch, *, taken: bool
) -> None:
    """A publish between both reads: of the quarantine, and of what the table says it lacks."""
    refused = [change("c", 20, id=2, name="b", n=2, large=True)] if taken else []
    made = start(pipeline, change("c", 10, id=1, name="a", n=1), *refused, **REFUSING)
    reads: list[str] = []

    def then_publishing(read: Callable[..., Any]) -> Callable[..., Any]:
        def reads_first(*args: Any, **named: Any) -> Any:
            found = read(*args, **named)
            reads.append(read.__name__)
            if len(reads) == 1:
                made.produce(TABLE, [change("c", 30, id=3, name="c", n=3, large=True)])
                made.merge(TABLE)
            return found

        return reads_first

    right = mended(made)
    if not taken:
        made.produce(TABLE, [change("c", 25, id=4, name="d", n=4, large=True)])
        made.merge(TABLE)
        made.spark().sql(f"DELETE FROM lake.cdc_assets_quarantine.{made.prefix}")
    with monkeypatch.context() as patched:
        patched.setattr(Planner, "replay", then_publishing(Planner.replay))
        patched.setattr(Quarantine, "kept", then_publishing(Quarantine.kept))
        right.replicator().replay_quarantined(right.entry(TABLE), None, run_id="replay")
    right.replicator().replay_quarantined(right.entry(TABLE), None, run_id="again")
    assert right.by_key(TABLE)[3] == {"id": 3, "name": "c", "n": 3}
    assert offsets(right) == []
    assert quarantined(right) == 0


@profiles.in_soak
def test_records_that_were_deleted_in_sql_are_not_counted_any_more(pipeline: Make) -> None:
    refused = change("c", 20, id=2, name="b", n=2, large=True)
    made = start(pipeline, change("c", 10, id=1, name="a", n=1), refused, **REFUSING)
    made.spark().sql(f"DELETE FROM lake.cdc_assets_quarantine.{made.prefix}")
    assert quarantined(made) == 1
    done = made.replicator().replay_quarantined(made.entry(TABLE), None, run_id="replay")
    assert done is None
    assert quarantined(made) == 0
    assert made.by_key(TABLE) == {1: {"id": 1, "name": "a", "n": 1}}


@dataclass
class Beaten:
    """Has the first removal meet another commit."""

    times: int = 0

    def __call__(self, point: str, moment: Moment) -> None:
        if point == REMOVE and moment is Moment.BEFORE:
            self.times += 1
            if self.times == 1:
                msg = "CommitFailedException"
                raise PySparkException(msg)


@pytest.mark.parametrize(
    "beaten", [False, pytest.param(True, marks=profiles.in_soak)], ids=["dies", "conflict"]
)
def test_a_row_without_a_key_is_counted_once_however_often_its_removal_fails(
    pipeline: Make, *, beaten: bool
) -> None:
    rows = [change("r", 10, keyed=False, n=n, large=n == 2) for n in (1, 2, 3)]
    made = start(pipeline, *rows, **REFUSING)
    assert counted(made) == Counter([1, 3])
    right = mended(made)
    if beaten:
        with hooked(Beaten()):
            done = replayed(right)
    else:
        with faults(Fault(REMOVE, How.BEFORE)), pytest.raises(TransientError):
            replayed(right)
        assert offsets(right) == [1], "merged, and still there"
        assert quarantined(right) == 0
        done = replayed(right)
    assert [each.offset for each in done.merged] == [1]
    assert counted(right) == Counter([1, 2, 3])
    assert offsets(right) == []


@profiles.in_soak
def test_a_row_that_its_log_has_brought_is_not_counted_out_of_the_quarantine(
    pipeline: Make,
) -> None:
    """Refused by a batch that was not published, it is merged by the next one."""
    made = start(
        pipeline, change("c", 5, keyed=False, n=0), **REFUSING, quarantine={"max_records": 1}
    )
    rows = [change("r", 10, keyed=False, n=n, large=n != 1) for n in (1, 2, 3)]
    made.produce(TABLE, rows)
    with pytest.raises(RejectedRecordError, match="more than 1"):
        made.merge(TABLE)
    right = mended(made)
    right.merge(TABLE)
    assert counted(right) == Counter([1, 2, 3])
    assert [each.offset for each in replayed(right).merged] == [2, 3]
    assert counted(right) == Counter([1, 2, 3])
    assert offsets(right) == []


@profiles.in_soak
def test_records_of_a_topic_that_was_created_again_are_told_from_those_of_the_former_one(
    pipeline: Make,
) -> None:
    made = start(
        pipeline,
        change("c", 10, id=1, name="a", n=1),
        change("c", 20, id=2, name="former", n=2, large=True),
        **REFUSING,
    )
    (former,) = kept(made)
    for future in made.admin.delete_topics([made.topic(TABLE)]).values():
        future.result(30)
    until(lambda: made.topic(TABLE) not in made.admin.list_topics(timeout=30).topics, "gone")
    made.create_topic(TABLE)
    again = [change("c", 110, id=1, name="a", n=1)]
    again += [change("c", 120, id=2, name="present", n=3, large=True)]
    made.produce_as(TABLE, again)
    table = sql.table(made.config.lake.catalog.name, made.entry(TABLE).target)
    made.spark().sql(f"DROP TABLE {table}")
    made.merge(TABLE)
    assert offsets(made) == [1, 1], "of each topic one"
    assert quarantined(made) == 2

    right = mended(made)
    done = replayed(right)
    assert [each.offset for each in done.merged] == [1]
    assert [each.offset for each in done.foreign] == [1]
    assert right.by_key(TABLE)[2] == {"id": 2, "name": "present", "n": 3}
    assert kept(right) == (former,)
    assert quarantined(right) == 1
