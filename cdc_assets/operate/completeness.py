"""Computes each table's lags, part by part, and the time up to which it is complete.

All three lags are by the source's clock and upper bounds: less may be proven than is true.
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
    """The completeness of one table at one moment.

    Attributes:
        delivery: the part of its source that is in Kafka; None if nothing is proven.
        valid_through: everything committed at the source before this time is in the table. Proven
            by its newest publish, or by later deliveries without a record for it; None if nothing
            is proven.
    """

    delivery: Delivery | None = None
    valid_through: datetime | None = None

    @property
    def source_to_kafka_seconds(self) -> float | None:
        """The connector's lag, at most."""
        delivery = self.delivery
        if delivery is None or delivery.at is None:
            return None
        return (delivery.at - delivery.through).total_seconds()

    def end_to_end_seconds(self, now: datetime) -> float | None:
        """Returns the age of `valid_through`: the table's lag behind its source, at most."""
        if self.valid_through is None:
            return None
        at = (self.delivery.at if self.delivery else None) or now
        return max(0.0, (at - self.valid_through).total_seconds())


def completeness(
    services: Services,
    tables: Sequence[TableSurvey],
    deliveries: Mapping[TableName, Delivery | None],
) -> dict[TableName, Completeness]:
    """Returns each table's completeness, with one request to Kafka for all of them.

    Args:
        services: the services to ask.
        tables: the surveyed tables; their committed offsets may be older than the topics' ends.
        deliveries: the result of `deliveries_of`, obtained before this call.
    """
    topics = [each.entry.topic for each in tables if deliveries.get(each.table) and each.marks]
    try:
        ends = services.log.high_watermarks(topics) if topics else {}
    except TransientError:  # the survey reports it
        ends = {}
    return {
        each.table: Completeness(deliveries.get(each.table), _through(each, deliveries, ends))
        for each in tables
    }


def deliveries_of(
    services: Services, tables: Sequence[TableSurvey]
) -> dict[TableName, Delivery | None]:
    """Returns the delivered part of each table's source; asks each source once."""
    return {each.table: services.deliveries.newest(each.entry) for each in tables}


def _through(
    each: TableSurvey,
    deliveries: Mapping[TableName, Delivery | None],
    ends: Mapping[str, OffsetVector],
) -> datetime | None:
    """Returns `valid_through`; it exceeds the newest publish's only without quarantined records.

    Nor does it if the table has merged more than its topic has: of another topic of its name.
    """
    published, delivery = each.published, deliveries.get(each.table)
    if published is None:
        return None
    end = ends.get(each.entry.topic)
    if delivery is None or end is None or published.counts.get("quarantined"):
        return published.valid_through
    if any(offset > end.get(partition) for partition, offset in published.offsets):
        return published.valid_through
    witnesses = [Witness(delivery.through, end)]
    return proven(witnesses, published.offsets, published.valid_through)
