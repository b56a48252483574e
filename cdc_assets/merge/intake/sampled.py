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
from cdc_assets.registry import TableEntry, Taken

_ROWS: Final = 200
ROUTERS_FIELD: Final = "__dbz__physicalTableIdentifier"
"""What Debezium's ``ByLogicalTableRouter`` adds to keys: the table's name, the same for all rows of
a table that records name. https://debezium.io/documentation/reference/stable/transformations/
topic-routing.html"""


def sample(log: KafkaLog, entry: TableEntry, fmt: Format) -> Sample:
    """Reads the first records of a table's topic, up to the first rows.

    Raises:
        RejectedRecordError: if there are records, and none of them is a change event.
    """
    table, taken = entry.at_source, entry.taken
    names = fmt.names_tables and taken is not Taken.ALL

    def is_mine(record: RawRecord) -> bool:
        named = fmt.named(record, table.source) if names else table
        return named == table or (named is None and taken is Taken.UNLESS_NAMED)

    def wanted(record: RawRecord) -> bool:
        return is_mine(record) and fmt.holds_row(record, table)

    records = log.sample(entry.topic, _ROWS, wanted=wanted)
    found = fmt.look([each for each in records if is_mine(each)], table)
    if taken is Taken.NAMED:
        found = found.without_in_keys(ROUTERS_FIELD)
    if records and not found.events:
        raise _no_events(records, entry, fmt)
    return found


def _no_events(records: Sequence[RawRecord], entry: TableEntry, fmt: Format) -> RejectedRecordError:
    what = f"none of the topic's first {len(records)} records is a change event of {fmt.name}"
    where = f"table={entry.table} {records[0].coordinate}"
    remedy = "exclude the topic (topics.exclude), or check the source's format and its producer's"
    return RejectedRecordError(what, where=where, remedy=remedy)
