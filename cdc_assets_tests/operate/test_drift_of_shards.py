"""A table that shares its lake table with others is found again under its new name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from cdc_assets.changes.names import Shard, TableName
from cdc_assets.databases import kinds
from cdc_assets.lake import TableState
from cdc_assets.lake.at_source import AtSource
from cdc_assets.operate.schema_drift import drifts
from cdc_assets.operate.services import Services
from cdc_assets_tests.world import entry_of, write_config

pytestmark = pytest.mark.unit

SHARD = Shard("region", "eu")


class Renamed:
    """A catalog that has the table under another name."""

    def read(self, names: Sequence[TableName]) -> Mapping[TableName, object]:
        del names
        return {}

    def called(self, identities: Iterable[str]) -> Mapping[str, tuple[str, str]]:
        return dict.fromkeys(identities, ("public", "sales"))


@pytest.mark.parametrize("shard", [None, SHARD], ids=["alone", "with others"])
def test_a_renamed_table_is_not_taken_for_a_dropped_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shard: Shard | None
) -> None:
    monkeypatch.setattr(kinds, "catalog_of", lambda _: Renamed())
    config = write_config(tmp_path)
    entry = replace(entry_of("orders", config), shard=shard)
    said = AtSource(identity="16400").to_properties(entry.shard_value)
    state = replace(TableState.absent(entry.target), properties=said)
    drift = drifts(Services(config), [(entry, state)])[entry.table]
    assert (drift.is_gone, drift.called, drift.is_dropped) == (True, "public.sales", False)
