"""``canal-protobuf``: Canal's packets, ``canal.mq.flatMessage=false``.

A packet holds the entries of several statements, of several tables, and marks of transactions. Each
entry is converted to the message that Canal would have written in ``canal-json``; from there on
both formats are handled alike.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from cdc_assets.changes.names import TableName
from cdc_assets.formats.canal import packet
from cdc_assets.formats.canal.canal import Canal
from cdc_assets.formats.canal.messages import Message
from cdc_assets.log.values import RawRecord

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame

    from cdc_assets.formats.envelope import Rows
    from cdc_assets.formats.spec import ReadSpec


class CanalProtobuf(Canal):
    """A format in which a record is a packet of messages."""

    name = "canal-protobuf"
    has_packets = True

    def flat(self, record: RawRecord) -> Sequence[Message]:
        """Returns one message for each entry that is more than a mark."""
        found = packet.messages_of(record.value or b"")
        return ({},) if found is None else found

    def unpacked(self, record: RawRecord, table: TableName) -> Sequence[RawRecord]:
        """Returns each message as JSON."""
        mine = self.table_messages(record, table)
        return tuple(replace(record, value=json.dumps(each).encode()) for each in mine)

    def opened(self, raw: DataFrame) -> DataFrame:
        """Unpacks with a function of ours."""
        from cdc_assets.formats.canal import packets

        return packets.opened(raw)

    def rows(self, document: Expression, spec: ReadSpec) -> Rows:
        """Returns the rows of an unpacked message, which may hold the reason for a failure."""
        from cdc_assets.formats.canal import flat_messages

        return flat_messages.rows(document, spec, may_be_refused=True)
