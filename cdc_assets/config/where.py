"""Parses the condition on a table's rows, with sqlglot. https://sqlglot.com/sqlglot.html."""

from __future__ import annotations

from typing import Any, Final

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from cdc_assets.errors import TerminalError
from cdc_assets.schema.row_condition import (
    AllOf,
    AnyOf,
    Compare,
    Constant,
    IsNull,
    Kind,
    Like,
    Not,
    OneOf,
    RowCondition,
    require_pattern,
)

_LONGEST: Final = 10_000
_OPERATORS: Final = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
}  # fmt: skip
_TURNED: Final = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_PARTS: Final = frozenset({
    "this", "expression", "expressions", "low", "high", "to", "_type", "is_string",
})  # fmt: skip
"""The parts of nodes that are looked at."""
_REMEDY: Final = (
    "compare columns with constants: =, <>, <, <=, >, >=, IN (…), BETWEEN, LIKE, IS NULL, and "
    'combine these by AND, OR and NOT. Odd names stand in double quotes: "Name"'
)


def parse_where(text: str) -> RowCondition:
    """Parses a condition.

    Raises:
        TerminalError: if it is none, or has what engines compute differently.
    """
    what = f"it is longer than {_LONGEST} characters"
    if len(text) > _LONGEST:
        raise TerminalError(what, remedy=_REMEDY)
    try:
        return _condition(sqlglot.parse_one(text, into=exp.Condition))
    except (SqlglotError, RecursionError) as error:
        what = "it is not a condition in SQL"
        raise TerminalError(what, remedy=_REMEDY) from error


def _condition(tree: Any) -> RowCondition:
    _require_known(tree)
    match tree:
        case exp.Paren():
            return _condition(tree.this)
        case exp.Not():
            return Not(_condition(tree.this))
        case exp.And() | exp.Or():
            parts = tuple(map(_condition, tree.flatten()))
            return AllOf(parts) if isinstance(tree, exp.And) else AnyOf(parts)
        case exp.Between(this=of):
            low, high = _constant(tree.args["low"]), _constant(tree.args["high"])
            return AllOf((Compare(_column(of), ">=", low), Compare(_column(of), "<=", high)))
        case exp.In(this=of) if tree.expressions:
            return OneOf(_column(of), tuple(map(_constant, tree.expressions)))
        case exp.Like(this=of, expression=pattern):
            found = _like(_column(of), pattern)
            return Not(found) if tree.args.get("negate") else found
        case exp.Is(this=of, expression=exp.Null()):
            return IsNull(_column(of))
        case exp.Column():
            return Compare(_column(tree), "=", Constant(Kind.BOOLEAN, "TRUE"))
        case exp.Predicate():
            return _compared(tree)
        case _:
            raise _unknown(tree)


def _compared(tree: Any) -> Compare:
    operator = next((text for kind, text in _OPERATORS.items() if type(tree) is kind), None)
    if operator is None:
        raise _unknown(tree)
    if isinstance(tree.this, exp.Column):
        return Compare(_column(tree.this), operator, _constant(tree.expression))
    return Compare(_column(tree.expression), _TURNED[operator], _constant(tree.this))


def _like(column: str, pattern: Any) -> Like:
    found = _constant(pattern)
    if found.kind is not Kind.TEXT:
        raise _unknown(pattern)
    require_pattern(found.text)
    return Like(column, found)


def _column(tree: Any) -> str:
    if not isinstance(tree, exp.Column) or len(tree.parts) != 1 or not tree.name:
        raise _unknown(tree)
    return tree.name


def _constant(tree: Any) -> Constant:
    _require_known(tree)
    match tree:
        case exp.Literal() if tree.is_string:
            return Constant(Kind.TEXT, tree.this)
        case exp.Literal():
            return Constant(Kind.NUMBER, tree.this)
        case exp.Neg(this=exp.Literal(is_string=False) as of):
            return Constant(Kind.NUMBER, f"-{of.this}")
        case exp.Boolean():
            return Constant(Kind.BOOLEAN, "TRUE" if tree.this else "FALSE")
        case exp.Cast(this=exp.Literal(is_string=True) as of) if type(tree) is exp.Cast:
            return Constant(_kind_of(tree), of.this)
        case _:
            raise _unknown(tree)


def _kind_of(tree: exp.Cast) -> Kind:
    if tree.to.expressions:  # a precision, to which some engines round
        raise _unknown(tree)
    match tree.to.this:
        case exp.DataType.Type.DATE:
            return Kind.DATE
        case exp.DataType.Type.TIMESTAMP | exp.DataType.Type.TIMESTAMPTZ:
            return Kind.TIMESTAMP
        case _:
            raise _unknown(tree)


def _require_known(tree: Any) -> None:
    """Requires that a node of the tree has only the parts that are looked at here.

    Raises:
        TerminalError: if it has others, such as a flag that a later version of sqlglot adds.
    """
    said = {name for name, each in getattr(tree, "args", {}).items() if each}
    known = {*_PARTS, "negate"} if isinstance(tree, exp.Like) else _PARTS
    if said - known:
        raise _unknown(tree)


def _unknown(tree: Any) -> TerminalError:
    said = tree.sql()[:80] if hasattr(tree, "sql") else str(tree)[:80]
    return TerminalError(f"it has something that engines may compute differently: {said}",
                         remedy=_REMEDY)  # fmt: skip
