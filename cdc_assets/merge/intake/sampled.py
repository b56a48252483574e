"""Samples the first records of a topic, to describe a table that the lake does not have yet.

Records that are no change events are passed over here; each is dealt with when it is merged. So
an odd record affects only itself, even if it is the first one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cdc_assets.errors import RejectedRecordError
from cdc_assets.formats.format import Format
from cdc_assets.formats.sample import Sample
from cdc_assets.log.kafka import KafkaLog
from cdc_assets.log.values import RawRecord
from cdc_assets.registry import TableEntry

_ROWS: Final = 200


def sample(log: KafkaLog, entry: TableEntry, fmt: Format) -> Sample:
    """Reads the first records of a table's topic, up to the first rows.

    Raises:
        RejectedRecordError: if there are records, and none of them is a change event.
    """
    table = entry.table
    records = log.sample(entry.topic, _ROWS, wanted=lambda each: fmt.holds_row(each, table))
    found = fmt.look(records, table)
    if records and not found.events:
        raise _no_events(records, entry, fmt)
    return found


def _no_events(records: Sequence[RawRecord], entry: TableEntry, fmt: Format) -> RejectedRecordError:
    what = f"none of the topic's first {len(records)} records is a change event of {fmt.name}"
    where = f"table={entry.table} {records[0].coordinate}"
    remedy = "exclude the topic (topics.exclude), or check the source's format and its producer's"
    return RejectedRecordError(what, where=where, remedy=remedy)
