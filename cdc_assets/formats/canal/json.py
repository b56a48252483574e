"""``canal-json``: Canal's ``FlatMessage``, and TiCDC's messages in its form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cdc_assets.changes.json_text import read_object
from cdc_assets.formats.canal.canal import Canal
from cdc_assets.formats.canal.messages import Message
from cdc_assets.log.values import RawRecord

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class CanalJson(Canal):
    """A format in which a record is a message."""

    name = "canal-json"

    def flat(self, record: RawRecord) -> Sequence[Message]:
        """Returns the one message."""
        return (read_object(record.value),)

    def may_tell(self, raw: DataFrame) -> DataFrame:
        """Keeps records that contain ``isDdl: true`` as text, possibly within a value."""
        from cdc_assets.formats.record_json import value_text

        return raw.where(value_text().rlike(r'"isDdl"\s*:\s*true'))
