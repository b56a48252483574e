"""Maps PostgreSQL's types as Debezium's connector writes them without schemas.

Sources, in debezium/debezium 3.x: ``PostgresValueConverter.schemaBuilder`` (the schema of a type,
and the types that get none and are left out of events), ``ReplicationMessageColumnValueResolver``
(the values in changes), ``JdbcValueConverters.schemaBuilder`` (the rest), ``TemporalPrecisionMode``
(times), and ``UnchangedToastedReplicationMessageColumn`` (values that may be a placeholder). A type
that is not listed here is unknown to the connector: refused, or with ``include.unknown.datatypes``
the bytes of PostgreSQL's text of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Final

from cdc_assets.databases.mapping import (
    Mapped,
    Outcome,
    Refused,
    as_column,
    bits,
    decimal,
    described_by_catalog,
    stored,
    usable,
)
from cdc_assets.schema import stand_ins
from cdc_assets.schema.described import Described
from cdc_assets.schema.modes import (
    BinaryMode,
    ConnectorModes,
    DecimalMode,
    Encoding,
    IntervalMode,
    TimeMode,
    encoding_of,
    time_of_day,
)
from cdc_assets.schema.stand_ins import StoredAs
from cdc_assets.schema.types import (
    MICROS_OF_DAY,
    Column,
    Decimal,
    ListOf,
    Primitive,
    StructOf,
    UnmappedColumn,
    Wire,
)

ENUM: Final = "e"
"""``pg_type.typtype`` of an enumeration."""

_OF_EXTENSIONS: Final = frozenset({"b", "r"})
"""``typtype`` of base types and ranges: other kinds of types differ, whatever their names."""

_SIMPLE: Final = {
    "bool": Primitive.BOOLEAN,
    "int2": Primitive.INT,
    "int4": Primitive.INT,
    "int8": Primitive.LONG,
    "oid": Primitive.LONG,
    "float4": Primitive.FLOAT,
    "float8": Primitive.DOUBLE,
    "date": Primitive.DATE,
    "timestamp": Primitive.TIMESTAMP,
    "timestamptz": Primitive.TIMESTAMPTZ,
    "bytea": Primitive.BINARY,
}
_TEXT: Final = frozenset({
    "text", "varchar", "bpchar", "char", "name", "citext", "json", "jsonb", "xml", "uuid",
    "inet", "cidr", "macaddr", "macaddr8", "ltree", "tsvector", "isbn",
})  # fmt: skip
_RANGES: Final = frozenset({
    "int4range", "int8range", "numrange", "tsrange", "tstzrange", "daterange",
})  # fmt: skip
_VARLENA: Final = _RANGES | {
    "text", "varchar", "bpchar", "citext", "json", "jsonb", "xml", "bytea", "ltree", "tsvector",
    "hstore", "vector", "halfvec",
}  # fmt: skip
_STAND_INS: Final[dict[str, StoredAs]] = {
    "timetz": stand_ins.ZONED_TIME,
    "hstore": StoredAs(Primitive.STRING, Wire.STRING, comment="JSON"),
    "point": stand_ins.POINT,
    "geometry": stand_ins.GEOMETRY,
    "geography": stand_ins.GEOMETRY,
    **dict.fromkeys(_RANGES, StoredAs(Primitive.STRING, Wire.STRING)),
    "vector": StoredAs(ListOf(Primitive.DOUBLE), Wire.LIST, Wire.DOUBLE),
    "halfvec": StoredAs(ListOf(Primitive.FLOAT), Wire.LIST, Wire.FLOAT),
    "sparsevec": stand_ins.DOCUMENT,
}
_UNLESS_TOLD: Final = (
    "unless include.unknown.datatypes=true is set there, and connector.include_unknown_datatypes: "
    "true here"
)
_LEFT_OUT: Final = f"the connector leaves this type out of its events, {_UNLESS_TOLD}"
_NAME: Final = (
    "the connector sends its values in snapshots only, and NULL or empty text in changes, "
    f"{_UNLESS_TOLD}"
)
_AS_TEXT: Final = "PostgreSQL's text of the value, in UTF-8"
_VECTORS: Final = frozenset({"vector", "halfvec", "sparsevec"})
_SPATIAL: Final = frozenset({"geometry", "geography"})
_UNLOGGED: Final = (
    "the connector sends NULL in the place of large values that an update leaves alone; ALTER "
    "TABLE … REPLICA IDENTITY FULL{partitions}, or ALTER COLUMN … SET STORAGE PLAIN and then "
    "VACUUM FULL: values that are out of line stay there until the table is rewritten; with "
    "event.converting.failure.handling.mode=fail at the connector it stops at them instead"
)
_LOSES_NOTHING: Final = ", and large_values: accept loses nothing"
_UNLOGGED_BYTES: Final = (
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
_EMPTIED: Final = frozenset({"int2vector", "oidvector"})
_SENT_EMPTY: Final = "the connector sends empty arrays in the place of its values"
_ARRAYS_LEFT_OUT: Final = frozenset({
    "money", "name", "interval", "varbit", "bit", "xml", "point", "refcursor", "sparsevec",
})  # fmt: skip
_NESTED: Final = (
    "the connector writes arrays of more than one dimension as lists of NULL; if its values have "
    "one, declare the column so (ALTER TABLE … ALTER COLUMN … TYPE {}[])"
)
_MONEY: Final = Decimal(19, 2)
_KNOWN: Final = frozenset({
    *_SIMPLE, *_TEXT, *_STAND_INS, *_EMPTIED, "numeric", "time", "money", "interval", "bit",
    "varbit",
})  # fmt: skip
_VARBIT: Final = (
    "the connector does not send the zeros that its values begin with; store their number by "
    "configuring bigint, of up to 64 bits decimal(20,0)"
)


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
    in_partitions: bool = False
    stays_in_page: bool = False


def describe_table(
    columns: Iterable[PostgresColumn],
    key: tuple[str, ...],
    modes: ConnectorModes,
    *,
    comment: str = "",
) -> Described:
    """Describes a table of the catalog as a connector with these modes writes it.

    A key's column is never lost unnoticed: a record without its value is rejected.
    """
    whole = (replace(c, may_be_toasted=False) if c.name in key else c for c in columns)
    return described_by_catalog((map_column(c, modes) for c in whole), key, comment)


def without_lost(
    told: Described, columns: Iterable[PostgresColumn], modes: ConnectorModes
) -> Described:
    """Corrects a description from a record's schema: refuses columns whose values are not sent.

    Such a column's schema looks ordinary: of text, of an array of one dimension, of bits. A column
    that arrives in another way is left unchanged: a custom converter of the connector writes it.
    """
    known = {each.name: each for each in columns}

    def corrected(column: Column | UnmappedColumn) -> Column | UnmappedColumn:
        source = known.get(column.name)
        if source is None or column.wire not in _sent_as(source):
            return column
        lost = _lost(source, modes)
        if lost is not None:
            return as_column(source, lost)
        if isinstance(column, UnmappedColumn) or column.name in told.key:
            return column
        reason = _unlogged(source, column.wire, modes)
        if reason is None:
            return column
        return UnmappedColumn(column.name, source.type_text, reason, accepted=column)

    return replace(told, columns=tuple(corrected(each) for each in told.columns))


def toast_warning(
    columns: Iterable[PostgresColumn], modes: ConnectorModes, told: Described | None = None
) -> tuple[str, ...]:
    """Warns of columns that lose large values, which look like values that became NULL.

    Numbers of the storage MAIN, which they have by default, are let pass: they are out of line only
    in rows that fill a page with such values.

    Args:
        columns: of one table.
        modes: the connector's.
        told: what a record's schema says of them, which counts more than modes.
    """
    sent = told.columns if told is not None else ()
    wires = {c.name: c.element_wire or c.wire for c in sent if isinstance(c, Column)}
    lost: dict[str, list[str]] = {}
    for each in (c for c in columns if c.may_be_toasted):
        wire = wires.get(each.name)
        unmarked = _unmarked(each.type_name, wire, modes) if each.is_array else None
        reason = _UNLOGGED if _is_unmarked_scalar(each, wire, modes) else unmarked
        if reason is not None:
            lost.setdefault(_with_remedy(reason, each), []).append(each.name)
    return tuple(f"columns {', '.join(names)}: {reason}" for reason, names in lost.items())


def _is_unmarked_scalar(column: PostgresColumn, wire: Wire | None, modes: ConnectorModes) -> bool:
    """Returns whether it is a bit string or number whose unchanged values have no placeholder."""
    if column.is_array:
        return False
    if column.type_name == "bit":
        return column.modifier > _BITS_IN_LINE
    is_text = modes.decimal is DecimalMode.STRING if wire is None else wire is Wire.STRING
    return _is_long_number(column) and not column.stays_in_page and not is_text


def _unmarked(element: str, wire: Wire | None, modes: ConnectorModes) -> str | None:
    """Returns why unchanged arrays of a type have no placeholder; None if they have one.

    ``ConnectSchema.validateValue`` of Kafka Connect refuses a placeholder of another type than the
    elements have: bytes among text, numbers among text or among Connect's own dates.

    Args:
        element: the type's name.
        wire: how elements arrive, by a record's schema; None if only the modes tell. It does not
            show whether a date is Connect's own.
        modes: the connector's.
    """
    match element:
        case "bytea":
            fits = modes.binary is BinaryMode.BYTES if wire is None else wire is not Wire.STRING
        case "date":
            is_text = modes.time is TimeMode.ISOSTRING if wire is None else wire is Wire.ISO_DATE
            fits = not is_text and modes.time is not TimeMode.CONNECT
        case _:
            return None if element in _MARKED_IN_ARRAYS else _UNLOGGED
    return None if fits else _MARKED_BY_MODE[element]


def _sent_as(lost: PostgresColumn) -> Collection[Wire]:
    """Returns the wire types that records' schemas give a column whose values are not sent."""
    if lost.type_name in {"bit", "varbit"}:
        return {Wire.BITS, Wire.BOOLEAN}
    if lost.is_array or lost.type_name in _EMPTIED | _VECTORS:
        return {Wire.LIST, Wire.JSON}
    if _is_bytes(lost):
        return {Wire.STRING, Wire.BYTES_BASE64}
    return {Wire.GEOMETRY} if lost.type_name in _SPATIAL else {Wire.STRING}


def _lost(column: PostgresColumn, modes: ConnectorModes) -> Refused | None:
    """Returns the reason why a column's values are missing or incomplete in records; else None."""
    match column.type_name:
        case name if name in _EMPTIED:
            return Refused(_SENT_EMPTY)
        case name if column.is_array and name in _ARRAYS_LEFT_OUT:
            return Refused(f"the connector leaves arrays of {name} out of its events")
        case _ if column.is_array and column.dimensions > 1:
            return _nested(column)
        case _ if column.is_array or column.kind not in _OF_EXTENSIONS:
            return None
        case "name" if not modes.unknown:
            return Refused(_NAME)
        case "varbit":
            return Refused(_VARBIT, Wire.BITS)
        case _:
            return None


def _unlogged(column: PostgresColumn, wire: Wire, modes: ConnectorModes) -> str | None:
    """Returns the reason why large values that an update leaves alone arrive as NULL; else None.

    Debezium 3.6 has no placeholder of these types, see ``PostgresValueConverter``; of other arrays
    see `toast_warning`. A text in the place of a list or a structure is a failure to convert, which
    a setting of the connector makes it stop at; bytes that are to be base64 are none
    (``JdbcValueConverters.unexpectedBinary``).
    """
    if not column.may_be_toasted:
        return None
    if column.type_name in _VECTORS:
        return _with_remedy(_UNLOGGED, column) + _LOSES_NOTHING
    if column.is_array or column.kind == ENUM:
        return None
    if column.type_name in _SPATIAL:
        return _with_remedy(_UNLOGGED, column) + _LOSES_NOTHING
    # As text they are base64, or what `binary.handling.mode=hex` makes of them.
    is_text = wire is Wire.STRING and modes.binary is not BinaryMode.HEX
    is_base64 = modes.binary is BinaryMode.BASE64
    if _is_bytes(column) and (is_text or is_base64):
        return _with_remedy(_UNLOGGED_BYTES, column)
    return None


def _with_remedy(reason: str, column: PostgresColumn) -> str:
    """Completes a reason: partitions have replica identities of their own."""
    return reason.format(partitions=_OF_EACH_PARTITION if column.in_partitions else "")


def _is_bytes(column: PostgresColumn) -> bool:
    """Returns whether values follow ``binary.handling.mode``."""
    return not column.is_array and (column.type_name == "bytea" or _is_unknown(column))


def map_column(column: PostgresColumn, modes: ConnectorModes) -> Column | UnmappedColumn:
    """Returns the lake column that holds every value of a column exactly, or why there is none."""
    of_type = _array if column.is_array else _scalar
    outcome = _lost(column, modes) or of_type(column, modes)
    if isinstance(outcome, Mapped):
        reason = _unlogged(column, outcome.encoding.wire, modes)
        outcome = Refused(reason, accepted=outcome) if reason else outcome
    return as_column(column, outcome, unchanged_marker=_may_be_marked(column, modes))


def _may_be_marked(column: PostgresColumn, modes: ConnectorModes) -> bool:
    """Returns whether a value may be a placeholder."""
    if column.is_array or column.type_name in _VARLENA or _is_unknown(column):
        return True
    # As text only: a placeholder fits neither bytes nor doubles, see `_unmarked`.
    return modes.decimal is DecimalMode.STRING and _is_long_number(column)


def _is_long_number(column: PostgresColumn) -> bool:
    """Returns whether it is a ``numeric`` whose values may be stored out of line."""
    if column.type_name != "numeric" or column.is_array or column.kind not in _OF_EXTENSIONS:
        return False
    declared = numeric_digits(column.modifier)
    return declared is None or max(declared) > _DIGITS_IN_LINE


def _scalar(column: PostgresColumn, modes: ConnectorModes) -> Outcome:
    name = column.type_name
    if _is_unknown(column):
        return _unknown(modes)
    if column.kind == ENUM or name in _TEXT:
        return Mapped(Primitive.STRING, Encoding(Wire.STRING))
    if name in _SIMPLE:
        digits = seconds_digits(column.modifier)
        return usable(_SIMPLE[name], encoding_of(_SIMPLE[name], modes, digits))
    match name:
        case "numeric":
            return _numeric(column.modifier, modes)
        case "time":
            encoded = time_of_day(seconds_digits(column.modifier), modes.time)
            return usable(Primitive.LONG, encoded, MICROS_OF_DAY)
        case "money":
            return _money(modes)
        case "interval":
            is_text = modes.interval is IntervalMode.STRING
            return stored(stand_ins.INTERVAL if is_text else stand_ins.DURATION)
        case "bit":
            return bits(max(column.modifier, 1))
        case _ if name in _STAND_INS:
            return stored(_STAND_INS[name])
        case _:
            return Refused(_LEFT_OUT)


def _is_unknown(column: PostgresColumn) -> bool:
    """Returns whether the type, or that of an array's elements, is unknown to the connector."""
    if column.kind == ENUM:
        return False
    return column.kind not in _OF_EXTENSIONS or column.type_name not in _KNOWN


def _unknown(modes: ConnectorModes) -> Outcome:
    if not modes.unknown:
        return Refused(_LEFT_OUT)
    return usable(Primitive.BINARY, encoding_of(Primitive.BINARY, modes, None), _AS_TEXT)


def _array(column: PostgresColumn, modes: ConnectorModes) -> Outcome:
    element = _scalar(column, modes)
    if isinstance(element, Refused):
        return Refused(f"elements: {element.reason}")
    if isinstance(element.type, ListOf | StructOf) or element.encoding.wire is Wire.JSON:
        return stored(stand_ins.DOCUMENT)
    encoding = Encoding(Wire.LIST, element.encoding.wire)
    return Mapped(ListOf(element.type), encoding, element.comment, element.detail)


def _nested(column: PostgresColumn) -> Refused:
    return Refused(_NESTED.format(column.type_name))


def _money(modes: ConnectorModes) -> Outcome:
    """Maps money with two digits after the point, the default of ``money.fraction.digits``."""
    if modes.decimal is DecimalMode.PRECISE:
        return stored(stand_ins.decimal(None, 2))
    return usable(_MONEY, encoding_of(_MONEY, modes, None))


def _numeric(modifier: int, modes: ConnectorModes) -> Outcome:
    declared = numeric_digits(modifier)
    # PostgreSQL 15+ allows a scale above the precision: digits start after some zeros.
    exact = stand_ins.decimal(*declared) if declared else stand_ins.UNBOUNDED
    return decimal(exact, modes)


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
