"""What one process has read of metadata files another one need not read again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from cdc_assets.changes.names import LakeName
from cdc_assets.config import ReplicationConfig
from cdc_assets.lake import Lake, states
from cdc_assets.lake.pointers import NewestFiles
from cdc_assets.lake.properties import OFFSETS
from cdc_assets.lake.short import Short, shortened
from cdc_assets_tests.configuration import platform, write

pytestmark = pytest.mark.unit

NAMES: Final = tuple(LakeName("shop", f"t{n}") for n in range(3))
WANTED: Final = [(name, "") for name in NAMES]


@pytest.fixture
def made(tmp_path: Path) -> tuple[ReplicationConfig, Catalog]:
    config = write(tmp_path / "replication.yaml", platform(sources={}))
    (tmp_path / "lake").mkdir()
    catalog = load_catalog(
        config.lake.catalog.name, type="sql", uri=str(config.lake.catalog.uri),
        warehouse=config.lake.warehouse, **{"py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO"},
    )  # fmt: skip
    catalog.create_namespace("shop")
    for name in NAMES:
        catalog.create_table((name.namespace, name.name), Schema(NestedField(1, "id", LongType())))
    return config, catalog


def restarted(config: ReplicationConfig, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """As another process has it, which remembers nothing."""
    monkeypatch.setattr(states, "_KNOWN", NewestFiles[states.TableState](100))
    return Lake(config)


def metadata(catalog: Catalog, name: LakeName) -> Path:
    location = catalog.load_table((name.namespace, name.name)).metadata_location
    return Path(location.removeprefix("file://"))


def test_files_that_were_read_are_not_read_again(
    made: tuple[ReplicationConfig, Catalog], monkeypatch: pytest.MonkeyPatch
) -> None:
    config, catalog = made
    first = restarted(config, monkeypatch).states(WANTED)
    for name in NAMES:
        metadata(catalog, name).unlink()
    assert None not in first
    assert restarted(config, monkeypatch).states(WANTED) == first


def test_a_table_that_went_on_or_went_is_seen(
    made: tuple[ReplicationConfig, Catalog], monkeypatch: pytest.MonkeyPatch
) -> None:
    config, catalog = made
    first = restarted(config, monkeypatch).states(WANTED)
    with catalog.load_table(("shop", "t1")).transaction() as change:
        change.set_properties(told="so")
    catalog.drop_table(("shop", "t2"))
    same, other, gone = restarted(config, monkeypatch).states(WANTED)
    assert same == first[0]
    assert other is not None
    assert other.properties["told"] == "so"
    assert gone is None


def test_a_broken_file_costs_time_alone(
    made: tuple[ReplicationConfig, Catalog],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    config, _ = made
    first = restarted(config, monkeypatch).states(WANTED)
    kept = Path(f"{config.registry.removeprefix('file:')}.metadata.sqlite")
    kept.write_bytes(b"this is no database" * 100)
    assert restarted(config, monkeypatch).states(WANTED) == first
    assert "remove it" in caplog.text


def nothing_earlier(file: str) -> Short:
    raise AssertionError(file)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_state_is_in_the_newest_of_our_publishes(version: int) -> None:
    ours = {"operation": "append", OFFSETS: "{}"}
    theirs = {"operation": "replace"}

    def snapshot(number: int, summary: dict[str, str], parent: int | None) -> dict[str, Any]:
        said = {"snapshot-id": number, "summary": summary, "schema-id": number}
        return said if parent is None else {**said, "parent-snapshot-id": parent}

    snapshots = [snapshot(1, ours, None), snapshot(2, ours, 1), snapshot(3, theirs, 2),
                 snapshot(4, theirs, 3), snapshot(5, ours, 2)]  # fmt: skip
    said = {
        "format-version": version, "current-snapshot-id": 4, "snapshots": snapshots,
        "current-schema-id": 0, "schemas": [{"schema-id": n} for n in range(6)],
        "refs": {"main": {"snapshot-id": 4}, "other": {"snapshot-id": 5}},
        "snapshot-log": [{"snapshot-id": 1}],
    }  # fmt: skip
    short = shortened(said, nothing_earlier)
    assert [each["snapshot-id"] for each in short["snapshots"]] == [4, 3, 2]
    assert sorted(each["schema-id"] for each in short["schemas"]) == [0, 2, 3, 4]
    assert list(short["refs"]) == ["main"]
    assert "snapshot-log" not in short


def chain(head: int, *snapshots: tuple[int, int | None, bool], log: Sequence[str] = ()) -> Short:
    """Metadata of so many snapshots: id, parent, and whether we have published it."""
    return {
        "current-snapshot-id": head,
        "snapshots": [
            {"snapshot-id": id_, "parent-snapshot-id": parent, "summary": summary}
            for id_, parent, ours in snapshots
            for summary in ({OFFSETS: "{}"} if ours else {},)
        ],
        "metadata-log": [{"metadata-file": each} for each in log],
    }  # fmt: skip


EARLIER: Final = {
    "f1": chain(1, (1, None, True)),
    "f2": chain(2, (1, None, True), (2, 1, True)),
    "f3": chain(3, (2, 1, True), (3, 2, False)),
    "f4": chain(4, (3, 2, False), (4, 3, False)),
}


def test_what_was_expired_is_found_in_earlier_files() -> None:
    now = chain(5, (5, 4, False), log=list(EARLIER))
    found = shortened(now, EARLIER.__getitem__)["snapshots"]
    assert [each["snapshot-id"] for each in found] == [5, 4, 3, 2]


def test_what_was_rolled_back_is_not_taken_for_the_newest() -> None:
    """Of the files that know more than the ancestry, only that counts."""
    now = chain(6, (6, 1, False), log=list(EARLIER))
    found = shortened(now, EARLIER.__getitem__)["snapshots"]
    assert [each["snapshot-id"] for each in found] == [6, 1]


def test_a_parent_that_was_taken_away_is_in_the_files_before() -> None:
    """As by PyIceberg, which expires snapshots so."""
    files = {
        **EARLIER,
        "f5": chain(5, (4, 3, False), (5, 4, False)),
        "f6": chain(5, (5, None, False)),
    }
    found = shortened(chain(5, (5, None, False), log=list(files)), files.__getitem__)["snapshots"]
    assert [each["snapshot-id"] for each in found] == [5, 4, 3, 2]
    assert [each["parent-snapshot-id"] for each in found] == [4, 3, 2, 1]


def test_a_table_that_was_replaced_has_no_past_in_the_files_before() -> None:
    now = chain(5, (2, 1, True), (5, None, False), log=list(EARLIER))
    found = shortened(now, EARLIER.__getitem__)["snapshots"]
    assert [each["snapshot-id"] for each in found] == [5]


def test_where_earlier_files_end_nothing_is_made_up() -> None:
    def kept(file: str) -> Short:
        if file in {"f1", "f2", "f3"}:
            raise FileNotFoundError(file)
        return EARLIER[file]

    found = shortened(chain(5, (5, 4, False), log=list(EARLIER)), kept)["snapshots"]
    assert [each["snapshot-id"] for each in found] == [5, 4, 3]
