"""The example project, outside of the package."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pyarrow as pa
import pytest

from cdc_assets.config import load_config
from cdc_assets_tests.lake_view import open_catalog

EXAMPLE = Path(__file__).parents[2] / "examples" / "dagster-project"
DEFS = "src/shop_platform/defs"


@pytest.mark.unit
def test_the_example_loads_as_it_is(tmp_path: Path) -> None:
    project = Path(shutil.copytree(EXAMPLE, tmp_path / "project"))
    code = (
        "import dagster as dg\n"
        "from shop_platform.definitions import defs\n"
        "repository = defs().get_repository_def()\n"
        "print(*sorted(each.name for each in repository.sensor_defs))\n"
        "print(*(key.to_user_string() for key in repository.asset_graph.get_all_asset_keys()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False,
        cwd=tmp_path, env={"PATH": "", "HOME": str(tmp_path), "PYTHONPATH": str(project / "src")},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = {*done.stdout.split()}
    assert {"orders_report", "conditions"} <= found
    assert {"east_discover", "east_replicate", "west_discover", "west_replicate"} <= found


@pytest.mark.unit
def test_the_report_counts_what_is_in_the_lake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = Path(shutil.copytree(EXAMPLE, tmp_path / "project"))
    (project / ".cdc" / "lake").mkdir(parents=True)
    catalog = open_catalog(load_config(project / DEFS / "east" / "replication.yaml"))
    catalog.create_namespace("east_public")
    rows = pa.table({"id": [1, 2]})
    catalog.create_table("east_public.orders", rows.schema).append(rows)
    for name in [each for each in sys.modules if each.startswith("shop_platform")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(project / "src")

    result = import_module("shop_platform.defs.reports.assets").orders_report()
    assert result.metadata == {"orders": 2}
