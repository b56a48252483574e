"""Each look at the registry takes time in proportion to its tables, however many there are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cdc_assets.changes.names import LakeName, TableName
from cdc_assets.operate import discovery
from cdc_assets.operate.discovery import _added, _doubtful, _to_be_read
from cdc_assets.registry import Registry, RegistryFile, TableEntry
from cdc_assets_tests.hostile import within
from cdc_assets_tests.world import NOW

pytestmark = pytest.mark.unit

MANY = 8_000


def entries(count: int) -> list[TableEntry]:
    names = [f"orders_{n}" for n in range(count)]
    return [
        TableEntry(TableName("shop", "public", n), f"shop.public.{n}", LakeName("shop", n), NOW)
        for n in names
    ]


class CountedRegistry(RegistryFile):
    """Counts how often tables are added to it."""

    adds = 0

    def add(self, entries: Iterable[TableEntry]) -> Registry:
        self.adds += 1
        return super().add(entries)


def test_one_name_that_is_taken_does_not_make_all_tables_be_added_one_by_one(
    tmp_path: Path,
) -> None:
    first, *new = entries(1_000)
    taken = replace(new[700], target=LakeName(first.target.namespace, first.target.name.upper()))
    new[700] = taken
    registry = CountedRegistry(str(tmp_path / "registry.json"))
    services: Any = SimpleNamespace(registry=registry)
    known = registry.add([first])
    found = _added(services, known, tuple(new))
    assert [each.table for each in found.added] == [e.table for e in new if e is not taken]
    assert found.registry.tables == {first.table, *(each.table for each in found.added)}
    [refused] = found.refused
    assert str(taken.table) in str(refused)
    assert registry.adds < 30


def test_topics_that_are_decided_are_left_out_in_time_proportional_to_their_number() -> None:
    known = Registry.of(replace(each, is_confirmed=True) for each in entries(MANY))
    topics = [*(each.topic for each in known), *(f"other.{n}" for n in range(4 * MANY))]
    fmt = SimpleNamespace(names_tables=True, topics=SimpleNamespace(may_be_named=lambda _: True))
    config = SimpleNamespace(sources={"shop": None})
    services: Any = SimpleNamespace(config=config, clock=lambda: NOW, formats={"shop": fmt})
    with within(5):
        assert _doubtful(services, known, topics, ()) == {"shop": topics[MANY:]}


def test_tables_to_be_read_are_found_in_time_proportional_to_their_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    listed = entries(MANY)
    listed[-1] = replace(listed[-1], topic=listed[0].topic)

    def captured(_: object, found: Sequence[TableEntry]) -> Sequence[TableEntry]:
        return found

    monkeypatch.setattr(discovery, "_listed_to_be_read", lambda *_: listed)
    monkeypatch.setattr(discovery, "_captured", captured)
    source = SimpleNamespace(reads_some_first=True)
    services: Any = SimpleNamespace(config=SimpleNamespace(sources={"shop": source}))
    with within(5):
        found, problems = _to_be_read(services, Registry())
    assert found == tuple(listed[1:-1])
    assert len(problems) == 2


def test_the_names_of_all_tables_are_collected_once() -> None:
    registry = Registry.of(entries(MANY))
    with within(5):
        assert [each.table for each in registry if each.table not in registry.tables] == []
        assert [registry.get(each.table) for each in registry] == [*registry]
