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
    """A record is a message."""

    name = "canal-json"

    def flat(self, record: RawRecord) -> Sequence[Message]:
        """One."""
        return (read_object(record.value),)

    def may_tell(self, raw: DataFrame) -> DataFrame:
        """Those that have the text of ``isDdl: true``, in a value perhaps."""
        from cdc_assets.formats.record_json import value_text

        return raw.where(value_text().rlike(r'"isDdl"\s*:\s*true'))
