"""The schema in a record's text: which one it is, and the record without it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F

from cdc_assets.formats.debezium.inline import DATA, PAYLOAD, SCHEMA
from cdc_assets.formats.record_json import value_text

_LONGEST_SCHEMA: Final = 8 << 20
_LONGEST: Final = 2**31 - 1


class Schemas(ABC):
    """Where the records of a dialect carry their schema."""

    @abstractmethod
    def text(self) -> Expression:
        """The schema; NULL for records without one."""

    @abstractmethod
    def rest(self) -> Expression:
        """The record without its schema, which would take longer to read than all else of it."""

    def writer(self) -> Expression:
        """A hash of the record's schema; NULL for records without one."""
        return F.when(self.text().isNotNull(), F.xxhash64(self.text()))

    def alone(self) -> Expression:
        """The record without its payload; NULL if the schema is longer than any table's."""
        text = F.when(F.octet_length(self.text()) <= _LONGEST_SCHEMA, self.text())
        return F.concat(F.lit(SCHEMA), text, F.lit("}")).cast("binary")


class AroundValue(Schemas):
    """``{"schema": …, "payload": …}``."""

    def text(self) -> Expression:
        """By the converter's layout, else parsed."""
        cut = F.substring(_front(), len(SCHEMA) + 1, _LONGEST)
        return F.when(self.is_plain(), cut).otherwise(F.get_json_object(value_text(), "$.schema"))

    def rest(self) -> Expression:
        """``{"payload": …}``, perhaps with more beside it."""
        rest = F.substring(value_text(), F.length(_front()) + 2, F.lit(_LONGEST))
        return F.when(self.is_plain(), F.concat(F.lit("{"), rest)).otherwise(value_text())

    def is_plain(self) -> Expression:
        """Whether it is laid out as `cdc_assets.formats.debezium.inline` says."""
        text = value_text()
        return text.startswith(SCHEMA) & text.contains(PAYLOAD) & _front().endswith("}")


class InData(Schemas):
    """``{…, "data": {"schema": …, "payload": …}}``, whose other fields are no objects."""

    def text(self) -> Expression:
        """By the converter's layout, else parsed."""
        front = _front()
        cut = F.substring(front, F.length(_head()) + len(DATA) + 1, F.lit(_LONGEST))
        parsed = F.get_json_object(value_text(), "$.data.schema")
        return F.when(self._is_plain(), cut).otherwise(parsed)

    def rest(self) -> Expression:
        """``{…, "data": {"payload": …}}``."""
        payload = F.substring(value_text(), F.length(_front()) + 2, F.lit(_LONGEST))
        cut = F.concat(_head(), F.lit(',"data":{'), payload)
        return F.when(self._is_plain(), cut).otherwise(value_text())

    def _is_plain(self) -> Expression:
        text = value_text()
        return (
            text.startswith("{")
            & text.contains(DATA)
            & _front().contains(DATA)
            & _front().endswith("}")
        )


def _head() -> Expression:
    return F.substring_index(value_text(), DATA, 1)


def _front() -> Expression:
    return F.substring_index(value_text(), PAYLOAD, 1)
