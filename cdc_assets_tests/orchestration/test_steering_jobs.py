"""What a person can do to tables from the UI: the same as by command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from cdc_assets.changes.names import TableName
from cdc_assets.config import ReplicationConfig
from cdc_assets.desired import DesiredBook
from cdc_assets.orchestration import build_definitions
from cdc_assets.registry import RegistryFile
from cdc_assets_tests.orchestration.failed import reason
from cdc_assets_tests.world import registry_of, write_config

pytestmark = pytest.mark.slow

ORDERS = TableName("shop", "public", "orders")


class Ui:
    """Its launchpad, with the definitions of three tables."""

    def __init__(self, config: ReplicationConfig, instance: dg.DagsterInstance) -> None:
        registry = registry_of(config, "items", "orders", "users")
        RegistryFile(config.registry).add(registry)
        self.desired = DesiredBook.of_registry(config.registry)
        self._definitions, self._instance = build_definitions(config, registry), instance

    def launch(self, job: str, **config: Any) -> dg.ExecuteInProcessResult:
        found = self._definitions.resolve_job_def(job)
        run_config = {"ops": {job.partition("_")[0]: {"config": config}}}
        return found.execute_in_process(
            run_config, instance=self._instance, raise_on_error=False
        )  # fmt: skip


def told(result: dg.ExecuteInProcessResult) -> dict[str, str | None]:
    found = [each.asset_observation_data.asset_observation for each in result.all_events
             if each.event_type is dg.DagsterEventType.ASSET_OBSERVATION]  # fmt: skip
    return {each.asset_key.to_user_string(): each.description for each in found}


@pytest.fixture
def ui(tmp_path: Path, instance: dg.DagsterInstance) -> Ui:
    return Ui(write_config(tmp_path), instance)


def test_tables_are_paused_and_resumed_and_their_pages_say_so(ui: Ui) -> None:
    done = ui.launch("pause_tables", tables=["orders"], why="index is rebuilt")
    assert done.success
    paused = ui.desired.of(ORDERS).paused
    assert paused is not None
    assert (paused.by, paused.why) == (f"pause_tables {done.run_id}", "index is rebuilt")
    (page,) = told(done).items()
    assert page[0] == "shop/public/orders"
    assert "paused: no run is started for it" in (page[1] or "")
    assert told(ui.launch("pause_tables", tables=["orders"])) == {}, "nothing new"

    ui.launch("pause_tables", source="shop")
    assert len(ui.desired.load()) == 3
    done = ui.launch("resume_tables", every=True)
    assert len(told(done)) == 3
    assert "index is rebuilt" in (told(done)["shop/public/orders"] or "")
    assert ui.desired.load() == {}


def test_a_table_is_dropped_and_its_page_says_that_the_lake_keeps_it(ui: Ui) -> None:
    done = ui.launch("drop_tables", tables=["orders"], why="it has moved")
    assert done.success
    dropped = ui.desired.of(ORDERS).dropped
    assert dropped is not None
    assert (dropped.by, dropped.why) == (f"drop_tables {done.run_id}", "it has moved")
    assert "the lake keeps shop_public.orders" in (told(done)["shop/public/orders"] or "")
    assert ui.launch("resume_tables", tables=["orders"]).success
    assert ui.desired.load() == {}


def test_a_dry_run_does_nothing(ui: Ui) -> None:
    assert ui.launch("pause_tables", tables=["orders"], dry_run=True).success
    assert ui.desired.load() == {}


@pytest.mark.parametrize("chosen", [{}, {"tables": ["nothing"]}], ids=["none", "unknown"])
def test_a_run_that_names_no_table_fails(ui: Ui, chosen: dict[str, Any]) -> None:
    assert not ui.launch("pause_tables", **chosen).success
    assert ui.desired.load() == {}


@pytest.mark.parametrize(
    ("job", "more"), [("drop_tables", {"lake": True}), ("drop_tables", {}), ("reset_tables", {})],
    ids=["dropped from the lake", "dropped", "reset"],
)  # fmt: skip
def test_what_removes_is_never_meant_for_all(ui: Ui, job: str, more: dict[str, Any]) -> None:
    with pytest.raises(dg.DagsterInvalidConfigError, match="every"):
        ui.launch(job, every=True, **more)
    done = ui.launch(job, **more)
    assert not done.success
    assert "which tables?" in reason(done)
    assert ui.desired.load() == {}
