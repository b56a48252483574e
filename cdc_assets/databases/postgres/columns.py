"""Columns as PostgreSQL's catalog has them, and the large values that an update leaves alone.

PostgreSQL does not log a value that is stored out of line (TOAST) and did not change, and Debezium
writes a placeholder in its place, where the column's type has one. Sources, in debezium/debezium
3.x: ``UnchangedToastedReplicationMessageColumn`` and ``UnchangedToastedPlaceholder`` (the
placeholders), ``PostgresValueConverter`` (what becomes of them).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from cdc_assets.schema.described import Described
from cdc_assets.schema.modes import BinaryMode, ConnectorModes, DecimalMode, TimeMode
from cdc_assets.schema.types import Column, Wire

ENUM: Final = "e"
"""``pg_type.typtype`` of an enumeration."""

OF_EXTENSIONS: Final = frozenset({"b", "r"})
"""``typtype`` of base types and ranges: other kinds of types differ, whatever their names."""

VECTORS: Final = frozenset({"vector", "halfvec", "sparsevec"})
SPATIAL: Final = frozenset({"geometry", "geography"})
_LOST: Final = (
    "the connector sends NULL in the place of large values that an update leaves alone; ALTER "
    "TABLE … REPLICA IDENTITY FULL{partitions}, or ALTER COLUMN … SET STORAGE PLAIN and then "
    "VACUUM FULL: values that are out of line stay there until the table is rewritten; with "
    "event.converting.failure.handling.mode=fail at the connector it stops at them instead"
)
_LOSES_NOTHING: Final = ", and large_values: accept loses nothing"
_LOST_BYTES: Final = (
    "with binary.handling.mode=base64 the connector sends NULL in the place of large values that "
    "an update leaves alone; set it to bytes or hex (and connector.binary_handling_mode to the "
    "same), or ALTER TABLE … REPLICA IDENTITY FULL{partitions}"
)
_OF_EACH_PARTITION: Final = (
    " of each partition (that of the table does not reach them), also of those made later"
)
_MARKED_IN_ARRAYS: Final = frozenset({
    "int4", "int8", "uuid", "json", "jsonb", "text", "varchar", "bpchar",
})  # fmt: skip
"""Elements of arrays that the connector replaces by a placeholder if they are unchanged."""
_MARKED_BY_MODE: Final = {
    "bytea": (
        "with binary.handling.mode=base64 or hex the connector sends NULL in the place of large "
        "arrays that an update leaves alone; set it to bytes (and connector.binary_handling_mode "
        "to the same), or ALTER TABLE … REPLICA IDENTITY FULL{partitions}"
    ),
    "date": (
        "with time.precision.mode=isostring or connect the connector sends NULL in the place of "
        "large arrays that an update leaves alone; set it to adaptive (and "
        "connector.time_precision_mode to the same), or ALTER TABLE … REPLICA IDENTITY "
        "FULL{partitions}"
    ),
}
"""Elements whose placeholder fits one form of theirs only: bytes, and days as numbers."""
_DIGITS_IN_LINE: Final = 33
_BITS_IN_LINE: Final = 128
"""Values of so many take 24 bytes at most, and are never out of line (``toast_helper.c``)."""


@dataclass(frozen=True, slots=True)
class PostgresColumn:
    """A column as the catalog has it, domains replaced by their base types.

    Attributes:
        name: ``attname``.
        type_name: ``typname`` of the type, for arrays of the element (``numeric``, ``int4``).
        type_text: ``format_type(…)``, for people.
        modifier: ``atttypmod``; -1 if the type has no number.
        is_array: whether it is an array of ``type_name``.
        dimensions: ``attndims`` of an array, as declared: PostgreSQL does not enforce it.
        may_be_toasted: whether updates may leave it out: PostgreSQL does not log large values that
            did not change, unless the replica identity is FULL; of a partitioned table, that of
            each partition. Storage PLAIN counts as never, though values from before it may still
            be out of line: the catalog does not tell whether the table was rewritten since.
        kind: ``typtype`` of the type or element: b(ase), e(num), c(omposite), r(ange), ….
        not_null: whether it is declared NOT NULL.
        comment: from ``COMMENT ON COLUMN``.
        is_generated: whether PostgreSQL computes it (``GENERATED ALWAYS AS (…)``).
        has_default: whether rows that do not name it get a value.
        in_domain: whether its type is a domain over this one.
        in_partitions: whether its table is partitioned.
        stays_in_page: whether it is stored out of line only if the row does not fit into a page
            otherwise (storage MAIN).
    """

    name: str
    type_name: str
    type_text: str
    modifier: int = -1
    is_array: bool = False
    kind: str = "b"
    not_null: bool = False
    comment: str = ""
    is_generated: bool = False
    dimensions: int = 0
    may_be_toasted: bool = False
    has_default: bool = False
    in_domain: bool = False
    in_partitions: bool = False
    stays_in_page: bool = False


def numeric_digits(modifier: int) -> tuple[int, int] | None:
    """Returns precision and scale in a ``numeric`` type modifier; None if it is unconstrained.

    PostgreSQL's ``numeric.c``: precision in the upper 16 bits, scale in the lower 11. The scale is
    signed there, but the connector's driver reads it as unsigned: a value of ``numeric(3,-2)`` is
    written with 2046 digits after the point.
    """
    if modifier < 4:
        return None
    packed = modifier - 4
    return packed >> 16 & 0xFFFF, packed & 0x7FF


def seconds_digits(modifier: int) -> int | None:
    """Returns the digits after the second in a time or timestamp modifier; None if not given."""
    return modifier if modifier >= 0 else None


# ── large values ──────────────────────────────────────────────────────────────────────────


def toast_warning(
    columns: Iterable[PostgresColumn], modes: ConnectorModes, described: Described | None = None
) -> tuple[str, ...]:
    """Warns of columns that lose large values, which look like values that became NULL.

    Numbers of the storage MAIN, which they have by default, are let pass: they are out of line only
    in rows that fill a page with such values.

    Args:
        columns: of one table.
        modes: the connector's.
        described: what a record's schema says of them, which counts more than modes.
    """
    sent = described.columns if described is not None else ()
    wires = {c.name: c.element_wire or c.wire for c in sent if isinstance(c, Column)}
    lost: dict[str, list[str]] = {}
    for each in (c for c in columns if c.may_be_toasted):
        wire = wires.get(each.name)
        if each.is_array:
            reason = _unmarked(each, wire, modes)
        else:
            reason = _LOST if _is_unmarked_scalar(each, wire, modes) else None
        if reason is not None:
            lost.setdefault(_with_remedy(reason, each), []).append(each.name)
    return tuple(f"columns {', '.join(names)}: {reason}" for reason, names in lost.items())


def lost_when_unchanged(
    column: PostgresColumn, wire: Wire, modes: ConnectorModes, *, is_bytes: bool
) -> str | None:
    """Returns the reason why large values that an update leaves alone arrive as NULL; else None.

    Debezium 3.6 has no placeholder of these types, see ``PostgresValueConverter``; of other arrays
    see `toast_warning`. A text in the place of a list or a structure is a failure to convert, which
    a setting of the connector makes it stop at; bytes that are to be base64 are none
    (``JdbcValueConverters.unexpectedBinary``).

    Args:
        column: as the catalog has it.
        wire: how its values arrive.
        modes: the connector's.
        is_bytes: whether its values follow ``binary.handling.mode``.
    """
    if not column.may_be_toasted:
        return None
    if column.type_name in VECTORS:
        return _with_remedy(_LOST, column) + _LOSES_NOTHING
    if column.is_array or column.kind == ENUM:
        return None
    if column.type_name in SPATIAL:
        return _with_remedy(_LOST, column) + _LOSES_NOTHING
    # As text they are base64, or what `binary.handling.mode=hex` makes of them.
    is_text = wire is Wire.STRING and modes.binary is not BinaryMode.HEX
    is_base64 = modes.binary in {BinaryMode.BASE64, BinaryMode.BASE64_URL_SAFE}
    if is_bytes and (is_text or is_base64):
        return _with_remedy(_LOST_BYTES, column)
    return None


def is_long_number(column: PostgresColumn) -> bool:
    """Returns whether it is a ``numeric`` whose values may be stored out of line."""
    if column.type_name != "numeric" or column.is_array or column.kind not in OF_EXTENSIONS:
        return False
    declared = numeric_digits(column.modifier)
    return declared is None or max(declared) > _DIGITS_IN_LINE


def _is_unmarked_scalar(column: PostgresColumn, wire: Wire | None, modes: ConnectorModes) -> bool:
    """Returns whether it is a bit string or number whose unchanged values have no placeholder."""
    if column.type_name == "bit":
        return column.modifier > _BITS_IN_LINE
    is_text = modes.decimal is DecimalMode.STRING if wire is None else wire is Wire.STRING
    return is_long_number(column) and not column.stays_in_page and not is_text


def _unmarked(array: PostgresColumn, wire: Wire | None, modes: ConnectorModes) -> str | None:
    """Returns why unchanged arrays of a column have no placeholder; None if they have one.

    Debezium chooses the placeholder by the name of the column's type, and knows no domain's.
    ``ConnectSchema.validateValue`` of Kafka Connect refuses a placeholder of another type than the
    elements have: bytes among text, numbers among text or among Connect's own dates.

    Args:
        array: the column.
        wire: how elements arrive, by a record's schema; None if only the modes tell. It does not
            show whether a date is Connect's own.
        modes: the connector's.
    """
    match array.type_name:
        case _ if array.in_domain:
            return _LOST
        case "bytea":
            fits = modes.binary is BinaryMode.BYTES if wire is None else wire is not Wire.STRING
        case "date":
            is_text = modes.time is TimeMode.ISOSTRING if wire is None else wire is Wire.ISO_DATE
            fits = not is_text and modes.time is not TimeMode.CONNECT
        case element:
            return None if element in _MARKED_IN_ARRAYS else _LOST
    return None if fits else _MARKED_BY_MODE[array.type_name]


def _with_remedy(reason: str, column: PostgresColumn) -> str:
    """Completes a reason: partitions have replica identities of their own."""
    return reason.format(partitions=_OF_EACH_PARTITION if column.in_partitions else "")
