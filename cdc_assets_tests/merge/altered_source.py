"""A source's table whose columns are altered while its rows change, as Debezium tells of it.

Columns are known by their numbers, as in PostgreSQL's catalog: names and types pass. `Sent.form`
says which columns a record was written with, whenever it is read.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from cdc_assets.changes.names import TableName
from cdc_assets.changes.position import Scheme
from cdc_assets.databases.catalog import ColumnFacts
from cdc_assets.databases.postgres.columns import PostgresColumn
from cdc_assets.databases.postgres.table import PostgresTable, ReplicaIdentity
from cdc_assets_tests.databases.postgres_columns import column as of_type
from cdc_assets_tests.databases.postgres_columns import numeric
from cdc_assets_tests.merge.events import event
from cdc_assets_tests.merge.inline import in_schema
from cdc_assets_tests.pipeline import Message

KEY = 1
Row = dict[int, Any]
"""By the columns' numbers."""


@dataclass(frozen=True)
class Kind:
    """A type: in a Connect schema, in the catalog, and values that it has."""

    literal: str
    type_name: str
    values: tuple[Any, ...]
    digits: tuple[int, int] | None = None


INT = Kind("int32", "int4", (7, -3, 2**31 - 1))
BIGINT = Kind("int64", "int8", (7, 2**40, -(2**63)))
REAL = Kind("float", "float4", (0.1, 2.5, -1e30))
DOUBLE = Kind("double", "float8", (0.1, 1 / 3, 1e300))
NUMERIC = Kind("bytes", "numeric", (Decimal("1.25"), Decimal("-999999.99")), (8, 2))
LONGER = Kind("bytes", "numeric", (Decimal("1.25"), Decimal("-9999999999.99")), (12, 2))
OTHER_SCALE = Kind("bytes", "numeric", (Decimal("1.2500"),), (10, 4))
TEXT = Kind("string", "text", ("a", "", "ä€"))
WIDER = {INT: BIGINT, REAL: DOUBLE, NUMERIC: LONGER}
REWRITES = (INT, REAL)


@dataclass(frozen=True)
class SourceColumn:
    """``default`` is what rows had that were there when it was added."""

    number: int
    name: str
    kind: Kind
    optional: bool = True
    default: Any = None


Form = tuple[SourceColumn, ...]


@dataclass(frozen=True)
class Sent:
    """A change as it is in the log."""

    op: str
    row: Row
    form: int
    lsn: int
    partition: int


@dataclass
class Source:
    """The table: what it is and was, its rows by key, and what the catalog has lost."""

    partitions: int = 3
    forms: list[Form] = field(default_factory=list)
    names: dict[int, list[str]] = field(default_factory=dict)
    rows: dict[int, Row] = field(default_factory=dict)
    forgotten: set[int] = field(default_factory=set)
    lsn: int = 1000
    count: int = 0

    def __post_init__(self) -> None:
        first = [self.new(kind) for kind in (INT, TEXT, INT, REAL, NUMERIC)]
        first[0] = replace(first[0], optional=False)
        first[2] = replace(first[2], optional=False)
        self.forms.append(tuple(first))

    @property
    def columns(self) -> Form:
        """As they are now."""
        return self.forms[-1]

    # ── rows ──────────────────────────────────────────────────────────────────────────────

    def put(self, id_: int, values: Mapping[int, Any]) -> Sent:
        """Insert a row, or change columns of it."""
        op = "u" if id_ in self.rows else "c"
        self.rows[id_] = {**self.rows.get(id_, {}), **values, KEY: id_}
        return self._sent(op, self.rows[id_])

    def delete(self, id_: int) -> Sent:
        """Take a row away."""
        return self._sent("d", self.rows.pop(id_))

    def _sent(self, op: str, row: Row) -> Sent:
        self.lsn += 10
        whole = {each.number: row.get(each.number) for each in self.columns}
        return Sent(op, whole, len(self.forms) - 1, self.lsn, row[KEY] % self.partitions)

    # ── columns ───────────────────────────────────────────────────────────────────────────

    def new(self, kind: Kind, default: Any = None) -> SourceColumn:
        """A column that no form has yet."""
        self.count += 1
        self.names[self.count] = [f"c{self.count}"]
        return SourceColumn(self.count, f"c{self.count}", kind, default=default)

    def add(self, column: SourceColumn) -> None:
        """All rows that are there have its default from now on."""
        for row in self.rows.values():
            row[column.number] = column.default
        self.forms.append((*self.columns, column))

    def alter(self, number: int, **change: Any) -> None:
        """Another type, name or nullability."""
        was = next(each for each in self.columns if each.number == number)
        now = replace(was, **change)
        if now.kind != was.kind and was.kind in REWRITES:
            self.forgotten |= {each.number for each in self.columns}
        if now.name not in self.names[number]:
            self.names[number].append(now.name)
        if was.kind is REAL and now.kind is DOUBLE:
            for row in self.rows.values():
                row[number] = stored(REAL, row.get(number))
        self.forms.append(tuple(now if each is was else each for each in self.columns))

    def drop(self, number: int) -> None:
        """With its values."""
        for row in self.rows.values():
            row.pop(number, None)
        self.forms.append(tuple(each for each in self.columns if each.number != number))

    def reorder(self) -> None:
        """Back to front."""
        self.forms.append(self.columns[::-1])

    # ── as others see it ──────────────────────────────────────────────────────────────────

    scheme = Scheme.POSTGRES

    def read(self, tables: Iterable[TableName]) -> dict[TableName, PostgresTable]:
        """Its catalog; see `cdc_assets.databases.kinds.SourceCatalog`."""
        columns = tuple(
            replace(_in_catalog(each.kind), name=each.name, not_null=not each.optional)
            for each in self.columns
        )
        facts = {each.name: self._facts(each) for each in self.columns}
        key = tuple(each.name for each in self.columns if each.number == KEY)
        table = PostgresTable(columns, key, ReplicaIdentity.FULL, "", facts=facts)
        return dict.fromkeys(tables, table)

    def _facts(self, column: SourceColumn) -> ColumnFacts:
        if column.default is None:
            return ColumnFacts(column.number)
        if column.number in self.forgotten:
            return ColumnFacts(column.number, is_unknown=True)
        return ColumnFacts(column.number, str(column.default))

    def message(self, sent: Sent, *, inline: bool) -> Message:
        """As Debezium writes it, each column by the name and type of the record's form."""
        form = self.forms[sent.form]
        row = {each.name: on_the_wire(each.kind, sent.row[each.number]) for each in form}
        key = tuple(each.name for each in form if each.number == KEY)
        commit = sent.lsn - 5
        made = event(sent.op, row, sent.lsn, key=key, commit=commit, partition=sent.partition)
        return in_form(made, form, key) if inline else made


def in_form(made: Message, form: Form, key: tuple[str, ...]) -> Message:
    """With the schema of the form around value and key."""
    fields = [_field(each) for each in form]
    images = [
        {"field": name, "type": "struct", "optional": True, "fields": fields}
        for name in ("before", "after")
    ]
    of_key = {"type": "struct", "fields": [f for f in fields if f["field"] in key]}
    around = in_schema(Message(None, made.key), of_key).value if made.key else None
    return replace(in_schema(made, {"type": "struct", "fields": images}), key=around)


def _in_catalog(kind: Kind) -> PostgresColumn:
    return numeric(*kind.digits) if kind.digits else of_type(kind.type_name)


def stored(kind: Kind, value: Any) -> Any:
    """A real is the nearest number of 32 bits, and remains it as a double."""
    if kind is not REAL or not isinstance(value, int | float):
        return value
    return struct.unpack("<f", struct.pack("<f", value))[0]


def on_the_wire(kind: Kind, value: Any) -> Any:
    """Numbers with a scale as the bytes of the unscaled one."""
    if value is None or kind.digits is None:
        return value
    unscaled = int(value.scaleb(kind.digits[1]))
    return base64.b64encode(unscaled.to_bytes(8, "big", signed=True)).decode()


def _field(column: SourceColumn) -> dict[str, Any]:
    said: dict[str, Any] = {"field": column.name, "type": column.kind.literal}
    said["optional"] = column.optional
    if column.kind.digits:
        precision, scale = map(str, column.kind.digits)
        said["name"] = "org.apache.kafka.connect.data.Decimal"
        said["parameters"] = {"scale": scale, "connect.decimal.precision": precision}
    if column.default is not None:
        said["default"] = on_the_wire(column.kind, column.default)
    return said
