"""`cdc-assets pause` and `resume`: what they put down, and what they say."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from cdc_assets.changes.names import TableName
from cdc_assets.desired import DesiredBook, Directive, DirectiveNote, Removal, TableDirectives
from cdc_assets.operate.failure_book import FailureBook
from cdc_assets.operate.failures import FailureKind
from cdc_assets.registry import RegistryFile
from cdc_assets_tests.command import run_command
from cdc_assets_tests.faults import Death, Fault, How, faults
from cdc_assets_tests.world import NOW, registry_of, write_config

pytestmark = pytest.mark.unit

ORDERS, ITEMS = (TableName("shop", "public", name) for name in ("orders", "items"))


class Place:
    """A configuration with three tables; neither Kafka nor a lake answers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        config = write_config(folder)
        RegistryFile(config.registry).add(registry_of(config, "items", "orders", "users"))
        self.desired = DesiredBook.of_registry(config.registry)
        self.failures = FailureBook.of_registry(config.registry)

    def run(self, *arguments: str) -> tuple[int, str, str]:
        done = run_command(self.folder, *arguments)
        return done.returncode, done.stdout, done.stderr


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_table_is_paused_with_a_reason_and_resumed(place: Place) -> None:
    code, out, _ = place.run("pause", "--table", "orders", "--why", "index is rebuilt")
    assert (code, out.count("\n")) == (0, 1)
    assert out.startswith("shop.public.orders: paused: no run is started for it")
    paused = place.desired.of(ORDERS).paused
    assert paused is not None
    assert (paused.by, paused.why) == ("cdc-assets pause", "index is rebuilt")
    assert place.desired.of(ITEMS).held is None

    code, out, _ = place.run("pause", "--table", "public.orders", "--why", "another")
    assert code == 0
    assert "is paused already, since" in out
    assert place.desired.of(ORDERS).paused == paused, "the first reason stays, and since when"

    code, out, _ = place.run("resume", "--table", "shop.public.orders")
    assert code == 0
    assert "resumed: it was paused since" in out
    assert "index is rebuilt" in out
    assert place.desired.load() == {}
    code, out, _ = place.run("resume", "--table", "orders")
    assert (code, out) == (0, "shop.public.orders: is neither paused nor dropped, nor fails\n")


def test_a_table_is_paused_though_dagsters_database_does_not_answer(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable() -> None:
        pytest.fail("an instance was opened")

    monkeypatch.setattr("cdc_assets.orchestration.operation_console.open_instance", unreachable)
    for command in ("pause", "resume", "drop"):
        assert place.run(command, "--table", "orders")[0] == 0


def test_a_source_several_tables_or_all_are_chosen(place: Place) -> None:
    assert place.run("pause", "--source", "shop")[0] == 0
    assert len(place.desired.load()) == 3
    assert place.run("resume", "--table", "orders", "--table", "items")[0] == 0
    assert [str(each) for each in place.desired.load()] == ["shop.public.users"]
    assert place.run("resume", "--all")[0] == 0
    assert place.desired.load() == {}


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ((), 2, "--table, --source, or --all"),
        (("--source", "nowhere"), 2, "nowhere"),
        (("--table", "nothing"), 2, "no replicated table"),
    ],
    ids=["nothing", "source", "table"],
)
def test_what_is_not_there_is_named(
    place: Place, arguments: tuple[str, ...], code: int, said: str
) -> None:
    for command in ("pause", "resume"):
        found, _, err = place.run(command, *arguments)
        assert found == code
        assert said in err
    assert place.desired.load() == {}


def test_a_dry_run_says_it_and_does_nothing(place: Place) -> None:
    _, out, _ = place.run("pause", "--table", "orders", "--dry-run")
    assert "would be paused" in out
    assert place.desired.load() == {}
    place.run("pause", "--table", "orders")
    place.failures.record(ORDERS, FailureKind.TERMINAL, "x", NOW)
    _, out, _ = place.run("resume", "--table", "orders", "--dry-run")
    assert "would be resumed" in out
    assert place.desired.of(ORDERS).paused
    assert place.failures.load_one(ORDERS)


def test_json_says_what_was_done_to_each(place: Place) -> None:
    place.run("pause", "--table", "orders")
    code, out, _ = place.run("pause", "--source", "shop", "--table", "orders", "--table", "items",
                             "--json")  # fmt: skip
    document = json.loads(out)
    assert code == 0
    assert (document["command"], document["dry_run"], document["failed"]) == ("pause", False, {})
    assert [(each["table"], each["changed"]) for each in document["tables"]] == [
        ("shop.public.orders", False),
        ("shop.public.items", True),
    ]


def test_a_dropped_table_stays_in_the_lake_and_is_resumed(place: Place) -> None:
    code, out, _ = place.run("drop", "--table", "orders", "--why", "it has moved")
    assert code == 0
    assert "dropped: nothing is merged into it any more; the lake keeps" in out
    dropped = place.desired.of(ORDERS).dropped
    assert dropped is not None
    assert dropped.removal is Removal.NONE
    assert "is dropped already" in place.run("drop", "--table", "orders")[1]
    assert "is dropped, or being reset, already" in place.run("pause", "--table", "orders")[1]
    assert "resumed: it was dropped since" in place.run("resume", "--table", "orders")[1]
    assert place.desired.load() == {}


@pytest.mark.parametrize("command", ["drop", "reset"])
def test_what_removes_is_never_meant_for_all(place: Place, command: str) -> None:
    assert place.run(command)[0] == 2
    assert place.run(command, "--all")[0] == 2


def test_resuming_forgets_what_a_table_has_stopped_for(place: Place) -> None:
    for hours in range(26):
        place.failures.record(
            ORDERS, FailureKind.TRANSIENT, "no answer", NOW + timedelta(hours=hours),
            give_up_after=timedelta(hours=24),
        )  # fmt: skip
    code, out, _ = place.run("resume", "--table", "orders")
    assert code == 0
    assert "is tried again at once: it had stopped, 26 attempts" in out
    assert place.failures.load() == {}


def test_what_a_removal_has_begun_is_not_resumed(place: Place) -> None:
    begun = DirectiveNote(NOW, removal=Removal.BEGUN)
    place.desired.put(ORDERS, Directive.DROPPED, begun)
    place.desired.put(ITEMS, Directive.PAUSED, DirectiveNote(NOW))
    code, out, err = place.run("resume", "--table", "orders", "--table", "items")
    assert code == 1
    assert "failed: shop.public.orders: drop --lake has begun" in err
    assert "cdc-assets drop --lake --table shop.public.orders ends it" in err
    assert "shop.public.items: resumed" in out
    assert place.desired.load() == {ORDERS: TableDirectives(dropped=begun)}


@pytest.mark.parametrize("how", list(How), ids=lambda how: how.name)
@pytest.mark.parametrize("command", ["pause", "resume"])
def test_a_command_that_was_killed_is_repeated(place: Place, command: str, how: How) -> None:
    if command == "resume":
        place.run("pause", "--source", "shop")
    point = {"pause": "desired: write", "resume": "desired: remove"}[command]
    with faults(Fault(point, how, nth=2)):
        if how is How.DEATH:
            with pytest.raises(Death):
                place.run(command, "--source", "shop")
        else:
            assert place.run(command, "--source", "shop")[0] == 1
    assert place.run(command, "--source", "shop")[0] == 0
    assert len(place.desired.load()) == {"pause": 3, "resume": 0}[command]
