"""`cdc-assets assess` and its sensor where parts are away: each is a finding, nothing is raised."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest

from cdc_assets.config import ReplicationConfig
from cdc_assets.config.assess import SourceAssessConfig
from cdc_assets.errors import ConfigError
from cdc_assets.lake import Lake
from cdc_assets.operate.assess.finding import Assessment, Note, Verdict
from cdc_assets.operate.assess.gate import require_assessed
from cdc_assets.operate.assess.look import Depth, assess
from cdc_assets.operate.services import Services
from cdc_assets.orchestration.assessing import verdicts
from cdc_assets.orchestration.keys import CHECK_ASSESSED
from cdc_assets.orchestration.sensors import assess_sensor
from cdc_assets_tests.command import run_command
from cdc_assets_tests.configuration import NOWHERE, platform, write
from cdc_assets_tests.world import entry_of, registry_of, write_config

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("impatient")]

PASSWORD = "hunter2"
AWAY = {"kafka", "database", "spark"}
UNSEEN = {"connector_unseen"}


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ReplicationConfig:
    """A lake in a folder, and nothing else that answers."""
    monkeypatch.setenv("SHOP_DSN", f"postgresql://me:{PASSWORD}@{NOWHERE}/shop")
    return write_config(tmp_path)


def test_parts_that_are_away_are_named_with_their_address(
    config: ReplicationConfig, tmp_path: Path
) -> None:
    Services(config).registry.add([entry_of("orders", config)])
    done = run_command(tmp_path, "assess", "--json", config=config.path)
    document = json.loads(done.stdout)
    found = {each["name"]: each for each in document["findings"]}

    assert set(found) == AWAY | UNSEEN
    assert all(
        found[each]["verdict"] == "NO" and NOWHERE in found[each]["problem"] for each in AWAY
    )
    assert not any(each["stops_first_batch"] for each in found.values())
    assert done.returncode == 1
    assert "failed: shop: NO" in done.stderr
    assert PASSWORD not in done.stdout + done.stderr
    assert not [*(tmp_path / "lake").rglob(".cdc-assets-*")]


def test_a_secret_that_this_process_lacks_makes_nothing_a_no(
    config: ReplicationConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dagster may have it: whether the database answers there is not known here."""
    monkeypatch.delenv("SHOP_DSN")
    found = assess(Services(config), ["shop"], [entry_of("orders", config)], Depth()).findings
    (database,) = (each for each in found if each.name == "database")
    assert database.verdict is Verdict.PARTIAL
    assert database.problem == (
        "environment variable SHOP_DSN is not set in this process, so that it did not ask"
    )
    assert database.remedy.startswith("export SHOP_DSN=… before starting; or see the check")
    assert {each.name for each in found if each.verdict is Verdict.NO} == {"kafka"}


def test_a_source_that_is_not_configured_is_bad_usage(
    config: ReplicationConfig, tmp_path: Path
) -> None:
    assert run_command(tmp_path, "assess", "--source", "none", config=config.path).returncode == 2


def test_parts_that_are_away_stop_no_first_batch(config: ReplicationConfig) -> None:
    require_assessed(Services(config), entry_of("orders", config))


def test_a_part_that_nobody_can_ask_is_partial_until_it_is_accepted(
    config: ReplicationConfig,
) -> None:
    entry = entry_of("orders", config)

    def found(*accept: str) -> dict[str, Verdict]:
        said = {"assess": SourceAssessConfig(accept=accept), "database": None}
        shop = config.sources["shop"].model_copy(update=said)
        services = Services(config.model_copy(update={"sources": {"shop": shop}}))
        findings = assess(services, ["shop"], [entry], Depth()).findings
        assert not any(each.stops for each in findings)
        return {each.name: each.verdict for each in findings if each.name != "kafka"}

    unseen = {"connector_unseen": Verdict.PARTIAL, "tables_unseen": Verdict.PARTIAL}
    assert found() == unseen
    assert found(*unseen) == {}


def test_a_table_is_told_what_nobody_looked_at(config: ReplicationConfig) -> None:
    entries = [entry_of("items", config), entry_of("orders", config)]
    notes = (Note("Spark was not asked"), Note("half of it", entries[0].table))
    at, tables = datetime(2026, 1, 1, tzinfo=UTC), tuple(each.table for each in entries)
    found = Assessment(at, ("shop",), tables, (), notes)
    items, orders = verdicts(config, entries, found)
    assert items.passed
    assert (
        items.description == "nothing is in the way (not judged: Spark was not asked; half of it)"
    )
    assert orders.metadata["not judged"] == "Spark was not asked"


def test_a_warehouse_that_cannot_be_written_is_a_finding(
    config: ReplicationConfig, tmp_path: Path
) -> None:
    file = tmp_path / "a file"
    file.touch()
    lake = config.lake.model_copy(update={"warehouse": f"file://{file}"})
    services = Services(config.model_copy(update={"lake": lake}))
    found = assess(services, ["shop"], [], Depth(writes=True))
    (warehouse,) = (each for each in found.findings if each.name == "warehouse")
    assert "cannot be written" in warehouse.problem


def test_what_is_written_to_the_warehouse_is_gone_again(
    config: ReplicationConfig, tmp_path: Path
) -> None:
    place = f"{config.lake.warehouse}/tried"
    assert Lake(config).write_and_delete(place) == ""
    assert not (tmp_path / "lake" / "warehouse" / "tried").exists()


def test_the_sensor_writes_the_check_of_each_table_once(config: ReplicationConfig) -> None:
    sensor = assess_sensor(config, registry_of(config, "items", "orders"))
    with dg.DagsterInstance.ephemeral() as instance:
        first = sensor(dg.build_sensor_context(instance))
        assert isinstance(first, dg.SensorResult)
        again = sensor(dg.build_sensor_context(instance, cursor=first.cursor))
    assert isinstance(again, dg.SensorResult)
    checks = [each for each in first.asset_events if isinstance(each, dg.AssetCheckEvaluation)]
    assert [(c.check_name, c.passed, c.asset_key.path[-1]) for c in checks] == [
        (CHECK_ASSESSED, False, "items"),
        (CHECK_ASSESSED, False, "orders"),
    ]
    assert "Kafka" in str(checks[0].description)
    assert again.asset_events == []


def test_a_name_that_is_no_finding_is_refused(tmp_path: Path) -> None:
    said = {"accept": ["compactd"]}
    shop = {"format": "debezium-json", "topics": {"include": ["shop"]}, "assess": said}
    document = platform(sources={"shop": shop})
    with pytest.raises(ConfigError, match="compacted"):
        write(tmp_path / "replication.yaml", document)
