"""A partition without a leader leaves out its topic, and no other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.changes.renamed import RenamedTable
from cdc_assets.errors import UnreachableError
from cdc_assets.log.kafka import KafkaLog
from cdc_assets.log.left_behind import late_under_old_names
from cdc_assets.registry import TableEntry
from cdc_assets_tests.broker import Broker
from cdc_assets_tests.world import entry_of, write_config

pytestmark = pytest.mark.slow


def log_of(broker: Broker, patch: pytest.MonkeyPatch) -> KafkaLog:
    broker.answer_for(patch)
    return KafkaLog({"bootstrap.servers": "kafka:9092"}, timeout_seconds=0.3)


def test_the_other_topics_have_their_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker({"bad": 5, "good": 7}, leaderless={"bad"})
    found = log_of(broker, monkeypatch).bounds(["bad", "good", "gone"])
    assert set(found.marks) == {"good"}
    assert found.marks["good"].end == OffsetVector.of({0: 7, 1: 0})
    (problem,) = found.problems.values()
    assert "topic=bad partition=1" in str(problem)
    assert "LEADER_NOT_AVAILABLE" in str(problem)
    assert broker.asked > 2, "it waits for a leader before"


def test_if_no_topic_answers_kafka_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    log = log_of(Broker({"bad": 5}, leaderless={"bad"}), monkeypatch)
    with pytest.raises(UnreachableError, match="topic=bad partition=1"):
        log.bounds(["bad"])


def test_a_question_that_needs_every_topic_names_the_partition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = log_of(Broker({"bad": 5, "good": 7}, leaderless={"bad"}), monkeypatch)
    with pytest.raises(UnreachableError, match="topic=bad partition=1"):
        log.watermarks(["bad", "good"])


def test_a_partition_that_was_waited_for_in_vain_is_not_waited_for_again_until_it_had_a_leader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = Broker({"bad": 5, "good": 7}, leaderless={"bad"})
    log = log_of(broker, monkeypatch)

    def questions() -> int:
        before = broker.asked
        log.bounds(["bad", "good"])
        return broker.asked - before

    waited, known = questions(), questions()
    assert waited > known
    broker.leaderless = set()
    assert questions() == known
    broker.leaderless = {"bad"}
    assert questions() > known, "that is another failure"


def test_a_former_topic_without_a_leader_holds_up_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = Broker({"old": 5, "older": 9}, leaderless={"old"})
    log = log_of(broker, monkeypatch)
    end = OffsetVector.of({0: 7, 1: 0})

    def renamed(name: str) -> TableEntry:
        entry = entry_of(f"{name}er", write_config(tmp_path))
        return replace(entry, renamed=RenamedTable("public", "new", "new", name, end))

    away, late = late_under_old_names([renamed("old"), renamed("older")], log)
    assert isinstance(away, UnreachableError)
    assert "topic=old partition=1" in str(away)
    assert "topic=older" in str(late)
