"""``docs/proof.md`` says of each file of tests how much of it ``make test`` runs."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from cdc_assets_tests.toy import profiles
from cdc_assets_tests.workers import TESTS

PAGE: Final = TESTS.parent / "docs" / "proof.md"
MARKED: Final = ("Promises", "Scenarios", "Faults of other systems")
"""The tables in which a file of tests stands for a claim."""

NAME: Final = re.compile(r"`(?P<file>[\w/]*test_\w+\.py)`(?: \((?P<mark>soak|in part)[):,;])?")
WHOLE, PART, NONE = "soak", "in part", ""


class Seen:
    """What was collected, as a plug-in of pytest."""

    items: tuple[pytest.Item, ...] = ()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.items = tuple(session.items)


def named(page: str) -> Iterator[tuple[str, str, str]]:
    """Each file that a table of claims names: the table's row, the file, its mark."""
    section = ""
    for line in page.splitlines():
        section = line.removeprefix("## ") if line.startswith("## ") else section
        if section in MARKED and line.startswith("|"):
            for found in NAME.finditer(line):
                yield line.strip("| ")[:40], found["file"], found["mark"] or NONE


def left_of(files: set[str]) -> dict[str, str]:
    """How much of each of these files ``make test`` leaves to the soak, as the page marks it."""
    seen = Seen()
    arguments = ["-qq", "--collect-only", "-o", "addopts=", "-p", "no:cacheprovider"]
    done = pytest.main([*arguments, *(str(TESTS / each) for each in sorted(files))], plugins=[seen])
    assert done == pytest.ExitCode.OK
    left: dict[str, set[bool]] = defaultdict(set)
    for item in seen.items:
        file = Path(item.path).relative_to(TESTS).as_posix()
        left[file].add(profiles.is_left_to_soak(item))
    words = {frozenset({True}): WHOLE, frozenset({True, False}): PART, frozenset({False}): NONE}
    return {file: words[frozenset(found)] for file, found in left.items()}


@pytest.mark.slow
def test_the_page_of_proof_marks_what_make_test_leaves_to_the_soak() -> None:
    mentions = list(named(PAGE.read_text()))
    assert mentions
    missing = {file for _, file, _ in mentions if not (TESTS / file).is_file()}
    assert missing == set(), "a file that a claim names is not there"
    left = left_of({file for _, file, _ in mentions})
    wrong = [
        f"{row}…: `{file}` is marked ({mark or 'nothing'}); it must be ({left[file] or 'nothing'})"
        for row, file, mark in mentions
        if left[file] != mark
    ]
    assert wrong == [], "\n".join(wrong)


@pytest.mark.unit
@pytest.mark.parametrize(
    ("text", "mark"),
    [
        ("`stack/test_kills.py` (soak)", WHOLE),
        ("`stack/test_kills.py` (soak: under load)", WHOLE),
        ("`merge/test_deletes.py` (in part)", PART),
        ("`merge/test_deletes.py` (in part; what a delete leaves)", PART),
        ("`merge/test_merge.py`", NONE),
        ("`merge/test_merge.py` (in the soak with every type)", NONE),
    ],
)
def test_a_mark_follows_its_name(text: str, mark: str) -> None:
    assert [found for _, _, found in named(f"## Scenarios\n| 1 | x | {text} |")] == [mark]
