"""What a table's records are like: decided when the table is made, and stored with it."""

from __future__ import annotations

from dataclasses import dataclass

from cdc_assets.changes.position import Scheme
from cdc_assets.formats.key_form import KeyForm


@dataclass(frozen=True, slots=True)
class Layout:
    """What a table's records are like.

    Attributes:
        dialect: how its format is spoken; the format's own word.
        keyed: the records' keys are the table's key, so that a row stays in one partition.
        split_keys: an update may change the key: it is one of the configuration's, for which
            the connector does not send a delete and a create.
        scheme: how positions are made.
        key_form: how the records' keys are written.
    """

    dialect: str
    keyed: bool = True
    split_keys: bool = False
    scheme: Scheme = Scheme.OFFSET
    key_form: KeyForm = KeyForm.JSON
