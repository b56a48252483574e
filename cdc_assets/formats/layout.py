"""The layout of a table's records: determined when the table is made, and stored with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from cdc_assets.changes.position import Scheme
from cdc_assets.formats.key_form import KeyForm
from cdc_assets.schema.described import Described

_DIALECT: Final = "cdc-assets.dialect"
_INLINE: Final = "cdc-assets.inline-schema"
_BEFORE_DIALECTS: Final = {"true": "inline", "false": "bare"}
"""Values in tables of older releases: whether records carry their schema."""
_KEYED: Final = "cdc-assets.keyed-by-record"
_SPLIT: Final = "cdc-assets.key-changes-in-updates"
_SCHEME: Final = "cdc-assets.positions"
_KEY_FORM: Final = "cdc-assets.key-form"
_DATABASE: Final = "cdc-assets.source-database"


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of a table's records.

    Attributes:
        dialect: the format's own name of its dialect.
        keyed: whether the records' keys are the table's key, so that a row stays in one partition.
        split_keys: whether an update may change the key: it is a configured key, for which the
            connector does not send a delete and a create.
        scheme: the scheme of positions.
        key_form: the form of the records' keys.
        database: the database above the table's schema, as its first records name it; empty if
            they name none.
    """

    dialect: str
    keyed: bool = True
    split_keys: bool = False
    scheme: Scheme = Scheme.OFFSET
    key_form: KeyForm = KeyForm.JSON
    database: str = ""

    @classmethod
    def of(cls, said: Mapping[str, str]) -> Layout:
        """Reads the layout from a table's properties."""
        return cls(
            dialect=said[_DIALECT] if _DIALECT in said else _BEFORE_DIALECTS[said[_INLINE]],
            keyed=said[_KEYED] == "true",
            split_keys=said[_SPLIT] == "true",
            scheme=Scheme(said[_SCHEME]),
            key_form=KeyForm(said.get(_KEY_FORM, KeyForm.JSON)),
            database=said.get(_DATABASE, ""),
        )

    def to_properties(self) -> dict[str, str]:
        """Returns the properties that `of` reads."""
        return {
            _DIALECT: self.dialect,
            _KEYED: str(self.keyed).lower(),
            _SPLIT: str(self.split_keys).lower(),
            _SCHEME: self.scheme.value,
            _KEY_FORM: self.key_form.value,
            **({_DATABASE: self.database} if self.database else {}),
        }

    def exactly(self, described: Described) -> Described:
        """Returns a description by a record's schema, with what is certain in such records.

        Connectors that read binlogs follow each statement, so that a schema has all labels.
        """
        follows = self.scheme in {Scheme.BINLOG, Scheme.MARIADB}
        return described.with_closed_lists if follows else described
