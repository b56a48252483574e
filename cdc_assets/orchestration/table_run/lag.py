"""Measures a topic's unread changes, after a batch or a turn."""

from __future__ import annotations

from cdc_assets.changes.offsets import OffsetVector, total_length
from cdc_assets.errors import CdcError
from cdc_assets.operate.services import Services
from cdc_assets.orchestration.metadata import NO_LAG, Lag
from cdc_assets.orchestration.table_run.step import TableStep


def lag_of(step: TableStep, topic: str, committed: OffsetVector) -> Lag | None:
    """Returns the lag behind a topic's end; none if Kafka does not have the topic.

    It only describes what was done: if Kafka does not answer, that is logged and the lag is
    unknown, so that neither a published batch nor the error of the next one goes untold for it.

    Args:
        step: the step that reports it.
        topic: the table's topic.
        committed: the next offsets to read.

    Returns:
        The lag; None if it is unknown.
    """
    try:
        return _measured(step.services, topic, committed)
    except CdcError as error:
        step.context.log.warning(f"{step.entry.table}: its lag is unknown: {error}")
        return None


def _measured(services: Services, topic: str, committed: OffsetVector) -> Lag:
    marks = services.log.watermarks([topic]).get(topic)
    if marks is None:
        return NO_LAG
    changes = total_length(committed.merged_max(marks.begin).ranges_to(marks.end))
    oldest = services.log.first_unread({topic: committed})[topic] if changes else None
    seconds = (services.clock() - oldest).total_seconds() if oldest else 0.0
    return Lag(changes, max(0.0, seconds))
