"""The layout of a table's records: determined when the table is made, and stored with it."""

from __future__ import annotations

from dataclasses import dataclass

from cdc_assets.changes.position import Scheme
from cdc_assets.formats.key_form import KeyForm
from cdc_assets.schema.described import Described


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

    def exactly(self, described: Described) -> Described:
        """Returns a description by a record's schema, with what is certain in such records.

        Connectors that read binlogs follow each statement, so that a schema has all labels.
        """
        follows = self.scheme in {Scheme.BINLOG, Scheme.MARIADB}
        return described.with_closed_lists if follows else described
