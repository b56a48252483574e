"""Chooses the reader of a dialect."""

from __future__ import annotations

from cdc_assets.formats.debezium.added_fields import AddedFields
from cdc_assets.formats.debezium.dialects import CloudEvents, Documents, Enveloped, Flat
from cdc_assets.formats.debezium.records.cloudevents import CloudEventRecords
from cdc_assets.formats.debezium.records.documents import DocumentRecords
from cdc_assets.formats.debezium.records.enveloped import EnvelopedRecords
from cdc_assets.formats.debezium.records.flat import FlatRecords
from cdc_assets.formats.debezium.records.records import Records
from cdc_assets.formats.debezium.records.schemas import AroundValue, InData


def records_of(dialect: str, placeholder: str, added: AddedFields) -> Records:
    """Returns the reader for records of a table's dialect.

    Args:
        dialect: its name.
        placeholder: the connector's ``unavailable.value.placeholder``.
        added: the names of fields that flattening adds.

    Raises:
        ValueError: if no dialect has the name.
    """
    match dialect:
        case Enveloped.bare:
            return EnvelopedRecords(placeholder, None)
        case Enveloped.inline:
            return EnvelopedRecords(placeholder, AroundValue())
        case Flat.bare:
            return FlatRecords(placeholder, None, added)
        case Flat.inline:
            return FlatRecords(placeholder, AroundValue(), added)
        case CloudEvents.bare:
            return CloudEventRecords(placeholder, None)
        case CloudEvents.inline:
            return CloudEventRecords(placeholder, InData())
        case Documents.bare:
            return DocumentRecords(placeholder, None)
        case Documents.inline:
            return DocumentRecords(placeholder, AroundValue())
        case _:
            msg = f"debezium-json has no dialect {dialect}"
            raise ValueError(msg)
