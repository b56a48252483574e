"""The schema in a record's text: which one it is, and the record without it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_assets.formats.debezium.inline import DATA, PAYLOAD, SCHEMA, front_of
from cdc_assets.formats.record_json import value_text

_LONGEST_SCHEMA: Final = 8 << 20
_LONGEST_FRONT: Final = 1 << 18
_MOST_FRONTS: Final = 8
"""Each goes with every statement, and each record is compared with one after the other."""
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

    def numbered(self, raw: DataFrame, writers: Mapping[int, str]) -> DataFrame:
        """Records with the number of their schema in ``writer``, see `Format.numbered`."""
        return raw.withColumn("writer", self.writer())

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

    def numbered(self, raw: DataFrame, writers: Mapping[int, str]) -> DataFrame:
        """Those of the known schemas are told by what they begin with, which is taken off.

        To look for the payload, to hash what is before it, and to look at all of that again for
        what may be wrong with the text takes longer than to read the rest.
        """
        fronts = _fronts(writers)
        if not fronts:
            return super().numbered(raw, writers)
        value, known = F.col("value"), F.col("known")
        texts = {number: F.lit(front + PAYLOAD.encode()) for number, front in fronts.items()}
        first = _by_number((F.startswith(value, texts[n]), F.lit(n).cast("bigint")) for n in texts)
        rests = (
            (known == n, F.substring(value, len(front) + 2, _LONGEST))
            for n, front in fronts.items()
        )
        rest = F.concat(F.lit(b"{"), _by_number(rests))
        told = raw.withColumn("known", first)
        writer = F.coalesce(known, self.writer())
        return told.withColumns({"writer": writer, "value": F.coalesce(rest, value)})

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


def _fronts(writers: Mapping[int, str]) -> dict[int, bytes]:
    """What the records of a few schemas begin with, by their numbers."""
    found = ((number, front_of(text, number)) for number, text in writers.items())
    told = ((number, front) for number, front in found if front and len(front) <= _LONGEST_FRONT)
    return dict(islice(told, _MOST_FRONTS))


def _by_number(cases: Iterable[tuple[Expression, Expression]]) -> Expression:
    """The value of the first that is given; NULL without one."""
    (condition, value), *others = cases
    found = F.when(condition, value)
    for condition, value in others:
        found = found.when(condition, value)
    return found


def _head() -> Expression:
    return F.substring_index(value_text(), DATA, 1)


def _front() -> Expression:
    return F.substring_index(value_text(), PAYLOAD, 1)
