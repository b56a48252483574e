"""Finds the schema in a record's text, and the record without it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from itertools import islice
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_assets.formats.debezium.inline import DATA, PAYLOAD, SCHEMA, front_of
from cdc_assets.formats.flat import first_of
from cdc_assets.formats.record_json import value_text

_LONGEST_SCHEMA: Final = 8 << 20
_LONGEST_FRONT: Final = 1 << 18
_MOST_FRONTS: Final = 8
"""Each is sent with every statement, and each record is compared with one after another."""
_LONGEST: Final = 2**31 - 1


class Schemas(ABC):
    """The location of the schema in the records of a dialect."""

    @abstractmethod
    def text(self) -> Expression:
        """Returns the schema; NULL for records without one."""

    def writer(self) -> Expression:
        """Returns a hash of the record's schema; NULL for records without one."""
        return F.when(self.text().isNotNull(), F.xxhash64(self.text()))

    def numbered(self, raw: DataFrame, writers: Mapping[int, str]) -> DataFrame:
        """Adds the number of the records' schema in ``writer``, see `Format.numbered`.

        The number is that of the value as it was: Spark puts the expressions of columns in place of
        their names where it filters by the number.
        """
        return raw.withColumn("writer", self.writer())

    def alone(self) -> Expression:
        """Returns the record without its payload; NULL if the schema is longer than any table's."""
        text = F.when(F.octet_length(self.text()) <= _LONGEST_SCHEMA, self.text())
        return F.concat(F.lit(SCHEMA), text, F.lit("}")).cast("binary")


class AroundValue(Schemas):
    """``{"schema": …, "payload": …}``."""

    def text(self) -> Expression:
        """Cuts the schema out of the converter's layout; parses any other."""
        cut = F.substring(_front(), len(SCHEMA) + 1, _LONGEST)
        return F.when(self.is_plain(), cut).otherwise(F.get_json_object(value_text(), "$.schema"))

    def numbered(self, raw: DataFrame, writers: Mapping[int, str]) -> DataFrame:
        """Recognizes known schemas by the records' first bytes, which it removes.

        Finding the payload, hashing the text before it, and checking all of that text again for
        defects takes longer than reading the rest.
        """
        fronts = _fronts(writers)
        if not fronts:
            return super().numbered(raw, writers)
        value, known = F.col("value"), F.col("known")
        texts = {number: F.lit(front + PAYLOAD.encode()) for number, front in fronts.items()}
        first = first_of((F.startswith(value, texts[n]), F.lit(n).cast("bigint")) for n in texts)
        rests = (
            (known == n, F.substring(value, len(front) + 2, _LONGEST))
            for n, front in fronts.items()
        )
        rest = F.concat(F.lit(b"{"), first_of(rests))
        marked = raw.withColumn("known", first)
        writer = F.coalesce(known, self.writer())
        return marked.withColumns({"writer": writer, "value": F.coalesce(rest, value)})

    def is_plain(self) -> Expression:
        """Returns whether it has the layout of `cdc_assets.formats.debezium.inline`."""
        text = value_text()
        return text.startswith(SCHEMA) & text.contains(PAYLOAD) & _front().endswith("}")


class InData(Schemas):
    """``{…, "data": {"schema": …, "payload": …}}``, whose other fields are not objects."""

    def text(self) -> Expression:
        """Cuts the schema out of the converter's layout; parses any other."""
        front = _front()
        cut = F.substring(front, F.length(_head()) + len(DATA) + 1, F.lit(_LONGEST))
        parsed = F.get_json_object(value_text(), "$.data.schema")
        return F.when(self._is_plain(), cut).otherwise(parsed)

    def _is_plain(self) -> Expression:
        text = value_text()
        return (
            text.startswith("{")
            & text.contains(DATA)
            & _front().contains(DATA)
            & _front().endswith("}")
        )


def _fronts(writers: Mapping[int, str]) -> dict[int, bytes]:
    """Returns the first bytes of the records of a few schemas, by schema number."""
    found = ((number, front_of(text, number)) for number, text in writers.items())
    usable = ((number, front) for number, front in found if front and len(front) <= _LONGEST_FRONT)
    return dict(islice(usable, _MOST_FRONTS))


def _head() -> Expression:
    return F.substring_index(value_text(), DATA, 1)


def _front() -> Expression:
    return F.substring_index(value_text(), PAYLOAD, 1)
