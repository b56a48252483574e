"""Each message belongs to an entry of the reference of errors, and each entry to a message."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cdc_assets import errors
from cdc_assets.errors import (
    CdcError,
    ConfigError,
    HungError,
    LostRangeError,
    TerminalError,
    UnreachableError,
)
from cdc_assets.reference import ERRORS, entry_of, explained, finding_page

pytestmark = pytest.mark.unit
CHECKOUT = Path(__file__).parents[1]


SOURCES = "".join(
    file.read_text()
    for folder in ("cdc_assets", "packages")
    for file in (CHECKOUT / folder).rglob("*.py")
    if file.name != "reference.py"
)
"""All modules of the product and of the local stack, but the table itself."""


def classes() -> set[str]:
    """The names of all classes of errors."""
    bases = dict[str, str](re.findall(r"^class (\w+)\((\w+)\):", SOURCES, re.MULTILINE))
    found, before = {"CdcError"}, set[str]()
    while found != before:
        before = {*found}
        found |= {name for name, base in bases.items() if base in before}
    return found


@pytest.mark.parametrize("phrase", [phrase for each in ERRORS for phrase in each.phrases])
def test_each_phrase_is_part_of_a_message(phrase: str) -> None:
    assert phrase in SOURCES


def test_each_class_has_an_entry_or_is_one_of_a_class_that_has() -> None:
    named = {each.kind for each in ERRORS if each.kind}
    assert named - {"Exception"} <= classes()
    own = {name for name, value in vars(errors).items() if isinstance(value, type)
           and issubclass(value, CdcError)}  # fmt: skip
    assert own <= named


def test_ids_are_anchors_and_are_used_once() -> None:
    ids = [each.id for each in ERRORS]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", each) for each in ids)


@pytest.mark.parametrize(
    ("error", "anchor"),
    [
        (LostRangeError("the log no longer holds its beginning: 0:[0,5) was never merged"),
         "lost-beginning"),
        (LostRangeError("the log ends before the committed offsets (0:3)"), "lost-range"),
        (UnreachableError("Kafka does not answer (_TRANSPORT)"), "kafka-silent"),
        (UnreachableError("the webhook did not accept the alert"), "unreachable"),
        (HungError("the step was not over"), "hung"),
        (ConfigError("unknown key 'topic'"), "config"),
        (TerminalError("something else"), "terminal"),
        (ValueError("a row's value"), "unexpected"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)  # fmt: skip
def test_a_message_ends_with_the_address_of_its_entry(error: Exception, anchor: str) -> None:
    assert entry_of(error).id == anchor
    address = (
        f"https://github.com/cdc-assets/cdc-assets/blob/main/docs/reference/errors.md#{anchor}"
    )
    assert explained(error).endswith(f"; see {address}")
    assert "a row's value" not in explained(error)


def test_a_finding_has_an_address() -> None:
    assert finding_page("compacted").endswith("docs/reference/findings.md#compacted")
