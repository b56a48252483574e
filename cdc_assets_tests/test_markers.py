from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cdc_assets_tests.markers import DAGSTER, KINDS, LOCAL_STACK, chosen_by, fault_of, kinds_in

CONFTEST = """
from cdc_assets_tests.markers import require_one_kind

def pytest_collection_modifyitems(items):
    require_one_kind(items)
"""
SUITE = """
import pytest

@pytest.fixture
def _local_stack(): ...

@pytest.fixture
def spark(_local_stack): ...

@pytest.mark.unit
def test_good(): ...

def test_of_no_kind(): ...

@pytest.mark.spark
@pytest.mark.stack
def test_of_two_kinds(): ...

@pytest.mark.unit
def test_that_starts_a_jvm(spark): ...
"""


@pytest.mark.unit
@pytest.mark.parametrize("kind", KINDS)
def test_one_kind_is_right_beside_other_markers(kind: str) -> None:
    assert fault_of([kind, "parametrize", kind], []) is None


@pytest.mark.unit
@pytest.mark.parametrize("kind", ["unit", "property", "slow"])
def test_what_is_to_be_quick_starts_no_stack(kind: str) -> None:
    assert "starts the local stack" in (fault_of([kind], [LOCAL_STACK]) or "")


@pytest.mark.unit
@pytest.mark.parametrize("kind", ["spark", "stack"])
def test_the_others_may_start_it(kind: str) -> None:
    assert fault_of([kind], [LOCAL_STACK]) is None


@pytest.mark.unit
@pytest.mark.parametrize("fixture", sorted(DAGSTER))
def test_a_unit_test_makes_no_instance_of_dagster(fixture: str) -> None:
    assert "makes a Dagster instance" in (fault_of(["unit"], [fixture]) or "")
    assert fault_of(["slow"], [fixture]) is None


@pytest.mark.unit
@pytest.mark.parametrize(
    ("expression", "kinds"),
    [
        ("unit", {"unit"}),
        ("unit or property", {"unit", "property"}),
        ("", set(KINDS)),
        ("not stack", set(KINDS)),
        ("unit and quick", set(KINDS)),
        ("quick or unit", set(KINDS)),
    ],
)
def test_only_a_list_of_kinds_leaves_modules_out(expression: str, kinds: set[str]) -> None:
    assert chosen_by(expression) == kinds


@pytest.mark.unit
def test_a_module_names_its_kinds(tmp_path: Path) -> None:
    module = tmp_path / "test_it.py"
    module.write_text("mark = pytest.mark.stack\n@pytest.mark.unit\n# pytest.mark.timeout")
    assert kinds_in(module) == {"stack", "unit"}


@pytest.mark.slow
def test_collection_names_each_test_and_runs_none(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(SUITE)
    (tmp_path / "conftest.py").write_text(CONFTEST)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-c", "/dev/null",
         "--rootdir", str(tmp_path), str(tmp_path)],
        capture_output=True, text=True, timeout=60, check=False,
        cwd=Path(__file__).parents[1],
    )  # fmt: skip
    said = done.stdout + done.stderr
    assert done.returncode == pytest.ExitCode.USAGE_ERROR, said
    assert "test_it.py::test_of_no_kind needs exactly one of the markers" in said
    assert "test_it.py::test_of_two_kinds" in said
    assert "has spark and stack" in said
    assert "test_it.py::test_that_starts_a_jvm is marked unit and starts the local stack" in said
    assert "test_good" not in said
    assert "passed" not in said
