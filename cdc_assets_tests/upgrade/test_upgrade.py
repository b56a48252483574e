"""Each release's tables, notes and logs are gone on with, as if the release had merged them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest

from cdc_assets.config import ReplicationConfig
from cdc_assets.lake import Lake
from cdc_assets.operate.contiguity import gaps
from cdc_assets.registry import RegistryFile
from cdc_assets_tests.lake_view import read_table
from cdc_assets_tests.pipeline import Session
from cdc_assets_tests.upgrade.state import RELEASES, State, own_place, releases
from cdc_assets_tests.upgrade.test_promises import RULES, read

pytestmark = pytest.mark.stack
KEYED = "public.keyed"
Fields = Mapping[str, Mapping[str, list[str]]]


@pytest.fixture(params=releases())
def release(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def state(
    release: str, stack_config: ReplicationConfig, kafka_bootstrap: str, spark: Session
) -> Iterator[State]:
    assert kafka_bootstrap
    with own_place(release) as place:
        made = State(stack_config, spark, place, read(release, "sources"))
        made.restore(RELEASES / release)
        yield made
        made.forget()


def test_a_release_is_gone_on_with(release: str, state: State) -> None:
    told = read(release, "expected")
    assert set(held(told["left"])) == {"PAUSED", "FAILING"}
    require_standing(state, told["left"])
    assert state.standing()["failed"] == told["left"]["failed"], "with its reason"
    with damaged(state, KEYED):
        state.run("replicate", "--table", state.table(KEYED), fails=True)
    state.run("resume", "--table", state.table(KEYED))

    state.merge()
    found = state.rows()
    for table, rows in told["rows"].items():
        assert found[table] == rows, table
    require_standing(state, {**told["after"], "cuts": told["left"]["cuts"]})
    require_fields(read(release, "outputs"), state.outputs())
    lake = Lake(state.config)
    for each in RegistryFile(state.config.registry).load():
        assert gaps(lake.history(each.target, 1000, each.shard_value)) == [], each


@contextmanager
def damaged(state: State, table: str) -> Iterator[None]:
    """The newest snapshot of a table says half of what it has to."""
    entries = RegistryFile(state.config.registry).load()
    (target,) = (e.target for e in entries if str(e.table) == state.table(table))
    loaded = read_table(state.config, target)
    assert loaded is not None
    good = loaded.metadata_location
    metadata = json.loads(Path(urlparse(good).path).read_text())
    newest = metadata["current-snapshot-id"]
    (snapshot,) = (each for each in metadata["snapshots"] if each["snapshot-id"] == newest)
    packed = snapshot["summary"]["cdc-assets.packed"]
    snapshot["summary"]["cdc-assets.packed"] = packed[: len(packed) // 2]
    bad = good.replace(".metadata.json", "-bad.metadata.json")
    Path(urlparse(bad).path).write_text(json.dumps(metadata))
    state.point(good, bad)
    yield
    state.point(bad, good)


def held(standing: Mapping[str, Any]) -> dict[str, list[str]]:
    """Tables by state; other states are of the moment."""
    states = standing["states"].items()
    found = {word: [table for table, each in states if each == word]
             for word in ("PAUSED", "FAILING")}  # fmt: skip
    return {word: tables for word, tables in found.items() if tables}


def require_standing(state: State, told: Mapping[str, Any]) -> None:
    """What people are shown is what the release has shown."""
    found = state.standing()
    assert held(found) == held(told)
    for part in ("paused", "quarantined"):
        assert found[part] == told[part], part
    assert {*told["cuts"]} <= {*found["cuts"]}, "how soon others are taken is of the moment"


def require_fields(old: Fields, new: Fields) -> None:
    """A field of another type, or none, is one that programs miss."""
    broken = [
        f"{command} --json: {place}"
        for command, fields in old.items()
        for place, types in fields.items()
        if place not in new[command]
        or (types and new[command][place] and not {*types} & {*new[command][place]})
    ]
    assert not broken, f"{broken}; {RULES}"
