"""A world without Spark in which records lie in quarantine: written by PyIceberg."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

import pyarrow as pa

from cdc_assets.changes.latency import LatencyHistogram
from cdc_assets.changes.names import LakeName
from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.changes.slo import SloWindow
from cdc_assets.lake.properties import Published
from cdc_assets.lake.quarantined import quarantine_name
from cdc_assets_tests.world import World

CANARY = "canary-4f0a"
REASON = "column n: a value does not fit [bigint]"
_TIME = pa.timestamp("us", tz="UTC")
SCHEMA = pa.schema(
    {
        "table": pa.string(), "topic": pa.string(), "partition": pa.int32(), "offset": pa.int64(),
        "timestamp": _TIME, "reason": pa.string(), "key": pa.binary(), "value": pa.binary(),
        "run_id": pa.string(), "quarantined_at": _TIME,
    }
)  # fmt: skip


@dataclass
class QuarantineWorld(World):
    """Also sets records aside, and publishes how many there are."""

    def set_aside(
        self, table: str, places: Iterable[tuple[int, int]], *, run_id: str = "run-1",
        source: str = "shop", topic_id: str | None = None,
    ) -> None:  # fmt: skip
        """Records of a table of schema ``public``, at ``(partition, offset)``.

        Without an id as an earlier version has written them, in a table without that column.
        """
        name = quarantine_name(source)
        catalog = self._catalog
        catalog.create_namespace_if_not_exists(name.namespace)
        stored = catalog.create_table_if_not_exists((name.namespace, name.name), SCHEMA)
        rows = [self._row(table, *place, run_id) for place in places]
        schema = SCHEMA
        if topic_id is not None:
            schema = SCHEMA.append(pa.field("topic_id", pa.string()))
            with stored.update_schema() as update:
                update.union_by_name(schema)
            rows = [{**row, "topic_id": topic_id} for row in rows]
        stored.append(pa.Table.from_pylist(rows, schema=schema))

    def publish_quarantined(self, target: LakeName, count: int, at: datetime) -> None:
        """One snapshot that says how many records lie in quarantine, and that offset 0 is read."""
        catalog = self._catalog
        catalog.create_namespace_if_not_exists(target.namespace)
        schema = pa.schema({"id": pa.int64()})
        table = catalog.create_table_if_not_exists((target.namespace, target.name), schema)
        published = Published(
            offsets=OffsetVector.of({0: 1}), start=OffsetVector.of({0: 1}), topic="", topic_id="",
            cluster_id="", attempt=uuid.uuid4().hex, run="", kind="tail", published_at=at,
            counts={"records": 1, "quarantined": count},
            slo=SloWindow().add(at, LatencyHistogram.of([1.0])),
        )  # fmt: skip
        properties = published.to_properties()
        table.append(pa.table({"id": [1]}, schema=schema), snapshot_properties=properties)

    def _row(self, table: str, partition: int, offset: int, run_id: str) -> dict[str, object]:
        return {
            "table": f"public.{table}",
            "topic": f"{self.prefix}.public.{table}",
            "partition": partition,
            "offset": offset,
            "timestamp": self.now - timedelta(seconds=90),
            "reason": REASON,
            "key": CANARY.encode(),
            "value": CANARY.encode(),
            "run_id": run_id,
            "quarantined_at": self.now,
        }
