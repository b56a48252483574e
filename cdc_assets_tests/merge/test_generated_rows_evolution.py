"""Rows and columns that change together, through Kafka, Spark and Iceberg, with faults anywhere.

The columns alone, by thousands of chains: `test_generated_evolution`. Here each story is one of
rows too. The oracle folds the records by what the source knows of them: which column each value is
of, whatever that was called, of what type it was, and what older rows had.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from cdc_assets.errors import TerminalError
from cdc_assets_tests.merge.altered_lake import Replica, Table, fold
from cdc_assets_tests.merge.altered_source import (
    INT,
    KEY,
    NUMERIC,
    OTHER_SCALE,
    TEXT,
    Sent,
    Source,
    SourceColumn,
)
from cdc_assets_tests.merge.altered_story import Story
from cdc_assets_tests.merge.one_table import Make
from cdc_assets_tests.toy import profiles

DATABASE: dict[str, Any] = {"database": {"kind": "postgres", "dsn": {"env": "SHOP_DSN"}}}
WAYS = {
    "schemas and catalog": {"inline": True, "by_catalog": True},
    "schemas": {"inline": True, "by_catalog": False},
    "catalog": {"inline": False, "by_catalog": True},
}
ALWAYS = 26
"""A story that tells each of the rules that are broken at the end of this module."""

STORIES = [(way, seed) for way in WAYS for seed in range(40)]
if not profiles.is_soak():
    STORIES = [("schemas and catalog", ALWAYS)]


def begun(pipeline: Make, monkeypatch: pytest.MonkeyPatch, story: Story, **said: Any) -> Replica:
    monkeypatch.setattr("cdc_assets.merge.intake.source_facts.catalog_of", lambda _: story.source)
    keys = DATABASE if story.by_catalog else {}
    return Replica(pipeline(**keys, **said), story.source, story.inline)


@pytest.mark.stack
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("way", "seed"), STORIES)
def test_the_lake_is_the_fold_after_each_publish(
    pipeline: Make, monkeypatch: pytest.MonkeyPatch, way: str, seed: int
) -> None:
    story = Story(seed, **WAYS[way])
    size = random.Random(seed).choice((5, 15, 40))
    replica = begun(pipeline, monkeypatch, story, batch={"max_records": size})
    told: list[object] = [f"Story({seed}, **WAYS[{way!r}])"]
    try:
        for turn in story:
            told.append((turn.said, turn.faults))
            replica.send(turn.records)
            for place, how in turn.faults:
                replica.try_with(place, how)
            replica.merge()
        replica.require_source()
    except BaseException as error:
        error.add_note("\n".join(map(str, [*told, *replica.happened])))
        raise
    print(*told, *replica.happened, f"{replica.published} publishes", sep="\n")


# ── changes that lose something ───────────────────────────────────────────────────────────

Illegal = Callable[[Source, SourceColumn, SourceColumn], Sent]


def as_text(source: Source, whole: SourceColumn, _: SourceColumn) -> Sent:
    source.alter(whole.number, kind=TEXT)
    return source.put(0, {whole.number: "x"})


def another_scale(source: Source, _: SourceColumn, money: SourceColumn) -> Sent:
    source.alter(money.number, kind=OTHER_SCALE)
    return source.put(0, {money.number: OTHER_SCALE.values[0]})


def out_of_range(source: Source, whole: SourceColumn, _: SourceColumn) -> Sent:
    return source.put(0, {whole.number: 2**31})


def without_its_key(source: Source, _: SourceColumn, __: SourceColumn) -> Sent:
    sent = source.put(0, {})
    source.drop(KEY)
    return replace(sent, form=len(source.forms) - 1)


ILLEGAL: dict[str, Illegal] = {
    "int to text": as_text,
    "another scale": another_scale,
    "out of range": out_of_range,
    "key dropped": without_its_key,
}
STOPPED = [(way, kind) for way in WAYS for kind in ILLEGAL]
if not profiles.is_soak():
    STOPPED = [("schemas and catalog", "int to text"), ("schemas", "another scale")]


@pytest.mark.stack
@pytest.mark.parametrize(("way", "kind"), STOPPED)
def test_what_would_lose_something_leaves_the_table_as_it_was(
    pipeline: Make, monkeypatch: pytest.MonkeyPatch, way: str, kind: str
) -> None:
    seeds = range(5) if profiles.is_soak() else [1]
    for seed in seeds:
        story = Story(seed, **WAYS[way], turns=1 + seed % 3)
        replica = begun(pipeline, monkeypatch, story)
        source = story.source
        whole, money = source.new(INT), source.new(NUMERIC)
        for turn in story:
            replica.send(turn.records)
        source.add(whole)
        source.add(money)
        replica.send([source.put(0, {whole.number: 1, money.number: NUMERIC.values[0]})])
        replica.merge()
        legal = [source.put(id_, {whole.number: id_}) for id_ in range(6)]
        wrong = ILLEGAL[kind](source, whole, money)
        legal.insert(random.Random(seed).randrange(7), wrong)
        require_stopped(replica, legal)


@pytest.mark.stack
@pytest.mark.parametrize(
    "change", ["add", "widen", "rename", "drop"] if profiles.is_soak() else ["rename"]
)
def test_strict_leaves_the_table_as_it_was(
    pipeline: Make, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    story = Story(3, inline=True, by_catalog=True, turns=1)
    replica = begun(pipeline, monkeypatch, story, schema_changes="strict")
    source, number = story.source, story.source.columns[2].number
    for turn in story:
        replica.send(turn.records)
    replica.merge()
    legal = [source.put(id_, {}) for id_ in range(6)]
    match change:
        case "add":
            source.add(source.new(TEXT, "x"))
        case "widen":
            source.alter(number, kind=replace(INT, literal="int64", type_name="int8"))
        case "rename":
            source.alter(number, name="called")
        case _:
            source.drop(number)
    require_stopped(replica, [*legal, source.put(1, {})])


def require_stopped(replica: Replica, records: list[Sent]) -> None:
    """The batch before was merged, of this one nothing is there, however often it is tried."""
    assert replica.published
    before = replica.looks()
    replica.send(records)
    for _ in range(2):
        with pytest.raises(TerminalError):
            replica.merge()
        assert replica.looks() == before


# ── the stories tell ──────────────────────────────────────────────────────────────────────


def by_place(log: list[Sent], source: Source) -> Table:
    """Values in the columns of their form's places in the newest form."""
    newest = source.columns
    moved = [
        replace(
            sent,
            row={new.number: sent.row[old.number]
                 for old, new in zip(source.forms[sent.form], newest, strict=False)}
            | {KEY: sent.row[KEY]},
            form=len(source.forms) - 1,
        )
        for sent in log
    ]  # fmt: skip
    whole = {each.number: None for each in newest}
    return fold([replace(each, row=whole | each.row) for each in moved], source.forms)


def as_they_come(log: list[Sent], source: Source) -> Table:
    return fold([replace(each, lsn=at) for at, each in enumerate(log)], source.forms)


def without_defaults(log: list[Sent], source: Source) -> Table:
    return fold(log, source.forms, defaults=False)


@pytest.mark.property
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("broken", [by_place, as_they_come, without_defaults])
def test_the_stories_tell_a_broken_rule(
    way: str, broken: Callable[[list[Sent], Source], Table]
) -> None:
    found = []
    for seed in range(30):
        story = Story(seed, **WAYS[way])
        log = [each for turn in story for each in turn.records]
        found.append(broken(log, story.source) != fold(log, story.source.forms))
    assert found[ALWAYS], "the one that is always tried does not tell"
    assert sum(found) > 10
