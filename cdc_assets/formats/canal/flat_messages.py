"""Converts Canal's flat messages on Spark, from JSON to the envelopes of their rows."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from cdc_assets.changes.names import TableName
from cdc_assets.databases.mysql.text_types import BLOB, BYTES_OF_NULLS, TEXTS_OF_CANAL
from cdc_assets.decode import read_json
from cdc_assets.formats.canal.messages import (
    DELETE,
    INSERT,
    PASSED_OVER,
    ROLLED_BACK,
    ROWS,
    TRUNCATE,
    UPDATE,
)
from cdc_assets.formats.envelope import (
    Envelope,
    Image,
    Rows,
    if_any,
    no_image,
    no_text,
    nothing_left_out,
)
from cdc_assets.formats.flat import first_of
from cdc_assets.formats.record_json import (
    NO_OBJECT,
    PAYLOAD,
    compared_with,
    misfits,
    parsed,
    unread,
)
from cdc_assets.formats.spec import CONTROL, LINE_BITS, ROW_OPS, STATEMENT, ReadSpec
from cdc_assets.schema.types import Wire

_OPS: Final = {INSERT: "c", UPDATE: "u", DELETE: "d", TRUNCATE: "t"}
_NO_ROW: Final = StructType([
    StructField("onlyHandleKey", BooleanType()), StructField("claimCheckLocation", StringType()),
])  # fmt: skip
_HEAD: Final = StructType([
    *(StructField(n, StringType()) for n in ("database", "table", "type", "mysqlType", "sqlType")),
    StructField("_tidb", _NO_ROW),
])  # fmt: skip
_MAY_BE_BYTES: Final = "|".join(f"{code}\\b" for code in sorted({BLOB, *BYTES_OF_NULLS}))
_TYPES, _CODES = "map<string,string>", "map<string,int>"
_ROLLED_BACK: Final = (
    "a prepared transaction was rolled back (XA ROLLBACK), the rows of which came before it: which "
    "these are is not known"
)
_REPLACED: Final = (
    "its text holds U+FFFD, which stands for what a reader could not take for text (Canal reads "
    "columns of another character set so, TiCDC none); if it is data, set "
    "connector.replacement_characters: keep"
)
"""Canal reads the text of all columns in one encoding, whatever their own; TiCDC does not, which
shows by its extension only. Texts that the table does not read do not matter. Those of which it has
a digest do: it would be another one than that of the column's value."""
_ONLY_KEY: Final = (
    "it holds only the handle key of its row (_tidb.onlyHandleKey), which was too large for "
    "TiCDC's max-message-bytes: raise that and the topic's max.message.bytes, turn off "
    "large-message-handle-option, and read the table again"
)
_ELSEWHERE: Final = (
    "its row is in an object store (_tidb.claimCheckLocation) and not in the message: raise "
    "TiCDC's max-message-bytes and the topic's max.message.bytes, turn off "
    "large-message-handle-option, "
    "and read the table again"
)
_OF_DATABASE: Final = r"(?i)\bdrop\s+(?:database|schema)\b"
_UNTYPED: Final = (
    "it does not tell its types (mysqlType); they are read from the configuration if "
    "tables.<schema.table>.columns names every column, before the table is made"
)
_FIELDS: Final = ("database", "table", "type", "isDdl", "es", "mysqlType", "sql")


def numbered(raw: DataFrame, table: TableName) -> DataFrame:
    """Adds the `writer` of messages, parsed once rather than in each part of the condition."""
    parsed = raw.withColumn("head", _head())
    return parsed.withColumn("writer", _number(F.col("head"), table)).drop("head")


def writer(table: TableName) -> Expression:
    """Hashes the types in a message of the table's rows; NULL for others, and without types."""
    return _number(_head(), table)


def _head() -> Expression:
    return read_json(F.col("value"), _HEAD).getField(PAYLOAD)


def _number(head: Expression, table: TableName) -> Expression:
    mine = (head["database"] == table.schema) & (head["table"] == table.name)
    types = head["mysqlType"]
    changes = head["type"].isin(*ROWS)
    text = F.concat(types, F.coalesce(_as_bytes(types, head["sqlType"]), F.lit("")))
    is_whole = _without_row(head["_tidb"]).isNull()
    return F.when(mine & changes & types.isNotNull() & is_whole, F.xxhash64(text))


def _as_bytes(types: Expression, codes: Expression) -> Expression:
    """Returns the columns that are `is_written_as_bytes`; NULL if a message lists no types."""
    type_of, code_of = F.from_json(types, _TYPES), F.from_json(codes, _CODES)

    def is_written_so(name: Expression) -> Expression:
        code = F.try_element_at(code_of, name)
        text = F.lower(F.try_element_at(type_of, name))
        is_known = F.coalesce(text.isin(*TEXTS_OF_CANAL), F.lit(False))
        return (code == BLOB) | (code.isin(*BYTES_OF_NULLS) & ~is_known)

    names = F.array_join(F.filter(F.map_keys(code_of), is_written_so), ",")
    return F.when(codes.rlike(_MAY_BE_BYTES), names)


def _without_row(extension: Expression) -> Expression:
    """Returns why a message of TiCDC's does not hold its row; NULL if the row is complete."""
    is_elsewhere = F.coalesce(extension.getField("claimCheckLocation"), F.lit("")) != ""
    return F.when(extension.getField("onlyHandleKey"), _ONLY_KEY).when(is_elsewhere, _ELSEWHERE)


def is_untyped(spec: ReadSpec) -> bool:
    """Whether the table's types come from the configuration alone."""
    return all(column.wire is Wire.SCALAR for column in spec.schema.columns)


def document(spec: ReadSpec) -> Expression:
    """Returns a message as from `parsed`; numbers keep their digits."""
    return parsed(_type(spec), spec)


def rows(document: Expression, spec: ReadSpec, *, may_be_refused: bool = False) -> Rows:
    """Returns a message's common part, and ``struct<data, old>`` for each row, one without any.

    Args:
        document: from `document`, a column.
        spec: of the table.
        may_be_refused: whether a message may give in ``reject`` the reason why it could not be
            read; our own code wrote it then, not the producer.
    """
    message = document.getField(PAYLOAD)
    data, old = message.getField("data"), message.getField("old")
    is_too_long = F.coalesce(F.size(data) > 2**LINE_BITS, F.lit(False))
    too_long = F.when(is_too_long, f"it holds more than {2**LINE_BITS:,} rows")
    head = F.struct(
        *(_field(message, name).alias(name) for name in _FIELDS),
        _whole(message.getField("_tidb").getField("commitTs")).alias("commitTs"),
        *(_odd_names(data, kind).alias(kind) for kind in ("unknown", "absent")),
        _without_row(message.getField("_tidb")).alias("lost"),
        _op(message, spec.table).alias("op"),
        F.coalesce(
            F.when(F.col("value").isNull(), "it has no value"),
            unread(document),
            F.when(message.isNull(), NO_OBJECT),
            too_long,
            message.getField("reject") if may_be_refused else no_text(),
        ).alias("unread"),
    )
    images = _images(spec)
    kind = ArrayType(StructType([StructField("data", images), StructField("old", images)]))
    pairs = F.arrays_zip(data, F.coalesce(old, F.slice(data, 1, 0))).cast(kind)
    has_rows = data.isNotNull() & ~is_too_long
    return Rows(head, F.when(has_rows, F.slice(pairs, F.lit(1), F.size(data))))


def _field(message: Expression, name: str) -> Expression:
    return _whole(message.getField(name)) if name == "es" else message.getField(name)


def _whole(number: Expression) -> Expression:
    return number.try_cast(LongType())


def _odd_names(data: Expression, kind: str) -> Expression:
    """Returns the names that rows of a message have, or lack, unlike the columns; NULL for none.

    Args:
        data: the rows.
        kind: ``unknown`` or ``absent``.
    """
    named = F.transform(data, lambda row: misfits(row).getField(kind))
    return if_any(F.array_distinct(F.flatten(F.filter(named, lambda names: names.isNotNull()))))


def _type(spec: ReadSpec) -> StructType:
    images = ArrayType(_images(spec))
    fields = {
        "commitTs": StringType(),
        "onlyHandleKey": BooleanType(),
        "claimCheckLocation": StringType(),
    }
    return StructType(
        [
            StructField("data", images),
            StructField("old", images),
            StructField("database", StringType()),
            StructField("table", StringType()),
            StructField("type", StringType()),
            StructField("isDdl", BooleanType()),
            StructField("es", StringType()),
            StructField("mysqlType", StringType()),
            StructField("sql", StringType()),
            StructField("reject", StringType()),
            StructField(
                "_tidb", StructType([StructField(n, type_) for n, type_ in fields.items()])
            ),
        ]
    )


def _images(spec: ReadSpec) -> StructType:
    """Returns all columns as text."""
    return compared_with([StructField(name, StringType()) for name in spec.schema.names], spec)


def envelope(document: Expression, spec: ReadSpec, *, keeps_replacements: bool) -> Envelope:
    """Returns the envelope of one row of a message.

    Args:
        document: with the ``head`` and ``row`` of `rows`.
        spec: of the table.
        keeps_replacements: whether U+FFFD is data.
    """
    head, row = document.getField("head"), document.getField("row")
    data, old = row.getField("data"), row.getField("old")
    op = head.getField("op")

    is_canal = head.getField("commitTs").isNull()
    return Envelope(
        op=op,
        is_read=F.lit(False),
        before=Image(F.when(op == "d", data).otherwise(old)),
        after=Image(data),
        # ``old`` holds the changed columns; a key is never NULL.
        unchanged=F.array(*(F.lit(each.name) for each in spec.key_columns)).cast("array<string>"),
        left_out=nothing_left_out(),
        record_key=no_image(),
        source=_source(head, spec),
        ordinal=F.lit(None).cast("bigint"),
        reject=_rejection(head, op, spec),
        replaced=no_text() if keeps_replacements else F.when(is_canal, _REPLACED),
        other_table=_other(head, spec.table),
        unknown=F.when(op.isin(*ROW_OPS) & F.lit(is_untyped(spec)), head.getField("unknown")),
        absent=F.when(op.isin(*ROW_OPS), head.getField("absent")),
    )


def _op(message: Expression, table: TableName) -> Expression:
    kind = message.getField("type")
    named = first_of((kind == name, F.lit(op)) for name, op in _OPS.items())
    named = named.when(_is_statement(message, table), STATEMENT)
    is_ddl = F.coalesce(message.getField("isDdl"), F.lit(False))
    return named.when(is_ddl | kind.isin(*PASSED_OVER), CONTROL)


def _is_statement(message: Expression, table: TableName) -> Expression:
    """Whether a message is a statement that may change the table, alone or as one of several.

    A packet's messages have no text here.
    """
    database, name, text = (message.getField(each) for each in ("database", "table", "sql"))
    is_named = (database == table.schema) & (name == table.name)
    is_about = F.contains(F.lower(text), F.lit(table.name.lower())) | text.rlike(_OF_DATABASE)
    may_be = F.coalesce(is_named, F.lit(False)) | F.coalesce(is_about, F.lit(True))
    is_change = message.getField("type").isin(*_OPS)
    return F.coalesce(message.getField("isDdl") & may_be & ~is_change, F.lit(False))


def _source(head: Expression, spec: ReadSpec) -> Expression:
    """Returns the commit's time, in whole seconds of the binlog."""
    none = F.lit(None).cast("bigint")
    own = (head.getField(each.name).alias(each.name) for each in spec.order.fields)
    return F.struct(
        head.getField("es").alias("ts_ms"),
        none.alias("ts_us"),
        no_text().alias("snapshot"),
        *own,
    )


def _other(head: Expression, table: TableName) -> Expression:
    """Returns the table that a message belongs to, if it names a table other than this one."""
    database, name = head.getField("database"), head.getField("table")
    other = _is_named(head) & ((database != table.schema) | (name != table.name))
    changes = head.getField("type").isin(*ROWS)
    named = F.when(changes, F.concat_ws(".", database, name)).otherwise("")
    return F.when(other & ~head.getField("op").eqNullSafe(STATEMENT), named)


def _is_named(head: Expression) -> Expression:
    database, name = head.getField("database"), head.getField("table")
    return F.coalesce((database != "") & (name != ""), F.lit(False))


def _rejection(head: Expression, op: Expression, spec: ReadSpec) -> Expression:
    is_typed = F.lit(not is_untyped(spec))
    changes = op.isin(*ROW_OPS, "d")
    return (
        F.when(head.getField("unread").isNotNull(), head.getField("unread"))
        .when(head.getField("type") == ROLLED_BACK, _ROLLED_BACK)
        .when(op.isNull(), "not a message of Canal, or of a type that is not known")
        .when((changes | (op == "t")) & ~_is_named(head), "it does not name its database and table")
        .when(changes & head.getField("lost").isNotNull(), head.getField("lost"))
        .when(is_typed & changes & head.getField("mysqlType").isNull(), _UNTYPED)
    )
