"""Catalogs of other types under the changes that a table sees: each publishes all, once.

Hive's metastore is a real one; Glue is moto's, which may accept commits on older versions, so that
conflicts are not tried there. The REST catalog is Iceberg's servlet, with logins that batches
outlive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cdc_assets_devstack import local_files
from cdc_assets_devstack.layout import StackLayout
from pyiceberg.table import Table

from cdc_assets import decode
from cdc_assets.config import ReplicationConfig
from cdc_assets.connect_session import open_session
from cdc_assets.effects import hooked
from cdc_assets.errors import TerminalError
from cdc_assets.lake import spark_conf
from cdc_assets.lake.cuts import TAG, CutLake, CutSnapshot, StoredCut, consistent
from cdc_assets.lake.moving_back import can_move_back
from cdc_assets.merge.plan.plan import OWN_BRANCH
from cdc_assets.merge.upkeep import Upkeep
from cdc_assets.operate.services import Services
from cdc_assets.operations.compact import COMPACT, CompactOptions
from cdc_assets.operations.drop.operation import RESET, ResetOptions
from cdc_assets.operations.operation import Results
from cdc_assets.operations.rewind.goal import Goal
from cdc_assets.operations.rewind.table_rewind import TableRewind
from cdc_assets.operations.running import Runner
from cdc_assets.operations.session import Host
from cdc_assets.registry import RegistryFile, TableEntry
from cdc_assets_tests.configuration import beside
from cdc_assets_tests.elsewhere.cluster import TOKEN_VARIABLE, spark_cluster
from cdc_assets_tests.elsewhere.lake import (
    LakeElsewhere,
    OtherLake,
    glue_lake,
    hive_lake,
    lake_elsewhere,
)
from cdc_assets_tests.faults import Fault, How
from cdc_assets_tests.lake_view import open_catalog
from cdc_assets_tests.merge import changing_table, test_rebuild
from cdc_assets_tests.merge.at_once import merge_at_once
from cdc_assets_tests.merge.changing_table import KINDS, World
from cdc_assets_tests.merge.one_table import TABLE, Make
from cdc_assets_tests.merge.test_two_writers import Together
from cdc_assets_tests.operated import session_of, steered
from cdc_assets_tests.pipeline import Pipeline, Session
from cdc_assets_tests.toy import profiles
from cdc_assets_tests.world import NOW

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900), profiles.in_soak]

TOKEN_SECONDS = 15


@contextmanager
def rest_lake(layout: StackLayout) -> Iterator[LakeElsewhere]:
    with lake_elsewhere(layout) as made:
        made.front.token_seconds = TOKEN_SECONDS
        yield made


LAKES = {"rest": rest_lake, "hive": hive_lake, "glue": glue_lake}


@dataclass(frozen=True)
class Elsewhere:
    """A lake of one type, with a Spark that has a session for it."""

    kind: str
    base: ReplicationConfig
    spark: Session
    lake: LakeElsewhere | OtherLake


@pytest.fixture(scope="module", params=LAKES)
def elsewhere(
    request: pytest.FixtureRequest,
    stack_config: ReplicationConfig,
    kafka_bootstrap: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Elsewhere]:
    """The Connect server starts after the lake: it takes AWS's variables from the environment."""
    assert kafka_bootstrap
    if request.param == "hive":
        pytest.importorskip("thrift", reason="PyIceberg's client of Hive needs thrift")
    home = StackLayout(tmp_path_factory.mktemp(request.param))
    given = (decode.JAR, local_files.JAR)  # Hive's tables are on this machine's disk
    with LAKES[request.param](home) as lake, spark_cluster(home, given, size=1) as cluster:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(TOKEN_VARIABLE, cluster.server.token)
            base = beside(
                stack_config, f"on_{request.param}", lake=lake.document, spark=cluster.document
            )
            session = open_session(cluster.server.endpoint.url)
            for name, value in {**decode.SETTINGS, **spark_conf(base)}.items():
                session.conf.set(name, value)
            yield Elsewhere(request.param, base, lambda: session, lake)
            session.stop()


@pytest.fixture
def make(elsewhere: Elsewhere, tmp_path: Path) -> Make:
    def made(**source: object) -> Pipeline:
        return Pipeline(elsewhere.base, elsewhere.spark, tmp_path, source)

    return made


def filled(make: Make, kinds: Sequence[Callable[..., object]] = KINDS) -> World:
    by_hand = {"enabled": False, "keep_snapshots": 1, "expired_at_once": 1}
    world = changing_table.started(make, maintenance=by_hand)
    for kind in kinds:
        world.pipeline.produce(TABLE, kind(world.source))
        world.settle()
        world.check(kind.__name__)
    RegistryFile(world.pipeline.config.registry).add([world.pipeline.entry(TABLE)])
    return world


def test_changes_of_all_kinds_and_new_columns_are_merged(elsewhere: Elsewhere, make: Make) -> None:
    world = filled(make)
    if isinstance(elsewhere.lake, LakeElsewhere):
        assert elsewhere.lake.front.tokens > 2 * len(KINDS), "no login was renewed"
    made, entry = world.pipeline, world.pipeline.entry(TABLE)
    table = open_catalog(made.config).load_table((entry.target.namespace, entry.target.name))
    assert table.metadata.format_version == made.config.lake.format_version
    assert set(table.metadata.refs) == {"main"}, "a branch was left"


@pytest.mark.parametrize("how", [How.LOST, How.BEFORE], ids=lambda how: how.name.lower())
def test_a_commit_whose_reply_is_lost_is_found(make: Make, how: How) -> None:
    world = filled(make, KINDS[:2])
    for kind in (KINDS[0], KINDS[-1]):  # one commit to main; a branch that is published
        world.pipeline.produce(TABLE, kind(world.source))
        passed = world.merge()
        world.check("a usual merge")
        for point in sorted(each for each in passed if "publish" in each or "main" in each):
            world.pipeline.produce(TABLE, kind(world.source))
            world.merge(Fault(point, how))
            world.settle()
            world.check(f"{how} at {point}")


def test_one_of_two_writers_publishes_each_range(elsewhere: Elsewhere, make: Make) -> None:
    if elsewhere.kind == "glue":
        pytest.skip("moto's Glue is not asked for conflicts")
    world = filled(make, KINDS[:1])
    made = world.pipeline
    made.produce(TABLE, [each for _ in range(20) for each in KINDS[0](world.source)])
    both = Together("spark: publish rows")
    with hooked(both):
        merge_at_once(made, TABLE, TABLE)
    assert len(both.came) == 2, "there was no race"
    world.settle()
    world.check("two writers")


def test_a_table_is_compacted_and_forgets_its_past(make: Make) -> None:
    world = filled(make, KINDS[:4])
    made, entry = world.pipeline, world.pipeline.entry(TABLE)
    done = compacted(made)
    assert not done.is_bad, done.failed
    figures = made.lake.figures(entry.target, OWN_BRANCH)
    assert figures is not None
    assert figures.files == 1
    world.check("compaction")
    later = datetime.now(UTC) + timedelta(hours=2)
    upkeep = Upkeep(made.config, [entry], made.lake, made.spark, lambda: later)
    done_later = {each.task.value for each in upkeep.carry_out(orphans=True)}
    assert "expire snapshots" in done_later
    table = open_catalog(made.config).load_table((entry.target.namespace, entry.target.name))
    assert len(table.metadata.snapshots) < 4
    made.produce(TABLE, KINDS[0](world.source))
    world.settle()
    world.check("expiry")


def compacted(made: Pipeline) -> Results:
    options = CompactOptions(table=str(made.entry(TABLE).table))
    return Runner(Services(made.config), Host("a-run", made.spark), lambda _: None).run(
        COMPACT, options
    )


def test_a_rewind_is_refused_before_anything_is_changed(elsewhere: Elsewhere, make: Make) -> None:
    if elsewhere.kind == "rest":
        pytest.skip("a REST catalog moves main back: elsewhere/test_references.py")
    world = filled(make, KINDS[:2])
    made, entry = world.pipeline, world.pipeline.entry(TABLE)
    assert not can_move_back(open_catalog(made.config))
    before, past = made.lake.branches(entry.target), made.lake.past(entry.target)
    assert past is not None
    with pytest.raises(TerminalError, match="catalog"):
        TableRewind(Services(made.config), entry).carry_out(Goal(str(past.line[-1].snapshot)))
    assert made.lake.branches(entry.target) == before


@pytest.mark.parametrize(
    "rebuilt",
    [
        test_rebuild.test_a_table_equals_its_log_again_and_goes_on,
        test_rebuild.test_a_table_that_is_to_have_other_columns_is_replaced_with_its_rows,
    ],
    ids=["rows", "columns"],
)
def test_a_table_is_rebuilt_with_its_columns_or_others(
    make: Make, rebuilt: Callable[[Make], None]
) -> None:
    rebuilt(make)


def test_a_table_that_is_reset_is_made_of_its_log_again(make: Make) -> None:
    world = filled(make, KINDS[:2])
    made, entry = world.pipeline, world.pipeline.entry(TABLE)
    done = steered(RESET, ResetOptions(), session_of(made.config, entry, made.spark))
    assert done.done, done.failed
    assert made.lake.state(entry.target) is None
    world.settle()
    world.check("a reset")


def test_tables_are_read_as_of_cuts_though_only_some_catalogs_move_tags(
    elsewhere: Elsewhere, make: Make
) -> None:
    world = filled(make, KINDS[:1])
    made, entry, lake = world.pipeline, world.pipeline.entry(TABLE), CutLake(world.pipeline.config)
    day, catalog = timedelta(days=1), open_catalog(world.pipeline.config)
    source, cuts, rows = entry.table.source, list[StoredCut](), list[int]()
    for number in (1, 2, 3):
        table = catalog.load_table((entry.target.namespace, entry.target.name))
        cut = cut_at(table, entry, number)
        assert lake.add_cut(source, cut, day) == cut
        lake.settle(source, cut)
        lake.settle(source, cut)  # repeated by whoever finds it half done
        cuts.insert(0, cut)
        rows.append(table.scan().to_arrow().num_rows)
        made.produce(TABLE, changing_table.upserts(world.source))
        world.settle()
    assert lake.cuts(source) == (*cuts,)
    assert len({*rows}) == len(rows), "the cuts are of one state"
    for cut, count in zip(cuts, reversed(rows), strict=True):
        ((_, found),) = consistent(catalog, source, cut.committed_at).items()
        assert found.scan().to_arrow().num_rows == count
    refs = catalog.load_table((entry.target.namespace, entry.target.name)).metadata.refs
    tagged = [ref.snapshot_id for name, ref in refs.items() if name == TAG]
    newest = [each.snapshot for each in cuts[0].tables]
    assert tagged == (newest if elsewhere.kind == "rest" else [])


def cut_at(table: Table, entry: TableEntry, number: int) -> StoredCut:
    """The table's head."""
    head, at = table.current_snapshot(), NOW + timedelta(minutes=number)
    assert head is not None
    of = CutSnapshot(
        entry.table.schema, entry.table.name, entry.target.namespace, entry.target.name,
        str(table.metadata.table_uuid), head.snapshot_id,
    )  # fmt: skip
    return StoredCut(number, "shop.transaction", f"7{number}", number, at, at, at, (of,))
