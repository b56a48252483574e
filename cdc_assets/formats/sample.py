"""The facts that a topic's first records give about a table that the lake does not have yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from cdc_assets.changes.position import Scheme, scheme_of
from cdc_assets.formats.key_form import KeyForm, form_of
from cdc_assets.schema.described import Described
from cdc_assets.schema.types import TableSchema, Wire

JsonObject = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Written:
    """The table that a record's schema describes.

    Attributes:
        described: the table.
        number: the number by which Spark identifies records of this schema; None if only Spark can
            compute it.
        text: the schema's text for `cdc_assets.formats.spec.ReadSpec.writers`.
        is_of_key: whether it is the schema of records that have a key alone.
    """

    described: Described
    number: int | None = None
    text: str = ""
    is_of_key: bool = False


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why a table cannot be kept equal by such records, and a remedy."""

    what: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Sample:
    """Change events and keys among sampled records, as Python values.

    Attributes:
        count: number of records with a value.
        events: number of these that are change events.
        rows: row images, after changes, and before deletes.
        has_row: whether an event holds an existing row with all its columns.
        keys: the records' keys that are objects.
        sources: the events' descriptions of their source.
        dialect: the format's dialect in these records.
        described: the table, if the records describe it themselves.
        guessed: the table inferred from values, by formats that guess for themselves; None if it is
            to be inferred later.
        refusal: of records that lack data that a table needs; None if none do.
        scalars: row keys that are not objects, each with its row.
    """

    count: int
    events: int
    rows: tuple[JsonObject, ...]
    has_row: bool
    keys: tuple[JsonObject, ...]
    sources: tuple[JsonObject, ...]
    dialect: str
    described: Described | None = None
    guessed: Described | None = None
    refusal: Refusal | None = None
    scalars: tuple[tuple[bytes, JsonObject], ...] = ()

    @property
    def key_names(self) -> tuple[str, ...]:
        """The columns of the records' keys; the most frequent set if they differ."""
        counted = Counter(tuple(key) for key in self.keys)
        return counted.most_common(1)[0][0] if counted else ()

    @property
    def scheme(self) -> Scheme | None:
        """The scheme of most events that have a source position; None if no event has a source."""
        schemes = Counter(scheme_of(source) for source in self.sources)
        placed = Counter(
            {scheme: n for scheme, n in schemes.items() if scheme is not Scheme.OFFSET}
        )
        found = (placed or schemes).most_common(1)
        return found[0][0] if found else None

    def inexact(self, table: TableSchema) -> Refusal | None:
        """Returns why a table's decimals cannot be read: they are JSON numbers instead of bytes."""
        of_bytes = (c.sent_as for c in table.columns if c.wire is Wire.DECIMAL_BYTES)
        found = [name for name in of_bytes if any(_is_number(row.get(name)) for row in self.rows)]
        if not found:
            return None
        what = f"its decimals are written as JSON numbers: {', '.join(found)}"
        return Refusal(what, "set value.converter.decimal.format=BASE64 at the connector")

    @property
    def databases(self) -> tuple[str, ...]:
        """The databases above the table's schema that events name."""
        found = {str(each["db"]) for each in self.sources if each.get("db") and each.get("schema")}
        return tuple(sorted(found))

    def without_in_keys(self, field: str) -> Sample:
        """Returns the sample without a field of the records' keys."""
        keys = ({name: each[name] for name in each if name != field} for each in self.keys)
        return replace(self, keys=tuple(keys))

    def is_keyed_by(self, names: tuple[str, ...]) -> bool:
        """Returns whether each record's key consists of these columns."""
        wanted = set(names)
        if len(self.keys) == self.count:
            return all(set(key) == wanted for key in self.keys)
        return not self.keys and self._scalar_form(names) is not None

    def key_form(self, names: tuple[str, ...]) -> KeyForm:
        """Returns the form of these columns in the records' keys; JSON where no record shows it."""
        return self._scalar_form(names) or KeyForm.JSON

    def _scalar_form(self, names: tuple[str, ...]) -> KeyForm | None:
        if len(names) != 1:
            return None
        return form_of((key, row.get(names[0])) for key, row in self.scalars)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
