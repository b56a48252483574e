"""Reads definitions of MySQL's columns, with sqlglot: their type, and the value of older rows."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from cdc_assets.schema.ddl import Given

_FLOATS: Final = frozenset({exp.DataType.Type.FLOAT, exp.DataType.Type.DOUBLE})
_KINDS: Final = (exp.DataType.INTEGER_TYPES | exp.DataType.TEXT_TYPES) - {exp.DataType.Type.BIT} | {
    exp.DataType.Type.DECIMAL, exp.DataType.Type.UDECIMAL, exp.DataType.Type.BOOLEAN,
    exp.DataType.Type.DATE, exp.DataType.Type.DATETIME, *_FLOATS,
}  # fmt: skip
"""Types of MySQL whose rows have a constant as a statement writes it."""

_NULLABLE: Final = _KINDS | {
    exp.DataType.Type.JSON, exp.DataType.Type.ENUM, exp.DataType.Type.SET, exp.DataType.Type.TIME,
    exp.DataType.Type.BINARY, exp.DataType.Type.VARBINARY, exp.DataType.Type.BLOB,
    exp.DataType.Type.YEAR, exp.DataType.Type.BIT,
}  # fmt: skip
"""Types of MySQL that are NULL without a default; an old server's ``timestamp`` is not."""

_PLAIN_CONSTRAINTS: Final = frozenset({
    exp.DefaultColumnConstraint, exp.NotNullColumnConstraint, exp.CommentColumnConstraint,
    exp.CharacterSetColumnConstraint, exp.CollateColumnConstraint, exp.InvisibleColumnConstraint,
    exp.CheckColumnConstraint, exp.Reference, exp.UniqueColumnConstraint,
})  # fmt: skip

_EXACT: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")
_REWRITTEN: Final = re.compile(r"[\\\x00-\x1f]| \Z")
"""In a quoted default: what escapes may mean, and what ``char`` cuts off."""


@contextmanager
def quiet() -> Iterator[None]:
    """Silences sqlglot, which prints statements that it cannot parse; a default may be a secret."""
    logger = logging.getLogger("sqlglot")
    was, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = was


def read_definition(text: str) -> tuple[str, Given | None]:
    """Returns the type as text, and what older rows get in a new column.

    The type is empty if it is unknown, or says nothing of the values: those of a generated column
    change with its expression.

    Args:
        text: of a column, after its name; with its place among the others, or without.
    """
    try:
        with quiet():
            tree = sqlglot.parse_one(f"ALTER TABLE t ADD COLUMN c {text}", read="mysql")
    except (SqlglotError, RecursionError):
        return "", None
    actions = tree.args.get("actions") or ()
    if not isinstance(tree, exp.Alter) or len(actions) != 1:
        return "", None
    (column,) = actions
    kind = column.args.get("kind") if isinstance(column, exp.ColumnDef) else None
    if not isinstance(kind, exp.DataType) or column.find(exp.ComputedColumnConstraint):
        return "", None
    return kind.sql("mysql"), _given(column)


def _given(column: exp.ColumnDef) -> Given | None:
    """Returns what the rows that are there get in a new column of MySQL; None if unknown."""
    kind = column.args.get("kind")
    of = {type(each.kind): each.kind for each in column.args.get("constraints") or ()}
    if not isinstance(kind, exp.DataType) or not of.keys() <= _PLAIN_CONSTRAINTS:
        return None
    default, not_null = of.get(exp.DefaultColumnConstraint), of.get(exp.NotNullColumnConstraint)
    if default is not None:
        return _constant(default.this, kind)
    if not_null is not None and not not_null.args.get("allow_null"):
        return Given(is_implied=True) if kind.this in _KINDS else None
    return Given() if kind.this in _NULLABLE else None


def _constant(default: exp.Expr, kind: exp.DataType) -> Given | None:
    is_cut = kind.this in _FLOATS and bool(kind.expressions)  # to the type's digits
    match default:
        case exp.Null():
            return Given()
        case exp.Boolean() if kind.this in exp.DataType.INTEGER_TYPES:
            return Given(str(int(default.this)))
        case exp.Literal(is_string=True) if kind.this in _KINDS:
            is_rounded = kind.this == exp.DataType.Type.DATETIME and "." in default.this
            is_other = is_rounded or is_cut or _REWRITTEN.search(default.this)
            return None if is_other else Given(default.this)
        case exp.Literal() | exp.Neg(this=exp.Literal()) if kind.this in _KINDS:
            text = f"-{default.this.this}" if isinstance(default, exp.Neg) else str(default.this)
            return Given(text) if _EXACT.fullmatch(text) and not is_cut else None
        case _:
            return None
