"""Measures a topic's unread changes, after a batch or a turn."""

from __future__ import annotations

from cdc_assets.changes.offsets import OffsetVector, total_length
from cdc_assets.operate.services import Services
from cdc_assets.orchestration.metadata import Lag


def lag_of(services: Services, topic: str, committed: OffsetVector) -> Lag:
    """Returns the lag behind a topic's end; none if Kafka does not have the topic.

    Args:
        services: the services to ask.
        topic: the table's topic.
        committed: the next offsets to read.

    Raises:
        UnreachableError: if Kafka does not answer.
    """
    marks = services.log.watermarks([topic]).get(topic)
    if marks is None:
        return Lag(0, 0.0)
    changes = total_length(committed.merged_max(marks.begin).ranges_to(marks.end))
    oldest = services.log.first_unread({topic: committed})[topic] if changes else None
    seconds = (services.clock() - oldest).total_seconds() if oldest else 0.0
    return Lag(changes, max(0.0, seconds))
