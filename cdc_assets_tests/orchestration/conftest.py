from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.storage.defs_state.base import set_defs_state_storage

from cdc_assets_tests.world import World


@pytest.fixture(autouse=True)
def _no_instance_of_another_test() -> Iterator[None]:
    """Forget the instance of a test whose contexts of sensors nobody has left: it may be gone."""
    with set_defs_state_storage(None):
        yield


@pytest.fixture
def world(tmp_path: Path, kafka_bootstrap: str) -> Iterator[World]:
    made = World(tmp_path, kafka_bootstrap)
    yield made
    made.close()


@pytest.fixture(scope="session")
def empty_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an instance without runs: its databases are made by a hundred migrations."""
    folder = tmp_path_factory.mktemp("dagster")
    with dg.instance_for_test(temp_dir=str(folder)):
        return folder


@pytest.fixture
def instance(tmp_path: Path, empty_home: Path) -> Iterator[dg.DagsterInstance]:
    shutil.copytree(empty_home, tmp_path, dirs_exist_ok=True)
    with dg.instance_for_test(temp_dir=str(tmp_path)) as made:
        yield made


@pytest.fixture
def instance_in_memory() -> Iterator[dg.DagsterInstance]:
    """For one thread, and what does not depend on how Dagster stores things: made in no time."""
    with dg.DagsterInstance.ephemeral() as made:
        yield made
