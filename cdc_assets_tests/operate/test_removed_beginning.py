"""What is removed from the lake begins again where it began. Without Kafka and Spark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.lake.carried import Carried
from cdc_assets.log.values import TopicIdentity, Watermarks
from cdc_assets.operations.command import AnyOperation
from cdc_assets.operations.drop.operation import DROP, RESET, DropOptions, ResetOptions
from cdc_assets.operations.maintain import no_session
from cdc_assets.operations.options import Options
from cdc_assets.operations.running import carried_out
from cdc_assets.operations.session import Host, TableSession
from cdc_assets.registry import Beginning, TableEntry
from cdc_assets_tests.configuration import NOWHERE
from cdc_assets_tests.faults import Death, Fault, How, faults
from cdc_assets_tests.lake_view import open_catalog
from cdc_assets_tests.operated import Steered, steered
from cdc_assets_tests.world import World, entry_of

pytestmark = pytest.mark.slow

OWN = OffsetVector.of({0: 3})
Made = tuple[World, TableEntry]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Made]:
    def made(carried: Carried, log_begin: int = 0) -> Made:
        """A table that has merged its topic up to 9, as its newest publish says."""
        world = World(tmp_path, NOWHERE)
        entry = entry_of("orders", world.config)
        world.services.registry.add([entry])
        world.publish(entry.target, {0: 0}, {0: 9})
        state = world.services.lake.state(entry.target)
        assert state is not None
        assert state.published is not None
        said = replace(state.published, carried=carried, topic_id="topic", attempt="b")
        table = open_catalog(world.config).load_table((entry.target.namespace, entry.target.name))
        table.append(table.scan().to_arrow(), snapshot_properties=said.to_properties())
        marks = Watermarks(OffsetVector.of({0: log_begin}), OffsetVector.of({0: 9}))
        log: Any = SimpleNamespace(
            watermarks=lambda _: {entry.topic: marks},
            identity=lambda _: {entry.topic: TopicIdentity("cluster", "topic")},
        )
        monkeypatch.setattr(world.services, "log", log)
        return world, entry

    return made


def _removed(made: Made, operation: AnyOperation, options: Options) -> Steered:
    world, entry = made
    session = TableSession(world.services, [entry], Host("a-run", no_session))
    return steered(operation, options, session)


def drop(made: Made) -> Steered:
    return _removed(made, DROP, DropOptions(lake=True))


def reset(made: Made) -> Steered:
    return _removed(made, RESET, ResetOptions())


def begins(made: Made) -> Beginning | None:
    (entry,) = made[0].services.registry.load()
    return entry.begins


BEHIND = Carried(read_from=OWN)
READ = Carried(read_at="0A", read_from=OffsetVector.of({0: 8}), own_from=OWN)


@pytest.mark.parametrize("removed", [drop, reset])
@pytest.mark.parametrize("carried", [BEHIND, READ], ids=["built from its log", "read"])
def test_a_table_that_begins_behind_other_changes_does_so_again(
    make: Callable[..., Made], carried: Carried, removed: Callable[[Made], Steered]
) -> None:
    made = make(carried)
    assert removed(made).done
    assert made[0].services.lake.state(made[1].target) is None
    assert begins(made) == Beginning(OWN, "topic")


@pytest.mark.parametrize(
    "carried", [Carried(), replace(READ, own_from=None)], ids=["built from its log", "read"]
)
def test_a_table_with_all_of_its_log_begins_with_it(
    make: Callable[..., Made], carried: Carried
) -> None:
    made = make(carried)
    assert reset(made).done
    assert begins(made) is None


@pytest.mark.parametrize("at", ["registry: replace", "desired: write", "catalog: drop table"])
@pytest.mark.parametrize("how", [How.BEFORE, How.DEATH])
def test_it_is_known_before_anything_is_removed(
    make: Callable[..., Made], at: str, how: How
) -> None:
    made = make(BEHIND)
    with faults(Fault(at, how, 2 if at == "desired: write" else 1)) as hook:
        try:
            reset(made)
        except (Death, Exception):
            assert hook.happened
    assert hook.happened
    is_there = made[0].services.lake.state(made[1].target) is not None
    assert is_there or begins(made) == Beginning(OWN, "topic")
    assert reset(made).done
    assert begins(made) == Beginning(OWN, "topic")


def test_a_log_that_has_lost_some_of_a_tables_own_is_no_place_to_begin(
    make: Callable[..., Made],
) -> None:
    made = make(BEHIND, log_begin=4)
    (why,) = reset(made).failed
    assert "the log has lost its beginning, offsets 0: [3, 4)" in why


def test_what_was_lost_before_its_beginning_is_not_missed(make: Callable[..., Made]) -> None:
    made = make(BEHIND, log_begin=3)
    assert reset(made).done
    assert begins(made) == Beginning(OWN, "topic")


@pytest.mark.parametrize(
    ("operation", "options", "line"),
    [
        (DROP, DropOptions(lake=True), "dropped: nothing is merged into it any more"),
        (RESET, ResetOptions(), "reset: its log is merged again from now on"),
    ],
    ids=["drop", "reset"],
)
def test_the_removed_parts_are_told_once_to_people_and_in_the_document(
    make: Callable[..., Made], operation: AnyOperation, options: Options, line: str
) -> None:
    world, entry = make(BEHIND)
    told: list[str] = []
    session = TableSession(world.services, [entry], Host("a-run", no_session))
    report = carried_out(operation, options, session, lambda each: told.append(each.words))
    parts = f"takes {entry.target} out of the catalog (files stay)"
    assert [*told, *report.lines] == [f"{entry.table}: {parts}", f"{entry.table}: {line}"]
    assert parts in report.document["did"]
