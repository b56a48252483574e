"""How a table must change to hold what the source now sends.

An evolution is planned here and executed elsewhere. Only lossless steps exist; whatever else
differs is *incompatible* and stops the table before anything is written.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from cdc_assets.schema.types import Column, ColumnType, Decimal, Primitive, TableSchema

_WIDER = {
    (Primitive.INT, Primitive.LONG),
    (Primitive.FLOAT, Primitive.DOUBLE),
}


@dataclass(frozen=True, slots=True)
class Evolution:
    """Columns to add (optional) and to widen, and what cannot be done, in words."""

    added: tuple[Column, ...] = ()
    widened: tuple[Column, ...] = ()
    incompatible: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether the table stays as it is."""
        return not (self.added or self.widened or self.incompatible)

    def describe(self) -> str:
        """One line for plans and errors."""
        parts = [f"add {column.name} {column.type}" for column in self.added]
        parts += [f"widen {column.name} to {column.type}" for column in self.widened]
        return "; ".join([*parts, *self.incompatible])


def evolution(table: TableSchema, record: TableSchema) -> Evolution:
    """What the table lacks to hold the record.

    A column that the record does not have stays; what becomes of its values is decided by
    `cdc_assets.merge.intake.absent`. A column that is narrower in the record fits as it is, and one
    that the table leaves out stays out.
    """
    given = [column for column in record.columns if column.name not in table.left_out]
    known = {column.name: column for column in table.columns}
    pairs = [(known[each.name], each) for each in given if each.name in known]
    differing = [(old, new) for old, new in pairs if not fits(new.type, old.type)]
    return Evolution(
        added=tuple(replace(c, required=False) for c in given if c.name not in known),
        widened=tuple(new for old, new in differing if fits(old.type, new.type)),
        incompatible=tuple(
            f"column {old.name}: {old.type} cannot become {new.type} without loss"
            for old, new in differing
            if not fits(old.type, new.type)
        ),
    )


def lacking(table: TableSchema, record: TableSchema) -> tuple[str, ...]:
    """Columns that the record should have by what is known of the table, and has not."""
    return tuple(name for name in table.expected if name not in record.names)


def evolved(table: TableSchema, plan: Evolution) -> TableSchema:
    """The schema after the plan; added columns come last."""
    widened = {column.name: column.type for column in plan.widened}
    columns = (replace(c, type=widened.get(c.name, c.type)) for c in table.columns)
    return replace(table, columns=(*columns, *plan.added))


def fits(narrow: ColumnType, wide: ColumnType) -> bool:
    """Whether every value of ``narrow`` is a value of ``wide``, by a promotion Iceberg allows.

    https://iceberg.apache.org/spec/#schema-evolution
    """
    if narrow == wide or (narrow, wide) in _WIDER:
        return True
    match narrow, wide:
        case Decimal(), Decimal():
            return narrow.scale == wide.scale and narrow.precision <= wide.precision
        case _:
            return False
