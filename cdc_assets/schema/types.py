"""Column types of the lake and how a value of each arrives on the wire.

A column has an Iceberg type (what is stored) and a wire encoding (what the change event
holds). The pair decides the decoding; neither is ever guessed from a value's magnitude.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

MAX_DECIMAL_DIGITS: Final = 38
"""Iceberg's limit: https://iceberg.apache.org/spec/#primitive-types."""

MICROS_OF_DAY: Final = "microseconds since midnight"
"""How a time of day is stored; the comment of such columns."""


class Primitive(StrEnum):
    """Iceberg primitive types without parameters, spelled as Spark SQL spells them in DDL."""

    BOOLEAN = "boolean"
    INT = "int"
    LONG = "bigint"
    FLOAT = "float"
    DOUBLE = "double"
    STRING = "string"
    BINARY = "binary"
    DATE = "date"
    TIMESTAMP = "timestamp_ntz"
    TIMESTAMPTZ = "timestamp"


@dataclass(frozen=True, slots=True)
class Decimal:
    """``decimal(precision, scale)``, of at most `MAX_DECIMAL_DIGITS` digits."""

    precision: int
    scale: int

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})"


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list of optional elements."""

    element: Primitive | Decimal

    def __str__(self) -> str:
        return f"array<{self.element}>"


@dataclass(frozen=True, slots=True)
class StructOf:
    """Optional fields, each with a name."""

    fields: tuple[tuple[str, Primitive], ...]

    def __str__(self) -> str:
        return f"struct<{','.join(f'{name}:{type_}' for name, type_ in self.fields)}>"


ColumnType = Primitive | Decimal | ListOf | StructOf


class Wire(StrEnum):
    """How a value is written in the event (names follow Kafka Connect and Debezium)."""

    BOOLEAN = "boolean"
    INT = "int"
    LONG = "long"
    FLOAT = "float"
    DOUBLE = "double"
    STRING = "string"
    BYTES_BASE64 = "bytes_base64"
    BYTES_HEX = "bytes_hex"
    DECIMAL_BYTES = "decimal_bytes"  # base64 of big-endian two's complement, scale in the schema
    DECIMAL_TEXT = "decimal_text"  # a JSON string or number
    VARIABLE_SCALE_DECIMAL = "variable_scale_decimal"  # struct {scale, value}
    EPOCH_DAYS = "epoch_days"
    EPOCH_MILLIS = "epoch_millis"
    EPOCH_MICROS = "epoch_micros"
    EPOCH_NANOS = "epoch_nanos"
    ISO_ZONED = "iso_zoned"  # io.debezium.time.ZonedTimestamp
    ISO_DATE = "iso_date"  # io.debezium.time.IsoDate: yyyy-MM-ddZ
    ISO_TIME = "iso_time"  # io.debezium.time.IsoTime; stored as microseconds since midnight
    ISO_TIMESTAMP = "iso_timestamp"  # io.debezium.time.IsoTimestamp: with Z, of no zone
    MILLIS_OF_DAY = "millis_of_day"  # a time of day; stored as microseconds since midnight
    NANOS_OF_DAY = "nanos_of_day"  # likewise
    LIST = "list"  # of the element's own wire encoding, see `Column.element_wire`
    # MySQL and MariaDB, by Debezium
    BOOLEAN_OR_INT = "boolean_or_int"  # tinyint(1): true and false count as 1 and 0
    UNSIGNED_LONG = "unsigned_long"  # 64 bits without a sign, written as a signed number
    BITS = "bits"  # io.debezium.data.Bits: base64 of little-endian bytes
    POINT = "point"  # io.debezium.data.geometry.Point: struct {x, y, wkb, srid}
    GEOMETRY = "geometry"  # io.debezium.data.geometry.Geometry: struct {wkb, srid}
    # Formats in which every value is text
    INTEGER_TEXT = "integer_text"
    FLOATING_TEXT = "floating_text"  # the shortest digits that are this float or double
    BOOLEAN_TEXT = "boolean_text"  # 0 and 1, or false and true
    DATE_TEXT = "date_text"  # yyyy-MM-dd
    TIME_TEXT = "time_text"  # [-]hhh:mm:ss[.ffffff]; stored as microseconds
    TIMESTAMP_TEXT = "timestamp_text"  # yyyy-MM-dd HH:mm:ss[.ffffff], in `WireDetail.zone` if any
    BYTES_LATIN1 = "bytes_latin1"  # each byte as the character of its number (ISO-8859-1)
    ENUM_ORDINAL = "enum_ordinal"  # number of the label, from 1; 0 is the empty text
    SET_BITS = "set_bits"  # a number with a bit for each label, the first label's lowest
    # Formats whose JSON alone tells of values
    SCALAR = "scalar"  # text or a number: the column's type says how it is read
    LABELS = "labels"  # an array of a set's labels; stored with commas between them
    JSON = "json"  # any JSON; stored as its text
    SHARD = "shard"  # in no record: of which table the row is, of those that are merged into one


@dataclass(frozen=True, slots=True)
class WireDetail:
    """What decoding must know beside the wire encoding.

    Attributes:
        labels: of an enumeration or a set, in the order of their declaration.
        zone: that a text without an offset is local in: an IANA name or ``+hh:mm``.
        width: bytes of a value of fixed width, which arrives without its trailing zero bytes;
            0 if values arrive whole.
        scale: digits after the point of a decimal that is stored as text.
        bits: how many a bit string has that is stored as text.
        mask: the lake has only a digest of the values.
    """

    labels: tuple[str, ...] = ()
    zone: str = ""
    width: int = 0
    scale: int = 0
    bits: int = 0
    mask: bool = False


@dataclass(frozen=True, slots=True)
class Identity:
    """Which column of the source a column of the lake is, whatever either calls it.

    Attributes:
        name: in records; empty if it is the lake's.
        formerly: names that it had in records before.
        was: names that it had in the lake before.
        number: in the database's catalog (PostgreSQL's ``attnum``), which a rename keeps; 0 if it
            is not known.
        turn: how many columns of the table had been renamed when it got its name in the lake: of
            two columns that one name has meant, the later one has it.
    """

    name: str = ""
    formerly: tuple[str, ...] = ()
    was: tuple[str, ...] = ()
    number: int = 0
    turn: int = 0


@dataclass(frozen=True, slots=True)
class Existing:
    """The value of a column in the rows that are older than it, as ``ADD COLUMN … DEFAULT`` has it.

    Attributes:
        text: of the lake's value; None if nothing tells it.
        id: of this addition of a column: a publish names those whose older rows have the value.
    """

    text: str | None
    id: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """One column: what is stored, how it arrives, and whether it may be left out.

    ``unchanged_marker`` says that the source may send a placeholder instead of the value
    when the column did not change (PostgreSQL's TOAST); see docs/ARCHITECTURE.md. ``absent``
    says that records may lack the column: the source has dropped it, or a person says so.
    ``existing`` is what rows have in it that are older than the column; None if that is NULL.
    """

    name: str
    type: ColumnType
    wire: Wire
    required: bool = False
    unchanged_marker: bool = False
    element_wire: Wire | None = None
    comment: str = ""
    absent: bool = False
    detail: WireDetail | None = None
    identity: Identity = Identity()
    existing: Existing | None = None

    @property
    def sent_as(self) -> str:
        """Its name in records."""
        return self.identity.name or self.name


@dataclass(frozen=True, slots=True)
class TableSchema:
    """Columns in source order and the names of the key columns (empty: no primary key).

    ``left_out`` are columns of the source that the table does not have, though records may:
    the source publishes no changes of them.
    """

    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    comment: str = ""
    origin: str = field(default="", compare=False)  # where the types come from, for people
    left_out: tuple[str, ...] = ()

    def column(self, name: str) -> Column:
        """The column of this name; raises KeyError."""
        for each in self.columns:
            if each.name == name:
                return each
        raise KeyError(name)

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in order."""
        return tuple(each.name for each in self.columns)

    @property
    def expected(self) -> tuple[str, ...]:
        """Columns that every row image is to hold, the key's aside."""
        return tuple(c.name for c in self.columns if not c.absent and c.name not in self.key)

    @property
    def masked(self) -> frozenset[str]:
        """Columns of which the lake has digests only."""
        return frozenset(c.name for c in self.columns if c.detail and c.detail.mask)

    @property
    def shard_column(self) -> str | None:
        """The column that tells rows of several source tables apart; None if there is only one."""
        return next((each.name for each in self.columns if each.wire is Wire.SHARD), None)

    @property
    def of_source(self) -> TableSchema:
        """As the source has it: without that column."""
        column = self.shard_column
        if column is None:
            return self
        columns = tuple(each for each in self.columns if each.name != column)
        return replace(self, columns=columns, key=tuple(n for n in self.key if n != column))

    @property
    def as_sent(self) -> TableSchema:
        """By the names that records have for its columns."""
        columns = {each.sent_as: replace(each, name=each.sent_as) for each in self.columns}
        key = tuple(self.column(name).sent_as for name in self.key)
        return replace(self, columns=tuple(columns.values()), key=key)

    @property
    def by_any_name(self) -> dict[str, str]:
        """The lake's names of columns by those that they have, or had, in records."""
        former = {old: each.name for each in self.columns for old in each.identity.formerly}
        return former | {each.sent_as: each.name for each in self.columns}

    def with_shard(self, column: str) -> TableSchema:
        """With such a column, the first of the table and of its key."""
        shard = Column(column, Primitive.STRING, Wire.SHARD, required=True)
        return replace(self, columns=(shard, *self.columns), key=(column, *self.key))

    def with_absent(self, names: Iterable[str]) -> TableSchema:
        """With columns marked as those that records may lack."""
        gone = set(names)
        columns = (replace(c, absent=c.absent or c.name in gone) for c in self.columns)
        return replace(self, columns=tuple(columns))


@dataclass(frozen=True, slots=True)
class UnmappedColumn:
    """A source column whose type cannot be stored exactly, with the reason.

    ``wire`` says how its values arrive, if a type given in the configuration could store
    them; None if nothing can.
    """

    name: str
    source_type: str
    reason: str
    wire: Wire | None = None
    required: bool = False
    unchanged_marker: bool = False
    comment: str = ""


def describe_unmapped(columns: Iterable[UnmappedColumn]) -> str:
    """One line for an error message."""
    return "; ".join(f"{c.name} ({c.source_type}): {c.reason}" for c in columns)
