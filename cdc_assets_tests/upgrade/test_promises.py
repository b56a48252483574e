"""What a release has promised is kept: only a major version takes a part away."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cdc_assets.config import load_config
from cdc_assets.reference import page
from cdc_assets_tests.configuration import platform, write
from cdc_assets_tests.upgrade.promises import fields_of, missing, narrowed, promises
from cdc_assets_tests.upgrade.state import RELEASES, releases

pytestmark = pytest.mark.unit

RULES = f"deprecate it first, see {page('reference/compatibility.md#deprecation')}"


def read(release: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RELEASES / release / f"{name}.json").read_text())
    return found


@pytest.fixture(scope="module")
def present() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(promises()))
    return found


@pytest.mark.parametrize(
    "part",
    ["commands", "configuration", "dagster", "exit codes", "findings", "metrics", "python"],
)
@pytest.mark.parametrize("release", releases())
def test_what_a_release_has_promised_is_there(
    present: dict[str, Any], release: str, part: str
) -> None:
    broken = [*missing(read(release, "promises")[part], present[part])]
    assert not broken, f"{release} promised in {part}: {broken}; {RULES}"


@pytest.mark.parametrize("release", releases())
def test_nothing_more_is_asked_for_than_a_release_did(
    present: dict[str, Any], release: str
) -> None:
    broken = [*narrowed(read(release, "promises"), present)]
    assert not broken, f"{release} promised less: {broken}; {RULES}"


@pytest.mark.parametrize("release", releases())
def test_the_configuration_of_a_release_is_read(release: str, tmp_path: Path) -> None:
    file = tmp_path / "replication.yaml"
    write(file, platform(sources=read(release, "sources")))
    assert set(load_config(file).sources) == set(read(release, "sources"))


OLD = {
    "keys": {"a": {"types": ["null", "string"], "default": 1, "bounds": {"minimum": 1}}},
    "names": ["x", "y"],
}


@pytest.mark.parametrize(
    ("new", "words"),
    [
        ({"keys": {}, "names": ["x", "y"]}, ["keys: a is gone"]),
        ({"keys": OLD["keys"], "names": ["y", "z"]}, ["names: x is gone"]),
        (
            {"keys": {"a": {"types": ["string"], "default": 2}}, "names": ["x", "y"]},
            ["keys: a: types: null is gone", "keys: a: default: was 1, is 2"],
        ),
        ({**OLD, "more": 1, "names": ["x", "y", "z"]}, []),
    ],
    ids=["key", "word", "value", "more"],
)
def test_what_is_gone_or_changed_is_named_and_what_is_added_is_not(
    new: dict[str, Any], words: list[str]
) -> None:
    assert [*missing(OLD, new)] == words


def asking(keys: list[str], *parameters: str, **bounds: float) -> dict[str, Any]:
    required = {"configuration": {"a": keys}, "commands": {"do": [*parameters]}}
    return {"required": required, "configuration": {"a.b": {"bounds": bounds}}}


def test_what_is_asked_for_in_addition_is_named() -> None:
    old = asking(["b"], "table", minimum=1, maximum=9)
    assert [*narrowed(old, asking([], minimum=0, maximum=10))] == []
    more = asking(["b", "c"], "table", "why", minimum=2, maximum=9, minLength=1)
    assert [*narrowed(old, more)] == [
        "a c must be given now", "do why must be given now", "a.b: minimum was 1, is 2",
        "a.b: minLength was None, is 1",
    ]  # fmt: skip
    more["required"]["commands"]["new"] = ["table"]
    assert len([*narrowed(old, more)]) == 4, "what is new asks for what it likes"


def test_fields_are_places_with_types_without_names_of_tables() -> None:
    document = {"tables": [{"name": "a", "lag": None, "offsets": {"0": 7}}], "failed": {"s.a": "x"}}
    assert fields_of(document) == {
        "": [], ".failed": [], ".failed.*": ["str"], ".tables": [], ".tables[]": [],
        ".tables[].lag": [], ".tables[].name": ["str"], ".tables[].offsets": [],
        ".tables[].offsets.*": ["number"],
    }  # fmt: skip
