"""How far behind each table is, part by part, and up to when it is complete.

All three lags are by the source's clock and *at most*: what is proven may be less than what is so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from cdc_assets.changes.names import TableName
from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.changes.valid_through import Witness, proven
from cdc_assets.errors import TransientError
from cdc_assets.log.deliveries import Delivery
from cdc_assets.operate.services import Services
from cdc_assets.operate.survey import TableSurvey


@dataclass(frozen=True, slots=True)
class Completeness:
    """Of one table at one moment.

    Attributes:
        delivery: what of its source is in Kafka; None if nothing is proven.
        valid_through: everything committed at the source before is in the table: by its newest
            publish, or by what was delivered since without a record for it. None if nothing is
            proven.
    """

    delivery: Delivery | None = None
    valid_through: datetime | None = None

    @property
    def source_to_kafka_seconds(self) -> float | None:
        """How far the connector is behind, at most."""
        delivery = self.delivery
        if delivery is None or delivery.at is None:
            return None
        return (delivery.at - delivery.through).total_seconds()

    def end_to_end_seconds(self, now: datetime) -> float | None:
        """Age of `valid_through`: how far the table is behind its source, at most."""
        if self.valid_through is None:
            return None
        at = (self.delivery.at if self.delivery else None) or now
        return max(0.0, (at - self.valid_through).total_seconds())


def completeness(
    services: Services,
    tables: Sequence[TableSurvey],
    deliveries: Mapping[TableName, Delivery | None],
) -> dict[TableName, Completeness]:
    """Of each table: one question to Kafka for all of them.

    Args:
        services: to ask.
        tables: as they were seen; their committed offsets may be older than the topics' ends.
        deliveries: as `deliveries_of` tells, asked for before this.
    """
    topics = [each.entry.topic for each in tables if deliveries.get(each.table)]
    try:
        ends = services.log.high_watermarks(topics) if topics else {}
    except TransientError:  # the survey names it
        ends = {}
    return {
        each.table: Completeness(deliveries.get(each.table), _through(each, deliveries, ends))
        for each in tables
    }


def deliveries_of(
    services: Services, tables: Sequence[TableSurvey]
) -> dict[TableName, Delivery | None]:
    """What of each table's source is in Kafka; each source is asked once."""
    return {each.table: services.deliveries.newest(each.entry) for each in tables}


def _through(
    each: TableSurvey,
    deliveries: Mapping[TableName, Delivery | None],
    ends: Mapping[str, OffsetVector],
) -> datetime | None:
    """More than the newest publish says only while no record is set aside."""
    published, delivery = each.published, deliveries.get(each.table)
    if published is None:
        return None
    is_whole = not published.counts.get("quarantined") and each.entry.topic in ends
    witnesses = [Witness(delivery.through, ends[each.entry.topic])] if delivery and is_whole else []
    return proven(witnesses, published.offsets, published.valid_through)
