"""Reading tables again from the UI: what is refused is said by name, before anything is read."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from cdc_assets.changes.names import TableName
from cdc_assets.config import ReplicationConfig
from cdc_assets.desired import DesiredBook, Directive, DirectiveNote
from cdc_assets.orchestration import build_definitions
from cdc_assets.registry import RegistryFile
from cdc_assets_tests.command import run_command
from cdc_assets_tests.orchestration.failed import reason
from cdc_assets_tests.world import registry_of, write_config

pytestmark = pytest.mark.slow

ORDERS = TableName("shop", "public", "orders")


@pytest.fixture
def config(tmp_path: Path) -> ReplicationConfig:
    config = write_config(tmp_path)
    RegistryFile(config.registry).add(registry_of(config, "items", "orders"))
    desired = DesiredBook.of_registry(config.registry)
    desired.put(
        ORDERS, Directive.PAUSED, DirectiveNote(datetime(2026, 3, 4, 12, tzinfo=UTC), "somebody")
    )
    return config


def launch(
    config: ReplicationConfig, instance: dg.DagsterInstance, **wish: Any
) -> dg.ExecuteInProcessResult:
    definitions = build_definitions(config, registry_of(config, "items", "orders"))
    job = definitions.resolve_job_def("resnapshot_tables")
    run_config = {"ops": {"read_again": {"config": wish}}}
    return job.execute_in_process(run_config, instance=instance, raise_on_error=False)


def test_a_paused_table_is_not_waited_for(
    config: ReplicationConfig, instance: dg.DagsterInstance
) -> None:
    done = launch(config, instance, tables=["orders"])
    assert not done.success
    assert "shop.public.orders" in reason(done)
    assert "paused since 2026-03-04 12:00:00Z by somebody" in reason(done)


def test_nothing_chosen_reads_nothing(
    config: ReplicationConfig, instance: dg.DagsterInstance
) -> None:
    done = launch(config, instance)
    assert not done.success
    assert "which tables?" in reason(done)


def test_the_command_says_the_same_and_exits_with_1_or_2(config: ReplicationConfig) -> None:
    assert config.path is not None
    folder = config.path.parent
    held = run_command(folder, "resnapshot", "--table", "orders", "--json")
    assert held.returncode == 1
    assert "paused since" in held.stderr
    assert '"dry_run": false' in held.stdout
    assert run_command(folder, "resnapshot").returncode == 2
    assert run_command(folder, "resnapshot", "--table", "orders", "--via", "smoke").returncode == 2


@pytest.mark.parametrize("wish", [{"via": "signal"}, {"do": "stop"}], ids=["asked", "stopped"])
def test_a_connector_that_is_not_known_cannot_be_signalled(
    config: ReplicationConfig, instance: dg.DagsterInstance, wish: dict[str, str]
) -> None:
    done = launch(config, instance, tables=["items"], **wish)
    assert not done.success
    assert "no connector is known that writes its topic" in reason(done)
    assert "sources.shop.connect.url" in reason(done)


def test_what_only_a_connector_does_is_asked_of_no_other(config: ReplicationConfig) -> None:
    assert config.path is not None
    done = run_command(config.path.parent, "resnapshot", "--table", "items", "--pause")
    assert done.returncode == 2
    assert "give --via signal" in done.stderr
