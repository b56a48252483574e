"""Shows rewinds, and the publishes to which a table can be rewound, in the UI."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import dagster as dg

from cdc_assets.log.hours import HOUR, HourWindow
from cdc_assets.operate.history import PublishLine, read_history
from cdc_assets.operate.rewind import RewindPlan
from cdc_assets.operate.services import Services
from cdc_assets.orchestration.keys import table_key
from cdc_assets.registry import TableEntry

SHOWN: Final = 20
"""The number of publishes on an asset's page."""

HOURS_SHOWN: Final = 14 * 24
"""The greatest number of partitions, newest first, that get an observation after a rewind."""


def observations(services: Services, plan: RewindPlan) -> Iterator[dg.AssetObservation]:
    """Yields a rewind's observations, on the assets of its tables and on hours to merge again.

    The earlier materializations of these hours no longer describe the table.
    """
    for entry in plan.tables:
        yield dg.AssetObservation(
            table_key(services.config, entry),
            description="\n".join(plan.lines()),
            metadata={**_rewind_metadata(plan), **_history_metadata(services, entry)},
        )
        for hour in _hours(plan):
            yield dg.AssetObservation(
                table_key(services.config, entry),
                partition=hour.key,
                description=(
                    f"{entry.table} went back to snapshot {plan.chosen.snapshot}: what was "
                    "merged of this hour since then is merged again"
                ),
                metadata={"snapshot_id": dg.MetadataValue.text(str(plan.chosen.snapshot))},
            )


def _hours(plan: RewindPlan) -> list[HourWindow]:
    """Returns the newest of the hours to merge again, oldest first."""
    if plan.hours is None or not plan.again:
        return []
    first, last = plan.hours
    found = [last]
    while found[-1] > first and len(found) < HOURS_SHOWN:
        found.append(HourWindow.starting(found[-1].start - HOUR))
    return found[::-1]


def _rewind_metadata(plan: RewindPlan) -> dict[str, Any]:
    return {
        "rewound_to": dg.MetadataValue.text(str(plan.chosen.snapshot)),
        "rewound_from": dg.MetadataValue.text(str(plan.past.head)),
        "kept_as": dg.MetadataValue.text(plan.tag),
        "committed_offsets": dg.MetadataValue.text(plan.offsets.to_json()),
        "offsets_before": dg.MetadataValue.text(plan.committed.to_json()),
        "merged_again": dg.MetadataValue.text(" ".join(map(str, plan.again)) or "nothing"),
        "publishes_taken_back": plan.taken_back,
        "records_taken_back": plan.records,
        **({"loses": ", ".join(each.what for each in plan.loses)} if plan.loses else {}),
        **(
            {"hours_merged_again": f"{plan.hours[0].key} to {plan.hours[1].key}"}
            if plan.hours
            else {}
        ),
    }


def _history_metadata(services: Services, entry: TableEntry) -> dict[str, Any]:
    return {"publishes": history_table(read_history(services, entry).lines(SHOWN))}


def history_table(lines: Sequence[PublishLine]) -> dg.MetadataValue:
    """Returns a table of publishes, newest first."""
    records = [
        dg.TableRecord(
            {
                "snapshot": str(each.snapshot),
                "at": each.at.isoformat(timespec="seconds"),
                "kind": each.published.kind,
                "from": each.published.start.to_json(),
                "to": each.published.offsets.to_json(),
                "records": each.published.counts.get("records", 0),
                "standing": each.standing.value,
                "why": each.why,
                "loses": ", ".join(lost.what for lost in each.loses),
                "replaced": each.tag,
                "attempt": each.published.attempt,
            }
        )
        for each in lines
    ]
    names = ("snapshot", "at", "kind", "from", "to", "records", "standing", "why", "loses",
             "replaced", "attempt")  # fmt: skip
    columns = [dg.TableColumn(name, "int" if name == "records" else "string") for name in names]
    return dg.MetadataValue.table(records, schema=dg.TableSchema(columns))
