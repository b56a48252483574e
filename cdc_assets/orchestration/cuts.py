"""Shows the cuts of a source in Dagster: an asset that is materialized with each of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import dagster as dg

from cdc_assets.changes.names import cuts_name
from cdc_assets.config import ReplicationConfig
from cdc_assets.orchestration.keys import consistent_key, table_key
from cdc_assets.orchestration.metadata import DATA_VERSION_TAG
from cdc_assets.registry import TableEntry

if TYPE_CHECKING:
    from cdc_assets.lake.cuts import StoredCut


def consistent_spec(
    config: ReplicationConfig, source: str, entries: Iterable[TableEntry]
) -> dg.AssetSpec:
    """Returns the asset that is materialized with each cut of a source."""
    return dg.AssetSpec(
        consistent_key(config, source),
        deps=[table_key(config, each) for each in entries],
        group_name=source,
        kinds={"iceberg"},
        description=(
            f"All tables of `{source}` as of one commit of it. What depends on this asset reads "
            f"them with `cdc_assets.consistent(catalog, {source!r})`, or at the tag `consistent`."
        ),
        metadata={"dagster/table_name": f"{config.lake.catalog.name}.{cuts_name(source)}"},
    )


def cut_event(config: ReplicationConfig, source: str, cut: StoredCut) -> dg.AssetMaterialization:
    """Returns the materialization of a cut."""
    rows = [
        dg.TableRecord({"table": each.qualified, "snapshot": str(each.snapshot)})
        for each in cut.tables
    ]
    return dg.AssetMaterialization(
        consistent_key(config, source),
        metadata={
            "cut": cut.number,
            "transaction": cut.transaction,
            "committed_at": dg.MetadataValue.timestamp(cut.committed_at),
            "seconds_behind": (cut.added_at - cut.committed_at).total_seconds(),
            "snapshots": dg.MetadataValue.table(rows),
        },
        tags={DATA_VERSION_TAG: str(cut.number)},
    )
