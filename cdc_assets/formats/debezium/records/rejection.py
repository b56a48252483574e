"""Rejects records of Debezium's JSON that cannot be read."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F

from cdc_assets.formats.key_form import NUMBER_BYTES
from cdc_assets.formats.record_json import key_text, unread
from cdc_assets.formats.spec import ReadSpec

_NO_KEY_TEXT: Final = "its key is not UTF-8"


def rejection(document: Expression, spec: ReadSpec) -> Expression:
    """Returns the reason why key or value cannot be read; NULL if they can.

    Args:
        document: from `cdc_assets.formats.record_json.parsed`.
        spec: of the table.
    """
    if spec.layout.key_form in NUMBER_BYTES:
        return unread(document)
    key = key_text()
    is_no_text = key.isNotNull() & ~F.is_valid_utf8(key)
    return F.coalesce(F.when(is_no_text, _NO_KEY_TEXT), unread(document))
