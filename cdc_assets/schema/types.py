"""Column types of the lake, and the encodings in which their values arrive.

A column has an Iceberg type (stored in the lake) and a wire encoding (used in the change event).
The pair decides the decoding; neither is ever guessed from a value's magnitude.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

MAX_DECIMAL_DIGITS: Final = 38
"""Iceberg's limit: https://iceberg.apache.org/spec/#primitive-types."""

MICROS_OF_DAY: Final = "microseconds since midnight"
"""The stored form of a time of day; the comment of such columns."""


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
    """The encoding of a value in the event (names follow Kafka Connect and Debezium)."""

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
    ISO_TIMESTAMP = "iso_timestamp"  # io.debezium.time.IsoTimestamp: with Z, but without a zone
    MILLIS_OF_DAY = "millis_of_day"  # a time of day; stored as microseconds since midnight
    NANOS_OF_DAY = "nanos_of_day"  # a time of day; stored as microseconds since midnight
    LIST = "list"  # with the element's own encoding, see `Column.element_wire`
    # MySQL and MariaDB, by Debezium
    BOOLEAN_OR_INT = "boolean_or_int"  # tinyint(1): true and false count as 1 and 0
    UNSIGNED_LONG = "unsigned_long"  # 64 bits without a sign, written as a signed number
    BITS = "bits"  # io.debezium.data.Bits: base64 of little-endian bytes
    POINT = "point"  # io.debezium.data.geometry.Point: struct {x, y, wkb, srid}
    GEOMETRY = "geometry"  # io.debezium.data.geometry.Geometry: struct {wkb, srid}
    # Formats in which every value is text
    INTEGER_TEXT = "integer_text"
    FLOATING_TEXT = "floating_text"  # the shortest digits that identify this float or double
    BOOLEAN_TEXT = "boolean_text"  # 0 and 1, or false and true
    DATE_TEXT = "date_text"  # yyyy-MM-dd
    TIME_TEXT = "time_text"  # [-]hhh:mm:ss[.ffffff]; stored as microseconds
    TIMESTAMP_TEXT = "timestamp_text"  # yyyy-MM-dd HH:mm:ss[.ffffff], in `WireDetail.zone` if any
    BYTES_LATIN1 = "bytes_latin1"  # each byte as the character of its number (ISO-8859-1)
    TEXT_LATIN1 = "text_latin1"  # a text whose bytes in UTF-8 are written like this
    JSON_TEXT = "json_text"  # a text that is JSON; stored as it is
    ENUM_ORDINAL = "enum_ordinal"  # number of the label, from 1; 0 is the empty text
    SET_BITS = "set_bits"  # a number with a bit for each label, the first label's lowest
    # Formats whose JSON alone describes values
    SCALAR = "scalar"  # text or a number: the column's type decides how it is read
    LABELS = "labels"  # an array of a set's labels; stored with commas between them
    JSON = "json"  # any JSON; stored as its text
    SHARD = "shard"  # in no record: the row's source table, where several are merged into one


@dataclass(frozen=True, slots=True)
class WireDetail:
    """Facts that decoding needs in addition to the wire encoding.

    Attributes:
        labels: of an enumeration or a set, in the order of their declaration. A text that arrives
            with them is one of them; the list is the record's own, and not stored with the table.
        many: whether such a text holds any number of them, with commas between them.
        is_closed: whether there are no others. PostgreSQL's connector learns of new ones when it
            starts; until then they come with the old list, and only numbers are no labels.
        number: whether a text is a number: Debezium has words of its own for NaN and infinities.
        zone: the zone of text without an offset: an IANA name or ``+hh:mm``.
        width: bytes of a value of fixed width, which arrives without its trailing zero bytes;
            0 if values arrive whole.
        least: least number of bytes of a value whose width is unknown.
        scale: digits after the point of a decimal's bytes; None for those of its type, or none.
        bits: number of bits of a bit string, where that is known.
        mask: whether the lake has only a digest of the values.
        salt: the mark of the salt that the digest is made with; empty for a digest without one.
    """

    labels: tuple[str, ...] = ()
    zone: str = ""
    width: int = 0
    scale: int | None = None
    bits: int = 0
    mask: bool = False
    least: int = 0
    many: bool = False
    is_closed: bool = False
    number: bool = False
    salt: str = ""


@dataclass(frozen=True, slots=True)
class Identity:
    """The source column that a lake column belongs to, independent of both columns' names.

    Attributes:
        name: in records; empty if it is the lake's.
        formerly: former names in records.
        was: former names in the lake.
        number: in the database's catalog (PostgreSQL's ``attnum``), which a rename keeps; 0 if
            unknown.
        turn: number of renames in the table before it got its name in the lake: of two columns
            with one name in turn, the one with the higher turn has it now.
    """

    name: str = ""
    formerly: tuple[str, ...] = ()
    was: tuple[str, ...] = ()
    number: int = 0
    turn: int = 0


@dataclass(frozen=True, slots=True)
class Existing:
    """A column's value in the rows older than the column, by ``ADD COLUMN … DEFAULT``.

    Attributes:
        text: of the lake's value; None if unknown.
        id: of this addition of a column: a publish names those whose older rows have the value.
        is_empty: whether older rows stay empty for that; else an unknown value stops the table.
    """

    text: str | None
    id: str = ""
    is_empty: bool = False


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its stored type, its encoding, and whether it may be missing.

    ``unchanged_marker`` means that the source may send a placeholder instead of the value
    when the column did not change (PostgreSQL's TOAST); see docs/architecture/batch.md. ``absent``
    means that records may lack the column: the source has dropped it, or a person says so.
    ``existing`` is its value in rows older than the column; None if that is NULL.
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
        """The column's name in records."""
        return self.identity.name or self.name

    @property
    def wire_scale(self) -> int:
        """Digits after the point of a decimal that arrives as bytes, or of a list of such."""
        if self.detail is not None and self.detail.scale is not None:
            return self.detail.scale
        of = self.type.element if isinstance(self.type, ListOf) else self.type
        return of.scale if isinstance(of, Decimal) else 0


@dataclass(frozen=True, slots=True)
class TableSchema:
    """Columns in source order and the names of the key columns (empty: no primary key).

    ``left_out`` are columns of the source that the table does not have, though records may:
    the source does not publish their changes.
    """

    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    comment: str = ""
    origin: str = field(default="", compare=False)  # where the types come from, for people
    left_out: tuple[str, ...] = ()

    def column(self, name: str) -> Column:
        """Returns the column of this name; raises KeyError."""
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
        """Columns that every row image must contain, apart from the key's."""
        return tuple(c.name for c in self.columns if not c.absent and c.name not in self.key)

    @property
    def masked(self) -> frozenset[str]:
        """Columns whose values the lake has only as digests."""
        return frozenset(c.name for c in self.columns if c.detail and c.detail.mask)

    @property
    def shard_column(self) -> str | None:
        """The column that distinguishes several source tables' rows; None if there is one."""
        return next((each.name for each in self.columns if each.wire is Wire.SHARD), None)

    @property
    def of_source(self) -> TableSchema:
        """The schema at the source: without the shard column."""
        column = self.shard_column
        if column is None:
            return self
        columns = tuple(each for each in self.columns if each.name != column)
        return replace(self, columns=columns, key=tuple(n for n in self.key if n != column))

    @property
    def as_sent(self) -> TableSchema:
        """The schema with its columns' names in records."""
        columns = {each.sent_as: replace(each, name=each.sent_as) for each in self.columns}
        key = tuple(self.column(name).sent_as for name in self.key)
        return replace(self, columns=tuple(columns.values()), key=key)

    @property
    def by_any_name(self) -> dict[str, str]:
        """The lake's names of columns, by their present and former names in records."""
        former = {old: each.name for each in self.columns for old in each.identity.formerly}
        return former | {each.sent_as: each.name for each in self.columns}

    @property
    def by_every_name(self) -> dict[str, str]:
        """The same, also by present and former names in the lake, of which present ones win."""
        former = {old: each.name for each in self.columns for old in each.identity.was}
        return former | self.of_source.by_any_name | {name: name for name in self.names}

    def with_shard(self, column: str) -> TableSchema:
        """Adds a shard column, as the first of the table and of its key."""
        shard = Column(column, Primitive.STRING, Wire.SHARD, required=True)
        return replace(self, columns=(shard, *self.columns), key=(column, *self.key))

    def with_absent(self, names: Iterable[str]) -> TableSchema:
        """Marks columns that may be missing from records."""
        gone = set(names)
        columns = (replace(c, absent=c.absent or c.name in gone) for c in self.columns)
        return replace(self, columns=tuple(columns))


@dataclass(frozen=True, slots=True)
class UnmappedColumn:
    """A source column whose type cannot be stored exactly, with the reason.

    ``wire`` is the encoding of its values, if a type given in the configuration could store
    them; None if nothing can. ``accepted`` is the column that it is if a person accepts that some
    of its values are lost; None if that helps nothing.
    """

    name: str
    source_type: str
    reason: str
    wire: Wire | None = None
    required: bool = False
    unchanged_marker: bool = False
    comment: str = ""
    accepted: Column | None = None


def describe_unmapped(columns: Iterable[UnmappedColumn]) -> str:
    """Describes the columns in one line, for an error message."""
    return "; ".join(f"{c.name} ({c.source_type}): {c.reason}" for c in columns)
