"""Tables whose snapshots somebody has expired, all but the newest, which is not ours."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cdc_assets.errors import TerminalError
from cdc_assets.lake import states
from cdc_assets.lake.pointers import NewestFiles
from cdc_assets.lake.side import side_name
from cdc_assets_tests.lake_view import read_table
from cdc_assets_tests.merge.events import event
from cdc_assets_tests.merge.one_table import TABLE
from cdc_assets_tests.operated import rebuild_of
from cdc_assets_tests.pipeline import Pipeline
from cdc_assets_tests.toy import profiles

pytestmark = pytest.mark.stack


def compact(made: Pipeline, name: object) -> None:
    made.spark().sql(
        f"CALL lake.system.rewrite_data_files(table => '{name}', "
        "options => map('min-input-files', '1', 'rewrite-all', 'true'))"
    ).collect()


def expire(made: Pipeline, name: object) -> None:
    made.spark().sql(
        f"CALL lake.system.expire_snapshots(table => '{name}', "
        "older_than => TIMESTAMP '2100-01-01', retain_last => 1)"
    ).collect()


@pytest.fixture
def expired(pipeline: Callable[..., Pipeline]) -> Pipeline:
    """A table with a deleted row, of which nothing but a compaction is left; its side table too."""
    made = pipeline()
    made.create_topic(TABLE)
    made.produce(
        TABLE,
        [
            event("c", {"id": 1, "n": 1}, 1, commit=1),
            event("c", {"id": 2, "n": 1}, 2, commit=2),
            event("d", {"id": 2, "n": 1}, 5, commit=5),
        ],
    )
    made.merge(TABLE)
    target = made.entry(TABLE).target
    for name in (target, side_name(target)):
        compact(made, name)
        compact(made, name)
        expire(made, name)
    table = read_table(made.config, target)
    assert table is not None
    assert len(table.metadata.snapshots) == 1
    assert not made.lake.history(target, 10)
    return made


def test_replication_goes_on_from_its_offsets(expired: Pipeline) -> None:
    made = expired
    assert made.merge(TABLE) == []
    made.produce(
        TABLE,
        [
            event("u", {"id": 2, "n": 3}, 4, commit=4),  # sent late: its row was deleted since
            event("u", {"id": 1, "n": 6}, 6, commit=6),
        ],
    )
    (result,) = made.merge(TABLE)
    assert result.start.as_dict() == {0: 3}
    assert result.records == 2
    assert {key: row["n"] for key, row in made.by_key(TABLE).items()} == {1: 6}


@profiles.in_soak
def test_without_what_tells_its_offsets_it_says_how_to_go_on(
    expired: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = expired
    table = read_table(made.config, made.entry(TABLE).target)
    assert table is not None
    for each in table.metadata.metadata_log:
        Path(each.metadata_file.removeprefix("file:")).unlink(missing_ok=True)
    monkeypatch.setattr(states, "_KNOWN", NewestFiles[states.TableState](10))
    with pytest.raises(TerminalError, match="cdc-assets rebuild TABLE"):
        made.merge(TABLE)
    rebuild = rebuild_of(made.config, made.spark, made.entry(TABLE), "test")
    standing = rebuild.tables.standing()
    rebuild.begin(standing, from_now=False)
    assert [each.records for each in rebuild.fill(standing)] == [3]
    assert rebuild.swap(standing)
    made.produce(TABLE, [event("u", {"id": 1, "n": 6}, 6, commit=6)])
    made.merge(TABLE)
    assert {key: row["n"] for key, row in made.by_key(TABLE).items()} == {1: 6}
