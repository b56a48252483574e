"""`operations.from_ui` says which operations Dagster's UI has."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from cdc_assets.config import ReplicationConfig
from cdc_assets.config.platform import Operation
from cdc_assets.errors import ConfigError
from cdc_assets.orchestration.build import build_definitions
from cdc_assets.registry import Registry
from cdc_assets_tests.world import write_config

pytestmark = pytest.mark.unit

SCHEDULED = {"housekeeping"}


def jobs(config: ReplicationConfig) -> set[str]:
    return {each.name for each in build_definitions(config, Registry()).jobs or ()}


def test_all_of_them_if_nothing_is_said(tmp_path: Path) -> None:
    assert jobs(write_config(tmp_path)) - SCHEDULED == {*get_args(Operation)}


@pytest.mark.parametrize("name", ["", "east"])
def test_those_that_are_named(tmp_path: Path, name: str) -> None:
    few = ["verify_tables", "pause_tables"]
    config = write_config(tmp_path, name=name, operations={"from_ui": few})
    prefix = f"{name}_" if name else ""
    assert {each.removeprefix(prefix) for each in jobs(config)} - SCHEDULED == {*few}
    assert not jobs(write_config(tmp_path, operations={"from_ui": []})) - SCHEDULED


def test_one_that_there_is_not_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="from_ui"):
        write_config(tmp_path, operations={"from_ui": ["burn_tables"]})
