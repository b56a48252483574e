"""Publishing by one commit of a REST catalog: refused if anything is not as it was looked at."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from cdc_assets_devstack.layout import StackLayout
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.update import TableUpdate

from cdc_assets.changes.names import LakeName
from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.config import ReplicationConfig
from cdc_assets.effects import Moment, hooked
from cdc_assets.errors import ConflictError, TransientError, UnreachableError
from cdc_assets.lake import Lake, Published
from cdc_assets.lake.branches import BranchState
from cdc_assets.lake.connection import CatalogConnection
from cdc_assets.lake.past import Past
from cdc_assets.lake.references import publish_branch
from cdc_assets_tests.configuration import platform, write
from cdc_assets_tests.elsewhere.front import Lost, Plan
from cdc_assets_tests.elsewhere.lake import LakeElsewhere, lake_elsewhere

pytestmark = pytest.mark.stack

OWN = re.compile("cdc_.*")
ROW = pa.table({"id": pa.array([1], pa.int64())})
BRANCH = "cdc_mine"


@dataclass(frozen=True)
class OneTable:
    """A table with a publish on ``main`` and one that is built on a branch."""

    config: ReplicationConfig
    name: LakeName
    built: BranchState
    elsewhere: LakeElsewhere

    @property
    def lake(self) -> Lake:
        return Lake(self.config)

    @property
    def now(self) -> Table:
        catalog = CatalogConnection(self.config.lake).catalog
        return catalog.load_table((self.name.namespace, self.name.name))

    @property
    def refs(self) -> dict[str, int]:
        return {name: ref.snapshot_id for name, ref in self.now.metadata.refs.items()}

    @property
    def past(self) -> Past:
        found = self.lake.past(self.name)
        assert found is not None
        return found

    def append(self, branch: str = "main", attempt: str | None = None) -> None:
        """A row; as a publish of ours if it is an attempt."""
        said = published(attempt).to_properties() if attempt else {}
        self.now.append(ROW, snapshot_properties=said, branch=branch)


def published(attempt: str) -> Published:
    at = OffsetVector.of({0: 1})
    return Published(
        offsets=at,
        start=at,
        topic="s.t",
        topic_id="t",
        cluster_id="c",
        attempt=attempt,
        run="r",
        kind="tail",
        published_at=datetime.now(UTC),
    )


@pytest.fixture(scope="module")
def elsewhere(
    stack_config: ReplicationConfig, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LakeElsewhere]:
    """With the JVM pieces of the tests' stack, of which nothing is started."""
    assert stack_config
    with lake_elsewhere(StackLayout(tmp_path_factory.mktemp("lake"))) as made:
        yield made


@pytest.fixture
def table(elsewhere: LakeElsewhere, tmp_path: Path) -> OneTable:
    config = write(tmp_path / "replication.yaml", platform(lake=elsewhere.document, sources={}))
    name = LakeName("shop", f"t{uuid.uuid4().hex[:8]}")
    catalog = CatalogConnection(config.lake).catalog
    catalog.create_namespace_if_not_exists(name.namespace)
    catalog.create_table((name.namespace, name.name), ROW.schema)
    made = OneTable(config, name, BranchState(BRANCH, None, "mine", 1), elsewhere)
    made.append(attempt="before")
    lake, head = made.lake, made.refs["main"]
    lake.make_branch(name, BRANCH, head)
    made.append(BRANCH, "mine")
    return OneTable(config, name, BranchState(BRANCH, head, "mine", 1), elsewhere)


def test_main_moves_and_branches_that_are_over_go_with_one_commit(table: OneTable) -> None:
    """The branch itself, and one that another writer has left; not those of users."""
    for name in ("cdc_left", "of_a_user"):
        table.lake.make_branch(table.name, name, table.refs["main"])
    tip, lake = table.refs[BRANCH], table.lake
    with table.elsewhere.front.counted() as asked:
        lake.publish(table.name, table.built, OWN)
        after = lake.after_publish(table.name)
    assert [each.kind for each in asked if each.table] == ["load", "commit"]
    assert table.refs == {"main": tip, "of_a_user": table.built.head}
    assert after == Lake(table.config).state(table.name)
    assert after is not None
    assert after.snapshot_id == tip


def test_how_long_main_keeps_its_snapshots_stays(table: OneTable) -> None:
    looked_at = table.now
    kept = looked_at.metadata.refs["main"].model_copy(update={"max_snapshot_age_ms": 86_400_000})
    looked_at.metadata.refs["main"] = kept
    assert publish_branch(looked_at, BRANCH, ()).metadata.refs["main"].max_snapshot_age_ms


def another_publishes(table: OneTable) -> None:
    table.append(attempt="theirs")


def the_branch_moves(table: OneTable) -> None:
    table.append(BRANCH, "theirs")


def the_branch_is_dropped(table: OneTable) -> None:
    table.now.manage_snapshots().remove_branch(BRANCH).commit()


@pytest.mark.parametrize(
    "meanwhile", [another_publishes, the_branch_moves, the_branch_is_dropped],
    ids=lambda each: each.__name__,
)  # fmt: skip
@pytest.mark.parametrize("late", [False, True], ids=["before the look", "after it"])
def test_nothing_is_published_on_what_has_changed(
    table: OneTable, meanwhile: Callable[[OneTable], None], *, late: bool
) -> None:
    def hook(point: str, moment: Moment) -> None:
        if point == "lake: publish" and moment is Moment.BEFORE:
            meanwhile(table)

    if not late:
        meanwhile(table)
    with pytest.raises(ConflictError), hooked(hook if late else lambda *_: None):
        table.lake.publish(table.name, table.built, OWN)
    assert not table.lake.has_attempt(table.name, "mine")


def test_a_branch_is_made_only_on_the_planned_head(table: OneTable) -> None:
    lake = table.lake
    lake.state(table.name)
    head = table.refs["main"]
    another_publishes(table)
    with pytest.raises(ConflictError):
        lake.make_branch(table.name, "cdc_late", head)
    assert "cdc_late" not in table.refs


def test_a_table_that_was_made_anew_is_another_one(table: OneTable) -> None:
    looked_at = table.now
    catalog = CatalogConnection(table.config.lake).catalog
    catalog.drop_table(looked_at.name())
    catalog.create_table(looked_at.name(), ROW.schema)
    with pytest.raises(ConflictError):
        publish_branch(looked_at, BRANCH, ())


@pytest.mark.parametrize("way", Lost, ids=lambda way: way.name.lower())
def test_a_lost_reply_is_no_conflict_and_the_attempt_is_found(table: OneTable, way: Lost) -> None:
    front = table.elsewhere.front
    front.plan = Plan(frozenset({"commit"}), (way,), every=1)
    try:
        with pytest.raises(UnreachableError) as lost:
            table.lake.publish(table.name, table.built, OWN)
    finally:
        front.plan = Plan()
    assert not isinstance(lost.value, ConflictError)
    assert table.lake.has_attempt(table.name, "mine")


def test_a_commit_that_is_sent_again_conflicts_with_itself(table: OneTable) -> None:
    """So whoever publishes looks for the attempt after a conflict, too."""
    looked_at = table.now
    publish_branch(looked_at, BRANCH, ())
    with pytest.raises(TransientError):
        publish_branch(looked_at, BRANCH, ())
    assert table.lake.has_attempt(table.name, "mine")


def test_a_token_that_expires_is_renewed_and_what_was_sent_with_it_is_sent_again(
    table: OneTable,
) -> None:
    front, lake = table.elsewhere.front, table.lake
    lake.state(table.name)
    before = front.expired
    front.expire()
    lake.publish(table.name, table.built, OWN)
    assert front.expired > before
    assert lake.has_attempt(table.name, "mine")


def test_main_goes_back_and_keeps_what_it_was_at_with_one_commit(table: OneTable) -> None:
    """What is built on what it leaves goes: it comes after where ``main`` is now."""
    lake = table.lake
    lake.publish(table.name, table.built, OWN)
    lake.make_branch(table.name, "of_a_user", table.refs["main"])
    lake.make_branch(table.name, "cdc_at_work", table.refs["main"])
    past, before = table.past, table.built.head
    assert before is not None
    with table.elsewhere.front.counted() as asked:
        lake.move_back(past, before, OWN)
    assert [each.kind for each in asked if each.table] == ["commit"]
    assert table.refs == {
        "main": before, "of_a_user": past.head, "before_rewind_1": past.head,
    }  # fmt: skip
    assert table.past.was_rewound("before_rewind_1", past.head, before)
    assert [each.published.attempt for each in table.past.line] == ["before"]
    assert [each.published.attempt for each in table.past.rewound["before_rewind_1"]] == ["mine"]
    lake.move_back(table.past, past.head, OWN)
    assert table.refs["main"] == past.head
    lake.drop_tags(table.past, tuple(table.past.tags))
    assert set(table.refs) == {"main", "of_a_user"}


def test_main_does_not_go_back_from_where_it_was_not_looked_at(table: OneTable) -> None:
    past, before = table.past, table.built.head
    assert before is not None
    another_publishes(table)
    with pytest.raises(ConflictError):
        table.lake.move_back(past, before, OWN)
    assert not table.past.was_rewound("before_rewind_1", past.head, before)
    assert table.past.line[0].published.attempt == "theirs"
    assert BRANCH in table.refs


@pytest.mark.parametrize("way", Lost, ids=lambda way: way.name.lower())
def test_whether_main_went_back_is_found_out(table: OneTable, way: Lost) -> None:
    another_publishes(table)
    front, past, before = table.elsewhere.front, table.past, table.built.head
    assert before is not None
    front.plan = Plan(frozenset({"commit"}), (way,), every=1)
    try:
        with pytest.raises(UnreachableError):
            table.lake.move_back(past, before, OWN)
    finally:
        front.plan = Plan()
    assert table.past.was_rewound("before_rewind_1", past.head, before)


def test_a_commit_that_rests_on_nothing_would_publish_beside_another_writer(
    table: OneTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The naive request, which the tests above must catch."""

    def unconditional(
        looked_at: Table, _: object, updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        return commit(looked_at, (), updates)

    looked_at = table.now
    commit = looked_at.catalog.commit_table
    monkeypatch.setattr(looked_at.catalog, "commit_table", unconditional)
    another_publishes(table)
    theirs = table.refs["main"]
    publish_branch(looked_at, BRANCH, ())
    assert theirs not in Lake(table.config).parents(table.name), "their rows are gone"
