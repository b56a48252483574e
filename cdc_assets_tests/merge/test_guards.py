"""Guards stand alone: a batch that is no guard's case needs none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cdc_assets.merge.guards import GUARDS, Guard, guards
from cdc_assets_tests.merge.events import event, tombstone
from cdc_assets_tests.merge.one_table import TABLE, Make, names, start
from cdc_assets_tests.toy import profiles

CHECKOUT = Path(__file__).parents[2]
HOOKS = ("require", "watch", "aggregates", "judge", "learn", "settle", "carry")


@pytest.mark.unit
def test_the_page_names_the_guards_in_their_order() -> None:
    page = (CHECKOUT / "docs" / "architecture" / "guards.md").read_text(encoding="utf-8")
    table = page.split("## The order")[1].split("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.M) == [each.__name__ for each in GUARDS]
    hooks = page.split("## The order")[0]
    assert re.findall(r"`(\w+)`(?=[^|]*\|[^|]*\|[^|]*\|\n)", hooks) == [*HOOKS]


@pytest.mark.unit
@pytest.mark.parametrize("guard", GUARDS, ids=lambda each: each.__name__)
def test_a_guard_has_a_hook_of_its_own(guard: type[Guard]) -> None:
    assert any(getattr(guard, hook) is not getattr(Guard, hook) for hook in HOOKS)


@pytest.mark.stack
def test_a_batch_is_merged_without_the_guards_whose_case_it_is_not(
    pipeline: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = start(pipeline, event("c", {"id": 0, "name": "first"}, 20, commit=10))
    rows = names(made)
    one_less = [tuple(each for each in GUARDS if each is not gone) for gone in GUARDS]
    for number, kept in enumerate([(), *one_less] if profiles.is_soak() else [()], start=1):
        monkeypatch.setattr(guards, "GUARDS", kept)
        at, last = 1000 * number, number - 1
        new, old = {"id": number, "name": "new"}, {"id": last, "name": f"old since {number}"}
        changes = event("c", new, at + 20, commit=at), event("u", old, at + 40, commit=at + 30)
        made.produce(TABLE, changes)
        made.merge(TABLE)
        rows |= {number: "new", last: old["name"]}
        assert names(made) == rows, [each.__name__ for each in kept]


@pytest.mark.stack
def test_a_batch_tells_why_it_was_read_more_than_once(pipeline: Make) -> None:
    made = start(
        pipeline, event("c", {"id": 1, "name": "first"}, 20, commit=10),
        tables={TABLE: {"columns": {"more": "int"}}},
    )  # fmt: skip
    made.produce(TABLE, [event("u", {"id": 1, "name": "second"}, 40, commit=30)])
    [usual] = made.merge(TABLE)
    assert usual.read_again == ()
    made.produce(
        TABLE, [tombstone(1), event("c", {"id": 2, "name": "n", "more": 1}, 60, commit=50)]
    )
    [found] = made.merge(TABLE)
    assert found.read_again == (
        "records have a column that the table lacks",
        "a record without a value follows no delete",
    )
    assert names(made) == {2: "n"}
