"""How the records of one batch of one table are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql.types import StringType, StructField, StructType

from cdc_assets.changes.position import Floors, Scheme
from cdc_assets.formats.positions import Epochs
from cdc_assets.formats.values import wire_type
from cdc_assets.schema.types import Column, TableSchema

TOMBSTONE: Final = "tombstone"
ROW_OPS: Final = ("c", "u", "r")


@dataclass(frozen=True, slots=True)
class DecodeSpec:
    """How to read one batch's records of one table.

    Attributes:
        schema: columns with their wire encodings, and the key.
        inline: records carry their schema: the envelope is under ``payload``.
        target: the lake's columns; those that the record does not have become NULL.
        placeholder: the connector's ``unavailable.value.placeholder``.
        scheme: how positions are made.
        unset_able: columns that ``unset`` tells of; see `unset_able`.
        floors: see `cdc_assets.changes.position.floor_at`.
        epochs: of binlog numbering, per partition; see `cdc_assets.changes.numbering`.
        firsts: by partition an offset that no record to be read lies below; 0 if absent.
        split_keys: an update may change the key, see ``old_key``.
        tombstone_keys: decode the key of records without a value.
        parse_here: keep conditions on the changes from being pushed below the parsing. What
            follows is then not deterministic for Spark, and may not stand in a DELETE.
        may_lack: columns that need not be in a row image, beside those marked in ``target``.
        lacks: by ``fingerprint``, a column of the records: which expected columns a record's own
            schema has not, though ``schema`` may. Empty if all records have the same.
    """

    schema: TableSchema
    inline: bool
    target: TableSchema
    placeholder: str
    scheme: Scheme
    unset_able: tuple[str, ...] = ()
    floors: Floors = field(default_factory=dict[int, Sequence[tuple[int, int]]])
    epochs: Epochs = field(default_factory=dict)
    firsts: Mapping[int, int] = field(default_factory=dict[int, int])
    split_keys: bool = False
    tombstone_keys: bool = False
    may_lack: frozenset[str] = frozenset()
    parse_here: bool = False
    lacks: Mapping[int, Sequence[str]] = field(default_factory=dict[int, Sequence[str]])

    @property
    def expected(self) -> tuple[str, ...]:
        """Columns of the target that every row image must have."""
        return tuple(name for name in self.target.expected if name not in self.may_lack)

    @property
    def counts_rows(self) -> bool:
        """Without a key, rows are told apart by all their columns."""
        return not self.schema.key

    @property
    def pairs(self) -> tuple[tuple[Column, Column | None], ...]:
        """Each of the lake's columns with the record's; None where the record has none."""
        arriving = {column.name: column for column in self.schema.columns}
        return tuple((column, arriving.get(column.name)) for column in self.target.columns)

    @property
    def key_columns(self) -> tuple[Column, ...]:
        """The columns of the key, in key order."""
        return tuple(self.schema.column(name) for name in self.schema.key)


def wire_struct(columns: tuple[Column, ...]) -> StructType:
    """Columns as they arrive; Spark has no empty struct."""
    if not columns:
        return StructType([StructField("__none", StringType())])
    return StructType([StructField(column.name, wire_type(column)) for column in columns])
