"""A table that is called otherwise at its source goes on with its rows, or says why not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import count
from uuid import uuid4

import pytest

from cdc_assets.changes.names import TableName
from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.changes.publish_kind import PublishKind
from cdc_assets.desired import Directive, DirectiveNote
from cdc_assets.effects import Moment, hooked
from cdc_assets.errors import OutcomeUnknownError, TerminalError, TransientError
from cdc_assets.lake.properties import ADOPTED
from cdc_assets.lake.shadow_progress import ShadowProgress
from cdc_assets.log.hours import HOUR, hour_of
from cdc_assets.merge.renamed import FormerTable, Renames
from cdc_assets.merge.replicate import utc_now
from cdc_assets.merge.statements import sql
from cdc_assets.merge.verifying.verification import Verification
from cdc_assets.operate.contiguity import gaps, outside
from cdc_assets.operate.discovery import discover
from cdc_assets.operate.services import Services
from cdc_assets.operations.adopt.existing import ExistingTable
from cdc_assets.operations.adopt.table_adoption import TableAdoption
from cdc_assets.operations.rebuild.shadow_table import publish_read
from cdc_assets.orchestration.merge_commands import Selection, run_replay, run_replicate
from cdc_assets.registry import RegistryFile, TableEntry
from cdc_assets_tests.faults import Anywhere, Death, How
from cdc_assets_tests.merge.one_table import Make
from cdc_assets_tests.merge.test_statements import (
    MADE,
    OLD,
    change,
    started,
    statement,
    tell,
    with_schema,
)  # fmt: skip
from cdc_assets_tests.operated import rebuild_of, run_rebuild, session_of
from cdc_assets_tests.pipeline import Message, Pipeline
from cdc_assets_tests.toy import profiles

pytestmark = pytest.mark.stack

RENAMED = statement(300, "RENAME TABLE t TO u", "id", "name")
THERE = {1: "old", 2: "old"}
AFTER = [change("u", 400, {"id": 1, "name": "new"}), change("c", 500, {"id": 3, "name": "third"})]
BOTH = {1: "new", 2: "old", 3: "third"}


@dataclass
class Shop:
    """A table ``shop.t`` that was replicated, and is called ``shop.u`` from then on."""

    made: Pipeline

    @classmethod
    def begun(cls, pipeline: Make, *messages: Message, **of_source: object) -> Shop:
        shop = cls(started(pipeline, **of_source))
        tell(shop.made, *MADE)
        shop.made.produce("shop.t", messages or OLD)
        assert shop.replicate() == {}
        return shop

    def renamed(self, *messages: Message, partitions: int = 1) -> Shop:
        tell(self.made, RENAMED)
        self.made.create_topic("shop.u", partitions)
        self.made.produce("shop.u", messages or AFTER)
        return self

    def replicate(self) -> dict[TableName, str]:
        return run_replicate(self.made.config, Selection(self.made.prefix, until_caught_up=True))

    def rows(self) -> dict[object, object]:
        return {row["id"]: row["name"] for row in self.made.rows("shop.t")}

    def entries(self) -> dict[str, TableEntry]:
        registry = RegistryFile(self.made.config.registry).load()
        return {e.table.name: e for e in registry if e.table.source == self.made.prefix}

    def forget(self) -> None:
        RegistryFile(self.made.config.registry).remove([e.table for e in self.entries().values()])


@pytest.fixture
def shops(pipeline: Make) -> Iterator[list[Shop]]:
    made: list[Shop] = []
    yield made
    for each in made:
        each.forget()


@pytest.fixture
def begun(pipeline: Make, shops: list[Shop]) -> Make:
    def make(*messages: Message, **of_source: object) -> Shop:
        shops.append(Shop.begun(pipeline, *messages, **of_source))
        return shops[-1]

    return make


def test_rows_go_on_under_the_new_name_in_the_same_table(begun: Make) -> None:
    shop = begun()
    made = shop.made
    assert shop.rows() == THERE
    made.produce("shop.t", [change("d", 290, {"id": 2, "name": "old"})])
    shop.renamed(*AFTER, change("u", 390, {"id": 1, "name": "overtaken"}))
    assert shop.replicate() == {}
    assert shop.rows() == {1: "new", 3: "third"}, "what came before the rename is merged first"
    (entry,) = shop.entries().values()
    assert (entry.table.qualified, entry.at_source.name) == ("shop.t", "u")
    assert entry.topic == made.topic("shop.u")

    made.produce("shop.u", [change("c", 200, {"id": 2, "name": "sent again"})])
    made.produce("shop.u", [change("c", 600, {"id": 4, "name": "fourth"})])
    assert shop.replicate() == {}
    assert shop.rows() == {1: "new", 3: "third", 4: "fourth"}, "deletes are remembered"
    history = made.lake.history(entry.target, 100)
    marks = Services(made.config).log.watermarks([entry.topic])
    assert gaps(history) + outside(history[0].offsets, marks[entry.topic]) == []

    shop.forget()
    made.produce("shop.u", [change("d", 700, {"id": 4, "name": "fourth"})])
    shop.replicate()
    assert shop.replicate() == {}, "the registry can be made anew"
    assert shop.rows() == {1: "new", 3: "third"}
    assert [*shop.entries()] == ["t"]


@profiles.in_soak
def test_statements_on_the_new_name_rename_columns(begun: Make) -> None:
    shop = begun(*(with_schema(each, "id", "name") for each in OLD))
    shop.renamed(with_schema(AFTER[0], "id", "name"))
    renamed = statement(550, "ALTER TABLE u RENAME COLUMN name TO called", "id", "called")
    tell(shop.made, Message(None, (renamed.value or b"").replace(b'\\"t\\"', b'\\"u\\"')))
    later = change("c", 600, {"id": 3, "called": "third"})
    shop.made.produce("shop.u", [with_schema(later, "id", "called")])
    assert shop.replicate() == {}
    rows = {row["id"]: row["called"] for row in shop.made.rows("shop.t")}
    assert rows == BOTH


@profiles.in_soak
def test_rows_that_went_before_the_renaming_are_not_forgotten(begun: Make) -> None:
    """No batch has met the statement: nothing came under the name before."""
    shop = begun()
    tell(shop.made, statement(250, "ALTER TABLE t DROP PARTITION p"))
    shop.renamed()
    (failed,) = shop.replicate().values()
    assert "rows of whole partitions went or came" in failed
    assert shop.rows() == THERE


@profiles.in_soak
def test_a_chain_of_names_of_which_one_had_changes_is_followed(begun: Make) -> None:
    shop = begun()
    tell(shop.made, RENAMED, statement(310, "ALTER TABLE u RENAME TO v", "id", "name"))
    shop.made.create_topic("shop.v")
    shop.made.produce("shop.v", AFTER)
    assert shop.replicate() == {}
    assert shop.rows() == BOTH
    tell(shop.made, statement(700, "RENAME TABLE v TO w", "id", "name"))
    shop.made.create_topic("shop.w")
    shop.made.produce("shop.w", [change("d", 800, {"id": 3, "name": "third"})])
    assert shop.replicate() == {}
    assert shop.rows() == {1: "new", 2: "old"}
    assert shop.entries()["t"].at_source.name == "w"


@profiles.in_soak
def test_replaying_hours_of_the_new_name_goes_on_with_the_rows_of_the_one_before(
    begun: Make,
) -> None:
    shop = begun().renamed()
    discover(Services(shop.made.config))
    new, now = shop.entries()["u"], utc_now()
    first, last = hour_of(now - HOUR).key, hour_of(now).key
    assert run_replay(shop.made.config, str(new.table), first, last) == {}
    assert shop.made.lake.state(new.target) is None, "its topic holds only rows changed since"
    assert [*shop.entries()] == ["t"]
    former = str(shop.entries()["t"].table)
    assert run_replay(shop.made.config, former, first, last) == {}
    assert shop.rows() == BOTH


@profiles.in_soak
def test_what_comes_under_the_name_before_stops_it(begun: Make) -> None:
    shop = begun().renamed()
    assert shop.replicate() == {}
    shop.made.produce("shop.t", [change("u", 295, {"id": 2, "name": "late"})])
    (refused,) = discover(Services(shop.made.config)).refused
    assert "records came to the topic that it had before" in str(refused)
    shop.made.produce("shop.u", [change("c", 600, {"id": 4, "name": "fourth"})])
    (failed,) = shop.replicate().values()
    assert f"topic={shop.made.topic('shop.t')} offsets=0:[2,3)" in failed
    assert shop.rows() == BOTH
    for future in shop.made.admin.delete_topics([shop.made.topic("shop.t")]).values():
        future.result(30)
    assert shop.replicate() == {}
    assert shop.rows() == {**BOTH, 4: "fourth"}


@profiles.in_soak
def test_a_table_that_is_to_be_a_new_one_stops_and_the_old_one_stays(begun: Make) -> None:
    shop = begun(renamed_table="new").renamed()
    ((table, failed),) = shop.replicate().items()
    assert table.name == "u"
    assert "another table was given its name" in failed
    assert shop.rows() == THERE
    assert sorted(shop.entries()) == ["t", "u"]


@profiles.in_soak
def test_two_tables_that_have_changed_their_names_are_not_followed(begun: Make) -> None:
    shop = begun()
    swapped = "RENAME TABLE t TO tmp, u TO t, tmp TO u"
    tell(shop.made, statement(300, swapped, "id", "name"))
    shop.made.create_topic("shop.u")
    shop.made.produce("shop.u", AFTER)
    shop.made.produce("shop.t", [change("c", 600, {"id": 9, "name": "another"})])
    failed = shop.replicate()
    assert {each.name for each in failed} == {"t", "u"}
    assert shop.rows() == THERE


@profiles.in_soak
def test_what_cannot_be_followed_says_why(begun: Make) -> None:
    shop = begun().renamed(partitions=2)
    (failed,) = shop.replicate().values()
    assert "its topic has 2 partitions, where the one before had 1" in failed
    assert "renamed_table: new" in failed
    assert shop.rows() == THERE
    again = begun()
    again.made.produce("shop.t", [change("u", 50, {"id": 1, "name": "failed over"}, server=8)])
    again.renamed(change("u", 90, {"id": 1, "name": "new"}, server=8))
    (failed,) = again.replicate().values()
    assert "its positions began again" in failed


@pytest.mark.parametrize(
    "how", [How.DEATH, pytest.param(How.BEFORE, marks=profiles.in_soak)], ids=str
)
def test_it_may_die_anywhere(begun: Make, how: How) -> None:
    shop = begun()
    shop.made.produce("shop.t", [change("u", 290, {"id": 2, "name": "before"})])
    shop.renamed()
    discover(Services(shop.made.config))
    new = shop.entries()["u"]
    for place in count(1, step=1 if profiles.is_soak() else 4):
        hook = Anywhere(place=place, how=how)
        with hooked(hook):
            try:
                follow(shop, new)
            except (Death, TransientError, OutcomeUnknownError):
                pass
        if not hook.happened:
            break
    assert place > 5
    assert shop.replicate() == {}
    assert shop.rows() == {**BOTH, 2: "before"}
    follows = [e for e in shop.made.lake.history(new.target, 100) if e.kind == "rename"]
    assert len(follows) <= 1


@profiles.in_soak
def test_a_batch_under_the_name_before_that_is_overtaken_goes_on_under_the_new_one(
    begun: Make,
) -> None:
    shop = begun()
    shop.made.produce("shop.t", [change("u", 290, {"id": 2, "name": "before"})])
    shop.renamed()
    discover(Services(shop.made.config))
    new, overtaken = shop.entries()["u"], list[str]()

    def overtake(name: str, _: Moment) -> None:
        if name.startswith("spark: ") and not overtaken:
            overtaken.append(name)
            follow(shop, new)

    only_old = Selection(shop.made.prefix, "shop.t", until_caught_up=True)
    with hooked(overtake):
        assert run_replicate(shop.made.config, only_old) == {}
    assert overtaken
    assert shop.entries()["t"].at_source.name == "u"
    assert shop.replicate() == {}
    assert shop.rows() == {**BOTH, 2: "before"}


@profiles.in_soak
def test_it_waits_for_people_and_for_other_writers(begun: Make) -> None:
    shop = begun()
    shop.made.produce("shop.t", [change("u", 290, {"id": 2, "name": "before"})])
    shop.renamed()
    former, book = shop.entries()["t"].table, Services(shop.made.config).desired
    now = utc_now()
    book.put(former, Directive.PAUSED, DirectiveNote(now, "a person"))
    (failed,) = shop.replicate().values()
    assert "and that is held: paused since" in failed
    assert f"cdc-assets resume --table {former}" in failed
    book.remove(former, Directive.PAUSED)
    book.put(
        former, Directive.YIELDS, DirectiveNote(now, "a rebuild", until=now + timedelta(minutes=5))
    )
    only_new = Selection(shop.made.prefix, "shop.u", until_caught_up=True)
    (failed,) = run_replicate(shop.made.config, only_new).values()
    assert "another writer is about to publish" in failed
    assert shop.rows() == THERE
    book.remove(former, Directive.YIELDS)
    assert shop.replicate() == {}
    assert shop.rows() == {**BOTH, 2: "before"}


@profiles.in_soak
def test_a_pause_takes_effect_before_the_next_batch_under_the_name_before(begun: Make) -> None:
    shop = begun(batch={"max_records": 1})
    before = {"id": 2, "name": "before"}
    shop.made.produce("shop.t", [change("u", 290, before), change("u", 295, {**before, "id": 1})])
    shop.renamed()
    former, book = shop.entries()["t"].table, Services(shop.made.config).desired

    def pause(name: str, _: Moment) -> None:
        if name.startswith("spark: "):
            book.put(former, Directive.PAUSED, DirectiveNote(utc_now(), "a person"))

    with hooked(pause):
        (failed,) = run_replicate(
            shop.made.config, Selection(shop.made.prefix, "shop.u", until_caught_up=True)
        ).values()
    assert "and that is held: paused since" in failed
    assert shop.rows() == {**THERE, 2: "before"}, "the batch that was begun is published"
    book.remove(former, Directive.PAUSED)
    assert shop.replicate() == {}
    assert shop.rows() == {**BOTH, 2: "before"}


@profiles.in_soak
@pytest.mark.parametrize(
    ("how_far", "refused"),
    [
        pytest.param("begun", "holds only what came since it was renamed", marks=profiles.in_soak),
        ("begun from now", "not the one in which the rebuild of this table was to begin"),
        ("filled", "what was built so far is of the topic before"),
    ],
)
def test_a_rebuild_that_is_overtaken_puts_nothing_of_the_topic_before_in_its_place(
    begun: Make, how_far: str, refused: str
) -> None:
    shop = begun()
    config, spark = shop.made.config, shop.made.spark
    overtaken = rebuild_of(config, spark, shop.entries()["t"], "test")
    standing = overtaken.tables.standing()
    overtaken.begin(standing, from_now=how_far == "begun from now")
    if how_far == "filled":
        assert [each.records for each in overtaken.fill(standing)] == [len(OLD)]
    shop.renamed()
    assert shop.replicate() == {}
    if how_far == "filled":
        with pytest.raises(TerminalError, match=refused):
            overtaken.swap(standing)
    from_now = how_far == "begun from now"
    with pytest.raises(TerminalError, match=refused):
        run_rebuild(config, "shop.t", from_snapshot=from_now, verify=False)
    assert shop.rows() == BOTH
    run_rebuild(config, "shop.t", abandon=True)
    assert not overtaken.abandon(), "nothing is left of it"
    assert shop.replicate() == {}


@profiles.in_soak
def test_what_a_rebuild_remembers_does_not_replace_what_was_learned_since(begun: Make) -> None:
    shop = begun()
    rebuild = rebuild_of(shop.made.config, shop.made.spark, shop.entries()["t"], "test")
    standing = rebuild.tables.standing()
    rebuild.begin(standing, from_now=False)
    assert [*rebuild.fill(standing)]
    assert rebuild.swap(standing)
    shop.renamed()
    assert shop.replicate() == {}
    learned = rebuild.tables.standing().old.properties
    rebuild.tidy()
    assert not rebuild.tables.standing().swapped
    assert rebuild.tables.standing().old.properties == learned
    assert shop.replicate() == {}
    assert shop.rows() == BOTH


@profiles.in_soak
def test_an_adoption_that_is_overtaken_ends_with_the_next_run(begun: Make) -> None:
    shop = begun(*OLD, change("u", 250, {"id": 2, "name": "old"}))
    entry = shop.entries()["t"]
    session = session_of(shop.made.config, entry, shop.made.spark)
    lakes, state = Verification(session.attempts, "test").lakes, shop.made.lake.state(entry.target)
    assert state is not None
    assert state.published is not None
    noted = sql.set_properties(lakes.catalog, entry.target, {ADOPTED: str(entry.target)})
    lakes.spark().sql(noted)
    progress = ShadowProgress(is_read=True, until=state.published.offsets)
    begin = OffsetVector.of({0: 1})
    carried = replace(state.published.carried, shadow=progress, read_from=begin)
    record = replace(state.published, attempt=str(uuid4()), kind=PublishKind.READ, carried=carried)
    publish_read(lakes, entry, state, record, None)
    overtaken = adoption_of(shop)
    shop.renamed()
    assert shop.replicate() == {}
    assert shop.rows() == BOTH
    with pytest.raises(TransientError, match=r"another step or run has continued it as shop\.u"):
        list(overtaken.merge())
    assert adoption_of(shop).end(0) == 0
    assert ExistingTable(session, entry.target).standing().is_done
    assert shop.replicate() == {}
    assert shop.rows() == BOTH


def adoption_of(shop: Shop) -> TableAdoption:
    """A run that continues the adoption of ``shop.t``."""
    session = session_of(shop.made.config, shop.entries()["t"], shop.made.spark)
    existing = ExistingTable(session, session.entry.target)
    adoption = TableAdoption(session, existing)
    adoption.note(existing.standing())
    return adoption


def follow(shop: Shop, new: TableEntry) -> None:
    """As a run does it, up to the registry."""
    renames = Renames(shop.made.config, shop.made.spark, clock=utc_now)
    former = renames.former(new, shop.entries().values())
    assert isinstance(former, FormerTable)
    for _ in renames.follow(former, new, "test"):
        pass
