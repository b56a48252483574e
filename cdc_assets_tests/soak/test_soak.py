from __future__ import annotations

import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

from cdc_assets_tests.soak import covered, ledger
from cdc_assets_tests.soak.ledger import Passed
from cdc_assets_tests.soak.plan import Group, Part, State, group, in_order
from cdc_assets_tests.soak.plugin import Soak
from cdc_assets_tests.workers import TESTS

OLD, NEW = Passed("aaaa", date(2026, 1, 1), 5), Passed("bbbb", date(2026, 2, 1), 7)
HERE = Path(__file__)


@pytest.mark.unit
def test_parts_share_all_groups_among_them_whatever_has_run() -> None:
    names = [f"merge/test_{n}" for n in range(21)]
    shares = [Part(n, 8).of(names) for n in range(1, 9)]
    assert frozenset().union(*shares) == frozenset(names)
    assert sum(map(len, shares)) == len(names)
    assert {len(each) for each in shares} == {2, 3}


@pytest.mark.unit
@pytest.mark.parametrize("text", ["0/8", "9/8", "3", "3/", "a/b", "-1/2", "1/0"])
def test_what_is_no_part_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="3/8 is the third of eight"):
        Part.parsed(text)


@pytest.mark.unit
def test_what_never_passed_comes_first_then_what_has_changed_then_the_oldest() -> None:
    groups = [
        Group("same and new", (), State.SAME, date(2026, 3, 1), 0),
        Group("same and old", (), State.SAME, date(2026, 1, 1), 0),
        Group("changed", (), State.CHANGED, date(2026, 2, 1), 0),
        Group("never", (), State.NEVER, None, 0),
    ]
    assert [each.name for each in in_order(groups)] == [
        "never", "changed", "same and old", "same and new",
    ]  # fmt: skip


@pytest.mark.unit
def test_a_part_may_be_among_plugins_of_which_those_of_other_folders_are_left_out() -> None:
    one, two = Soak(Part(1, 2), 1), Soak(Part(1, 2), 1)
    assert {one, two} - {one} == {two}, "as pytest does for folders with a conftest.py"


@pytest.mark.unit
def test_a_group_is_as_old_as_its_oldest_pass() -> None:
    tests = {"a": HERE, "b": HERE}
    found = group("g", tests, {"a": OLD, "b": NEW}, lambda *_: False)
    assert (found.state, found.since, found.seconds) == (State.SAME, OLD.on, 12)
    changed = group("g", tests, {"a": OLD, "b": NEW}, lambda _, commit: commit == "aaaa")
    assert changed.state is State.CHANGED
    assert group("g", tests, {"a": OLD}, lambda *_: False).state is State.NEVER


@pytest.mark.unit
def test_the_ledger_keeps_its_lines_sorted_and_each_test_once(tmp_path: Path) -> None:
    file = tmp_path / "passed.tsv"
    for test, passed in (("b", OLD), ("a", OLD), ("c[x, y]", OLD), ("b", NEW)):
        ledger.add(test, passed, file)
    assert file.read_text().splitlines() == [
        "test\tcommit\ton\tseconds",
        "a\taaaa\t2026-01-01\t5",
        "b\tbbbb\t2026-02-01\t7",
        "c[x, y]\taaaa\t2026-01-01\t5",
    ]
    ledger.prune(frozenset({"a", "d"}), file)
    assert ledger.read(file) == {"a": OLD}


@pytest.mark.unit
def test_the_ledger_that_is_committed_can_be_read_and_is_sorted() -> None:
    lines = ledger.FILE.read_text().splitlines() if ledger.FILE.is_file() else []
    assert lines[1:] == sorted(lines[1:])
    assert len(ledger.read()) == len(lines[1:])


@pytest.mark.unit
def test_a_module_is_about_its_helpers_and_the_folders_that_these_import() -> None:
    about = covered.about(TESTS / "merge" / "test_two_writers.py")
    assert {
        "cdc_assets_tests/merge/test_two_writers.py", "cdc_assets_tests/merge/at_once.py",
        "cdc_assets_tests/pipeline.py", "cdc_assets_tests/conftest.py",
        "cdc_assets/merge/", "cdc_assets/lake/", "cdc_assets/errors.py",
    } <= about  # fmt: skip
    assert "cdc_assets_tests/merge/test_keys.py" not in about


@pytest.mark.unit
def test_a_module_is_widened_by_what_it_imports_too() -> None:
    stack = TESTS / "stack"
    assert covered.is_widened(stack / "test_truth.py")
    assert covered.is_widened(stack / "test_rebuild_from_source.py")
    assert not covered.is_widened(stack / "test_assess.py")


@pytest.mark.unit
def test_a_commit_that_git_does_not_know_counts_as_a_change() -> None:
    assert covered.has_changed(HERE, "0123456789ab")


SUITE = """
import pytest

from cdc_assets_tests.toy import profiles

@pytest.mark.stack
@profiles.in_soak
def test_left(): ...

@pytest.mark.stack
@profiles.in_soak
def test_left_that_fails():
    raise AssertionError

@pytest.mark.stack
def test_of_every_run(): ...

@pytest.mark.property
def test_property(): ...
"""
RUN = """
import os, sys
os.environ["HYPOTHESIS_PROFILE"] = "soak"
import pytest
from pathlib import Path
from cdc_assets_tests.soak import covered, plugin
from cdc_assets_tests.soak.plan import Part

folder, seconds = Path(sys.argv[1]), float(sys.argv[2])
plugin.TESTS = folder
covered.TESTS = covered.CHECKOUT = folder
covered.is_dirty, covered.head = (lambda: False), (lambda: "cccc")
soak = plugin.Soak(Part(), seconds, file=folder / "passed.tsv")
sys.exit(pytest.main(["-q", "-c", "/dev/null", "--rootdir", str(folder), str(folder)],
                     plugins=[soak]))
"""


def run(folder: Path, seconds: float) -> subprocess.CompletedProcess[str]:
    """One part of a suite of four tests."""
    (folder / "test_it.py").write_text(SUITE)
    return subprocess.run(
        [sys.executable, "-c", RUN, str(folder), str(seconds)],
        capture_output=True, text=True, timeout=120, check=False, cwd=TESTS.parent,
    )  # fmt: skip


@pytest.mark.slow
def test_a_part_runs_what_is_left_to_it_and_records_what_has_passed(tmp_path: Path) -> None:
    done = run(tmp_path, 60)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout + done.stderr
    assert "1 failed, 1 passed, 2 deselected" in done.stdout
    assert "1 passed on cccc and were recorded" in done.stdout
    (line,) = ledger.read(tmp_path / "passed.tsv").items()
    assert line[0].endswith("test_it.py::test_left")
    assert line[1].commit == "cccc"


@pytest.mark.slow
def test_a_part_that_runs_out_of_time_says_what_it_did_not_run(tmp_path: Path) -> None:
    done = run(tmp_path, 0)
    assert "part 1/1 ran out of its 0 s before 2 of test_it" in done.stdout, done.stdout
    assert ledger.read(tmp_path / "passed.tsv") == {}
