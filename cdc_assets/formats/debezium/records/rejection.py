"""Rejects records of Debezium's JSON that cannot be read."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F

from cdc_assets.formats.envelope import no_text
from cdc_assets.formats.key_form import NUMBER_BYTES
from cdc_assets.formats.record_json import key_text, unread
from cdc_assets.formats.spec import ROW_OPS, TOMBSTONE, ReadSpec

_NO_KEY_TEXT: Final = "its key is not UTF-8"


def rejection(document: Expression, op: Expression, spec: ReadSpec, no_op: str) -> Expression:
    """Returns the reason why a record is no change; NULL if it is one.

    Args:
        document: from `cdc_assets.formats.record_json.parsed`.
        op: its operation.
        spec: of the table.
        no_op: the reason where it has no operation.
    """
    key, nothing = key_text(), F.lit("neither key nor value") if spec.schema.key else no_text()
    is_no_text = key.isNotNull() & ~F.is_valid_utf8(key)
    unknown = F.when(op.isNull(), no_op).when(
        ~op.isin(*ROW_OPS, "d", "t"), "an operation that is not known"
    )
    return (
        F.when(F.lit(False) if spec.layout.key_form in NUMBER_BYTES else is_no_text, _NO_KEY_TEXT)
        .when((op == TOMBSTONE) & key.isNull(), nothing)
        .when(op == TOMBSTONE, no_text())
        .otherwise(F.coalesce(unread(document), unknown))
    )
