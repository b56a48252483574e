"""What catalogs do with branches, tags and conflicts is tried: servers say what does not hold."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Any

import pyarrow as pa
import pytest
from cdc_assets_devstack.layout import StackLayout
from cdc_assets_devstack.ports import pick_free_ports
from pyiceberg.catalog import Catalog

from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import TerminalError, UnreachableError
from cdc_assets.lake.abilities import CatalogAbilities, Together, try_catalog
from cdc_assets.lake.connection import CatalogConnection, EndingRestCatalog
from cdc_assets.lake.references import make_branch
from cdc_assets.operate.assess.finding import Subject
from cdc_assets.operate.assess.writing import PREFIX, TriedCatalog, judge_tried, probe_catalog
from cdc_assets_tests.configuration import NOWHERE, platform, write
from cdc_assets_tests.elsewhere.front import Lost, Plan
from cdc_assets_tests.elsewhere.lake import LakeElsewhere, lake_elsewhere
from cdc_assets_tests.elsewhere.nessie import Nessie
from cdc_assets_tests.toy import profiles

pytestmark = pytest.mark.stack


@pytest.fixture(scope="module")
def elsewhere(
    stack_config: ReplicationConfig, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LakeElsewhere]:
    """With the JVM pieces of the tests' stack, of which nothing is started."""
    assert stack_config
    with lake_elsewhere(StackLayout(tmp_path_factory.mktemp("lake"))) as made:
        yield made


def configured(folder: Path, lake: dict[str, Any], **more: Any) -> ReplicationConfig:
    return write(folder / "replication.yaml", platform(lake={**lake, **more}, sources={}))


@contextmanager
def left_clean(config: ReplicationConfig) -> Iterator[str]:
    """A namespace for a trial; nothing of it is there afterwards."""
    name = f"tried_{uuid.uuid4().hex[:8]}"
    yield name
    assert (name,) not in catalog_of(config).list_namespaces()


def catalog_of(config: ReplicationConfig) -> Catalog:
    return CatalogConnection(config.lake).catalog


def tried(config: ReplicationConfig) -> CatalogAbilities:
    with left_clean(config) as namespace:
        return try_catalog(config.lake, namespace)


def test_a_server_that_checks_all_and_commits_one_by_one_is_found_out(
    elsewhere: LakeElsewhere, tmp_path: Path
) -> None:
    """Iceberg's own servlet: the request that must be refused as a whole is, and yet."""
    config = configured(tmp_path, elsewhere.document, format_version=3)
    found = probe_catalog(config, datetime.now(UTC))
    assert found == CatalogAbilities(
        3, keeps_snapshots=True, makes_refs=True, refuses_conflicts=True,
        together=Together.ONE_BY_ONE,
    )  # fmt: skip
    tried = (TriedCatalog(found, 3, takes_cuts) for takes_cuts in (False, True))
    names = [[each.name for each in judge_tried(Subject("shop"), one)] for one in tried]
    assert names == [[], ["cut_tags"]]
    left = [name for (name,) in catalog_of(config).list_namespaces() if name.startswith(PREFIX)]
    assert left == []


def test_a_catalog_that_commits_whole_passes(
    elsewhere: LakeElsewhere, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same server behind a lock: what the trial sees is the race, not the server's name."""
    lock, commit = Lock(), EndingRestCatalog.commit_together

    def locked(self: EndingRestCatalog, changes: Any) -> None:
        with lock:
            commit(self, changes)

    monkeypatch.setattr(EndingRestCatalog, "commit_together", locked)
    found = tried(configured(tmp_path, elsewhere.document))
    assert found.together is Together.WHOLE


def test_a_lost_reply_is_an_error_and_leaves_nothing(
    elsewhere: LakeElsewhere, tmp_path: Path
) -> None:
    config = configured(tmp_path, elsewhere.document)
    elsewhere.front.plan = Plan(frozenset({"commit"}), (Lost.BAD_GATEWAY,), every=4)
    try:
        with left_clean(config) as namespace, pytest.raises(UnreachableError):
            try_catalog(config.lake, namespace)
    finally:
        elsewhere.front.plan = Plan()


def test_other_types_are_known(tmp_path: Path) -> None:
    local = {"catalog": {"type": "sql", "uri": "sqlite:///c.db"}, "warehouse": "w"}
    found = try_catalog(configured(tmp_path, local).lake, "nowhere")
    assert found.together is Together.WHOLE
    hive = {"catalog": {"type": "hive", "uri": f"thrift://{NOWHERE}"}, "warehouse": "w"}
    assert try_catalog(configured(tmp_path, hive).lake, "n").together is Together.NEVER


@profiles.in_soak
def test_nessie_is_refused_as_it_makes_no_branches_and_keeps_one_snapshot(
    elsewhere: LakeElsewhere, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nessie = Nessie(elsewhere.catalog.layout, pick_free_ports().kafka, elsewhere.s3)
    keys = {name: v for name, v in elsewhere.document["catalog"]["properties"].items()
            if name.startswith(("s3.", "client."))}  # fmt: skip
    document = {**elsewhere.document,
                "catalog": {"type": "rest", "uri": nessie.uri, "properties": keys}}  # fmt: skip
    config = configured(tmp_path, document, format_version=3)
    try:
        nessie.bring_up(lambda _: None)
        with pytest.raises(TerminalError, match="Nessie"):
            _ = catalog_of(config)
        monkeypatch.setattr("cdc_assets.lake.connection.require_history", lambda _: None)
        found = tried(config)
        assert found.format_version == 2
        assert not found.keeps_snapshots
        assert not found.makes_refs
        _drops_branches_and_history(catalog_of(config))
    finally:
        nessie.stop()


def _drops_branches_and_history(catalog: Catalog) -> None:
    """Why it is refused; and a branch that was dropped silently is noticed without that."""
    rows = pa.table({"id": pa.array([1], pa.int64())})
    catalog.create_namespace("seen")
    catalog.create_table("seen.t", rows.schema).append(rows)
    table = catalog.load_table("seen.t")
    head = table.metadata.refs["main"].snapshot_id
    with pytest.raises(TerminalError, match="did not make it"):
        make_branch(table, "cdc_mine", head)
    catalog.load_table("seen.t").append(rows)
    after = catalog.load_table("seen.t").metadata
    assert set(after.refs) == {"main"}
    assert [each.snapshot_id for each in after.snapshots] == [after.refs["main"].snapshot_id]
    assert after.refs["main"].snapshot_id != head
