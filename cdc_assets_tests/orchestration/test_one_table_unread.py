"""One table that cannot be read is named, and prevents no other. Without Kafka and Spark."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pytest
from pyiceberg.table import Table

from cdc_assets.errors import CdcError, TerminalError, UnreachableError
from cdc_assets.lake import Lake
from cdc_assets.lake.packed import pack, unpack
from cdc_assets.lake.properties import PREFIX
from cdc_assets.log.kafka import KafkaLog
from cdc_assets.operate.seen_states import Condition
from cdc_assets.operate.services import Services
from cdc_assets.operate.status import read_status
from cdc_assets.operate.survey import survey
from cdc_assets.orchestration.keys import (
    CHECK_OFFSETS,
    CHECK_SCHEMA,
    CHECK_SLO,
    maintenance_key,
    table_key,
)
from cdc_assets.orchestration.merge_commands import Selection
from cdc_assets.orchestration.sensors import maintain_sensor, replicate_sensor, slo_sensor
from cdc_assets.registry import Dropped, RegistryFile, TableEntry
from cdc_assets_tests.broker import Broker
from cdc_assets_tests.configuration import NOWHERE
from cdc_assets_tests.lake_view import read_table
from cdc_assets_tests.world import World, registry_of, write_config

pytestmark = pytest.mark.slow

Break = Callable[[Table], None]
MERGED = 3
"""The records of each table that are merged."""


def metadata_of(table: Table) -> Path:
    return Path(table.metadata_location.removeprefix("file://"))


def lose_the_folder(table: Table) -> None:
    shutil.rmtree(metadata_of(table).parent.parent)


def add_a_variant(table: Table) -> None:
    file = metadata_of(table)
    said = json.loads(file.read_text())
    field = {"id": 99, "name": "v", "type": "variant", "required": False}
    said["schemas"][0]["fields"].append(field)
    file.write_text(json.dumps(said))


def cut_the_metadata(table: Table) -> None:
    metadata_of(table).write_text('{"format-version": 2, "tab')


def publish(table: Table, packed: Callable[[str], str]) -> None:
    """Publish once more, with another value of a property."""
    head = table.current_snapshot()
    assert head is not None
    assert head.summary is not None
    said = {k: v for k, v in head.summary.additional_properties.items() if k.startswith(PREFIX)}
    name = f"{PREFIX}packed"
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string())])
    rows = pa.table({"id": [1], "name": ["x"]}, schema=schema)
    table.append(rows, snapshot_properties={**said, name: packed(said[name])})


def publish_by_a_newer_version(table: Table) -> None:
    def packed(text: str) -> str:
        document = unpack(text)
        document["carried"]["needs"] = ["a-later-feature"]
        return pack(document)

    publish(table, packed)


def publish_a_cut_property(table: Table) -> None:
    publish(table, lambda text: text[:20])


BROKEN = pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lose_the_folder, "its metadata file is gone"),
        (add_a_variant, "cannot be read (ValidationError)"),
        (cut_the_metadata, "cannot be read (JSONDecodeError)"),
        (publish_by_a_newer_version, "newer version of cdc_assets"),
        (publish_a_cut_property, "cannot be read (ValueError)"),
    ],
    ids=["folder", "variant", "cut", "newer", "property"],
)


class Pair:
    """Two tables in the lake, and Kafka with as many records of each."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.world = World(folder, NOWHERE)
        self.loaded = registry_of(self.world.config, "bad", "good")
        for entry in self.loaded:
            self.world.publish(entry.target, {0: 0}, {0: MERGED})
        RegistryFile(self.world.config.registry).add(self.loaded)
        self.patch = patch
        self.bad, self.good = self.loaded

    def spoil(self, spoil: Break) -> None:
        table = read_table(self.world.config, self.bad.target)
        assert table is not None
        spoil(table)

    def hold(self, records: int, *, leaderless: bool = False) -> None:
        """Have Kafka hold so many records of each table."""
        topics = {entry.topic: records for entry in self.loaded}
        Broker(topics, {self.bad.topic} if leaderless else ()).answer_for(self.patch)

    def tick(
        self, make: Callable[..., dg.SensorDefinition], instance: dg.DagsterInstance
    ) -> dg.SensorResult:
        sensor = make(self.world.config, self.loaded, lambda: self.world.now)
        result = sensor(dg.build_sensor_context(instance=instance))
        assert isinstance(result, dg.SensorResult)
        return result

    def requested(self, instance: dg.DagsterInstance) -> list[dg.AssetKey]:
        requests = self.tick(replicate_sensor, instance).run_requests or []
        return [key for each in requests for key in each.asset_selection or ()]

    def checks(
        self, instance: dg.DagsterInstance, entry: TableEntry
    ) -> dict[str, dg.AssetCheckEvaluation]:
        events = self.tick(slo_sensor, instance).asset_events
        mine = [each for each in events if isinstance(each, dg.AssetCheckEvaluation)]
        key = table_key(self.world.config, entry)
        return {each.check_name: each for each in mine if each.asset_key == key}


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pair:
    monkeypatch.delenv("SHOP_DSN", raising=False)  # another test's database has no such tables
    return Pair(tmp_path, monkeypatch)


@BROKEN
def test_the_lake_names_a_table_that_cannot_be_read(pair: Pair, spoil: Break, said: str) -> None:
    pair.spoil(spoil)
    lake = Lake(pair.world.config)
    bad, good = lake.find_states([(entry.target, "") for entry in pair.loaded])
    assert isinstance(bad, TerminalError)
    assert said in bad.what
    assert f"table={pair.bad.target}" in bad.where
    assert f"/{pair.bad.target.name}/metadata/" in bad.where
    assert bad.remedy
    assert good is not None
    assert not isinstance(good, CdcError)
    with pytest.raises(TerminalError, match=str(pair.bad.target)):
        lake.state(pair.bad.target)


@BROKEN
def test_the_others_are_served(
    pair: Pair, instance_in_memory: dg.DagsterInstance, spoil: Break, said: str
) -> None:
    pair.spoil(spoil)
    pair.hold(MERGED + 2)
    assert pair.requested(instance_in_memory) == [table_key(pair.world.config, pair.good)]
    pair.hold(MERGED)
    bad = pair.checks(instance_in_memory, pair.bad)
    assert set(bad) == {CHECK_OFFSETS, CHECK_SLO, CHECK_SCHEMA}
    assert all(said in (each.description or "") for each in bad.values())
    assert all(each.severity is dg.AssetCheckSeverity.ERROR for each in bad.values())
    good = pair.checks(instance_in_memory, pair.good)
    assert good[CHECK_OFFSETS].passed

    status = read_status(Services(pair.world.config, lambda: pair.world.now))
    assert not status.problems
    bad, good = status.tables
    assert (bad.condition, good.condition) == (Condition.FAILING, Condition.REPLICATING)
    assert said in bad.standing.why
    assert str(pair.bad.target) in bad.standing.why
    assert bad.standing.since is None
    assert good.slo is not None


def test_the_others_are_judged_if_it_breaks_after_a_look(
    pair: Pair, instance_in_memory: dg.DagsterInstance
) -> None:
    pair.hold(MERGED)
    assert pair.checks(instance_in_memory, pair.bad)[CHECK_OFFSETS].passed
    pair.spoil(lose_the_folder)
    bad = pair.checks(instance_in_memory, pair.bad)
    assert all("its metadata file is gone" in (each.description or "") for each in bad.values())
    assert pair.checks(instance_in_memory, pair.good)[CHECK_OFFSETS].passed


def test_the_others_are_maintained(pair: Pair, instance_in_memory: dg.DagsterInstance) -> None:
    few = {"tiny_files": 2}
    pair.world.config = write_config(pair.world.folder, maintenance=few)
    for n in range(2):
        pair.world.publish(pair.good.target, {0: n}, {0: n + 1})
    pair.spoil(cut_the_metadata)
    requests = pair.tick(maintain_sensor, instance_in_memory).run_requests or []
    assert [key for each in requests for key in each.asset_selection or ()] == [
        maintenance_key(pair.world.config, pair.good.target)
    ]


def test_the_sensor_says_why_nothing_is_to_be_done(
    pair: Pair, instance_in_memory: dg.DagsterInstance
) -> None:
    pair.spoil(cut_the_metadata)
    pair.hold(MERGED)
    reason = pair.tick(replicate_sensor, instance_in_memory).skip_reason
    assert "cannot be read (JSONDecodeError)" in str(reason)
    assert "/bad/metadata/" in str(reason)


def test_a_partition_without_a_leader_concerns_its_table_alone(
    pair: Pair, instance_in_memory: dg.DagsterInstance
) -> None:
    log = partial(KafkaLog, timeout_seconds=0.2)
    pair.patch.setattr("cdc_assets.log.kafka.KafkaLog", log)
    pair.hold(MERGED + 2, leaderless=True)
    assert pair.requested(instance_in_memory) == [table_key(pair.world.config, pair.good)]
    pair.hold(MERGED, leaderless=True)
    bad = pair.checks(instance_in_memory, pair.bad)
    assert all("partition=1" in (each.description or "") for each in bad.values())
    assert all(each.severity is dg.AssetCheckSeverity.WARN for each in bad.values())
    status = read_status(Services(pair.world.config, lambda: pair.world.now))
    assert not status.problems
    bad, good = status.tables
    assert (bad.condition, good.condition) == (Condition.FAILING, Condition.REPLICATING)
    assert f"topic={pair.bad.topic} partition=1" in bad.standing.why


def test_a_run_of_the_table_alone_does_not_take_it_for_a_new_one(pair: Pair) -> None:
    pair.spoil(cut_the_metadata)
    pair.hold(MERGED)
    seen = survey(Services(pair.world.config), [pair.bad], ages=False)
    with pytest.raises(TerminalError, match="cannot be read"):
        seen.complete()


def test_the_command_counts_it_as_failed(pair: Pair) -> None:
    pair.spoil(cut_the_metadata)
    pair.hold(MERGED)
    seen = survey(Services(pair.world.config), tuple(pair.loaded), ages=False).answered()
    for selection in (Selection(), Selection(table="bad")):
        held, failed = selection.left_out(seen.tables, datetime.now(UTC))
        assert not held
        assert list(failed) == [pair.bad.table]
        assert "cannot be read" in failed[pair.bad.table]


def test_a_warehouse_that_no_table_can_be_read_from_is_not_a_tables_problem(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr("cdc_assets.lake.states.read_short", denied)
    with pytest.raises(UnreachableError, match="PermissionError"):
        Lake(pair.world.config).find_states([(entry.target, "") for entry in pair.loaded])


def test_a_client_that_has_errors_of_its_own_is_not_taken_for_a_damaged_table(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As botocore's, Thrift's and Azure's, which are no `OSError`."""

    class EndpointConnectionError(Exception):
        pass

    def away(*_: object) -> None:
        raise EndpointConnectionError

    monkeypatch.setattr("cdc_assets.lake.states.read_short", away)
    with pytest.raises(UnreachableError, match="EndpointConnectionError"):
        Lake(pair.world.config).find_states([(entry.target, "") for entry in pair.loaded])


def test_the_others_are_judged_if_its_file_cannot_be_had_after_a_look(
    pair: Pair, instance_in_memory: dg.DagsterInstance
) -> None:
    pair.hold(MERGED)
    assert pair.checks(instance_in_memory, pair.bad)[CHECK_OFFSETS].passed
    table = read_table(pair.world.config, pair.bad.target)
    assert table is not None
    metadata_of(table).unlink()
    metadata_of(table).mkdir()
    bad = pair.checks(instance_in_memory, pair.bad)
    assert all("IsADirectoryError" in (each.description or "") for each in bad.values())
    assert all(each.severity is dg.AssetCheckSeverity.WARN for each in bad.values())
    assert pair.checks(instance_in_memory, pair.good)[CHECK_OFFSETS].passed


@BROKEN
def test_a_table_that_cannot_be_read_can_be_dropped(pair: Pair, spoil: Break, said: str) -> None:
    pair.spoil(spoil)
    lake = Lake(pair.world.config)
    lake.drop(pair.bad.target)
    assert lake.state(pair.bad.target) is None, said
    assert lake.drop(pair.bad.target) == ""


def test_a_table_that_was_marked_as_dropped_since_is_not_asked_for(
    pair: Pair, instance_in_memory: dg.DagsterInstance
) -> None:
    """The definitions, and the sensor with them, were loaded before."""
    sensor = replicate_sensor(pair.world.config, pair.loaded, lambda: pair.world.now)
    Broker({pair.good.topic: MERGED}).answer_for(pair.patch)

    def requested() -> list[dg.AssetKey]:
        result = sensor(dg.build_sensor_context(instance=instance_in_memory))
        assert isinstance(result, dg.SensorResult)
        return [key for each in result.run_requests or () for key in each.asset_selection or ()]

    bad = table_key(pair.world.config, pair.bad)
    assert bad in requested(), "its topic is gone"
    registry = RegistryFile(pair.world.config.registry)
    registry.mark_dropped({pair.bad.table: Dropped(pair.world.now)})
    assert requested() == []
