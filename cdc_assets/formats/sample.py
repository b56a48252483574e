"""What a topic's first records say about a table that the lake does not have yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cdc_assets.changes.position import Scheme, scheme_of
from cdc_assets.formats.key_form import KeyForm, form_of
from cdc_assets.schema.described import Described

JsonObject = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Written:
    """What the schema of a record says.

    Attributes:
        described: the table.
        number: by which Spark tells the records of this schema; None if only Spark can tell it.
        text: what `cdc_assets.formats.spec.ReadSpec.writers` is to have of it.
        is_of_key: it is the schema of records that have a key alone.
    """

    described: Described
    number: int | None = None
    text: str = ""
    is_of_key: bool = False


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why no table can be kept equal by such records, and what would help."""

    what: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Sample:
    """Change events and keys among records, as Python values.

    Attributes:
        count: how many records with a value were looked at.
        events: how many of them are change events.
        rows: row images, after changes, and before deletes.
        has_row: whether an event holds a row that exists, with all its columns.
        keys: the records' keys that are objects.
        sources: what events say about where they come from.
        dialect: how the format is spoken in them.
        described: the table, if the records say it themselves.
        guessed: the table as far as values tell it, by formats that guess for themselves; None if
            it is to be inferred.
        refusal: of records that do not hold what a table needs; None if nothing shows it.
        scalars: the keys of rows that are no objects, each with its row.
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
        """The columns of the records' keys; of different ones the most frequent."""
        counted = Counter(tuple(key) for key in self.keys)
        return counted.most_common(1)[0][0] if counted else ()

    @property
    def scheme(self) -> Scheme | None:
        """Of most events that have a position of their source; None if no event has a source."""
        schemes = Counter(scheme_of(source) for source in self.sources)
        placed = Counter(
            {scheme: n for scheme, n in schemes.items() if scheme is not Scheme.OFFSET}
        )
        found = (placed or schemes).most_common(1)
        return found[0][0] if found else None

    def is_keyed_by(self, names: tuple[str, ...]) -> bool:
        """Whether each record's key consists of these columns."""
        wanted = set(names)
        if len(self.keys) == self.count:
            return all(set(key) == wanted for key in self.keys)
        return not self.keys and self._scalar_form(names) is not None

    def key_form(self, names: tuple[str, ...]) -> KeyForm:
        """How the records' keys hold these columns; where nothing shows it, as JSON."""
        return self._scalar_form(names) or KeyForm.JSON

    def _scalar_form(self, names: tuple[str, ...]) -> KeyForm | None:
        if len(names) != 1:
            return None
        return form_of((key, row.get(names[0])) for key, row in self.scalars)
