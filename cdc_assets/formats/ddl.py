"""Parses statements that change tables: with sqlglot, in the dialect of their database.

Statements that sqlglot cannot parse are reported as unread, so that the tables that they name are
not taken for unchanged. https://sqlglot.com/sqlglot.html
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, Final

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from cdc_assets.formats.foreign_keys import key_changes
from cdc_assets.schema.ddl import (
    ColumnChange,
    ColumnChangeKind,
    Given,
    Relation,
    Statement,
    TableChange,
    TableChangeKind,
)

_NAMES: Final = re.compile(r'`([^`]+)`|"([^"]+)"|\[([^\]]+)\]|([\w$#]+)')
_COMMENTS: Final = re.compile(r"(?s)^(?:\s*/\*.*?\*/)+")
_STRINGS: Final = re.compile(r"'(?:[^'\\]|\\.|'')*'")
_ALTER: Final = re.compile(r"(?i)^(\s*alter)\s+(?:online\s+|ignore\s+)+(?=table\b)")
"""MariaDB's words that sqlglot does not know, and which change nothing about the columns."""

_RENAME_AS: Final = re.compile(r"(?i)^(\s*alter\s+table\s[^,;']*\srename)\s+(?:as|=)\s")

_NAME: Final = r'(?:`[^`]+`|"[^"]+"|\[[^\]]+\]|[\w$#]+)'
_TEMPORARY: Final = re.compile(
    r"(?i)^\s*(?:create|drop)\s+(?:/\*!\d*\s+)?(?:or\s+replace\s+)?temporary\b"
)
"""Tables of a session, whose names hide others; MySQL drops them this way at the session's end."""

_OF_NO_TABLE: Final = re.compile(
    r"(?i)^\s*(?:create|alter|drop)\s+(?:or\s+replace\s+)?"
    r"(?:(?:algorithm|definer|sql\s+security|unique|fulltext|spatial|online|offline|aggregate)\b"
    r"(?:\s*=\s*(?:`[^`]*`|'[^']*'|[^\s`'])+|\s+(?:definer|invoker)\b)?\s+)*"
    r"(?:trigger|procedure|function|event|view|user|role|server|package|index)\b"
)
"""Statements on other objects of a database, which name tables without changing them."""

_OF_CACHES: Final = re.compile(r"(?i)^\s*flush\b")
"""MySQL writes these into its binlog; they change no table."""

_MYSQL: Final = "mysql"
_LONGEST: Final = 1_000_000
"""Characters of a statement that is parsed. A table of thousands of columns needs some hundred
thousand."""

_ALTERED: Final = rf"(?is)^\s*alter\s+table\s+(?:if\s+exists\s+)?({_NAME}(?:\s*\.\s*{_NAME})*)"
_THINNED: Final = re.compile(
    rf"{_ALTERED}\s.*?"
    r"\b(?:(?:drop|truncate|exchange|convert|switch|discard|import)\s+(?:sub)?partition|"
    r"convert\s+table|switch\s+to|(?:discard|import)\s+tablespace)\b"
)
"""Statements that add or remove rows with a whole partition, or file."""

_PLAIN: Final = re.compile(
    rf"{_ALTERED}\s+(?:"
    r"(?:add|reorganize|coalesce|rebuild|optimize|analyze|check|repair)\s+partition\b.*|"
    r"partition\s+by\b.*|"
    r"(?:convert\s+to\s+(?:character\s+set|charset)|remove\s+(?:partitioning|ttl)|"
    r"alter\s+index|force|(?:dis|en)able\s+keys|set\s+tiflash|ttl)\b[^,]*)$"
)
"""Statements that sqlglot cannot parse, and that change neither columns nor rows."""

_CREATED: Final = re.compile(
    rf"(?is)^\s*create\s+(or\s+replace\s+)?table\s+(if\s+not\s+exists\s+)?"
    rf"({_NAME}(?:\s*\.\s*{_NAME})*)(?=[\s(])"
)
"""A statement whose effect is known without its columns."""

_WIDENED: Final = re.compile(
    rf"{_ALTERED}\s+add\s+(?:column\s+)?(?:if\s+not\s+exists\s+)?(\(.*\))\s*;?\s*$"
)
"""A statement that adds a list of columns, as MySQL and MariaDB have it."""

_OF_ONE_TABLE: Final = re.compile(rf"{_ALTERED}(?=[\s(])(?!.*(?:\brename\b|;\s*\S))")
"""A statement of MySQL's that may change one table alone, whatever else is in it."""

_OTHER: Final = re.compile(rf"(?i)\b(?:with|to|convert)\s+table\s+({_NAME}(?:\s*\.\s*{_NAME})*)")

_PAIRS: Final = re.compile(r'(?:`[^`]*`|"[^"]*"|[^,`"])+')

_WITH_KEYS: Final = frozenset(
    {TableChangeKind.CREATED, TableChangeKind.ALTERED, TableChangeKind.UNREAD}
)

_MAY_CHANGE: Final = frozenset({"alter", "create", "drop", "exec", "execute", "rename", "truncate"})


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


class _UnreadError(Exception):
    """A statement that sqlglot has no tree for, or one that is not known here."""


def read_statement(text: str, dialect: str, schema: str) -> Statement:
    """Determines the effect of a text on tables, and on their foreign keys; see `_read`."""
    found = _read(text, dialect, schema)
    if dialect != _MYSQL or not any(each.kind in _WITH_KEYS for each in found.changes):
        return found
    keys = key_changes(text)
    if not (keys.added or keys.dropped):
        return found
    changes = tuple(
        replace(each, cascades=keys.added, dropped_keys=keys.dropped)
        if each.kind in _WITH_KEYS
        else each
        for each in found.changes
    )
    return replace(found, changes=changes)


def _read(text: str, dialect: str, schema: str) -> Statement:
    """Determines the effect of a text of one or more statements on tables. Never raises for a text.

    Only MySQL's and MariaDB's tell what older rows get in a new column: SQL Server leaves them NULL
    in spite of a default.

    Args:
        text: as in the source's event.
        dialect: sqlglot's name of it.
        schema: of tables that are named without one (MySQL: the database).
    """
    parts = [next(filter(None, found)) for found in _NAMES.findall(text)]
    words = frozenset(name.casefold() for part in parts for name in (part, *part.split(".")))
    plain = _ALTER.sub(r"\1 ", _COMMENTS.sub("", text))
    plain = _RENAME_AS.sub(r"\1 to ", plain)
    if any(each.match(plain) for each in (_TEMPORARY, _OF_NO_TABLE, _OF_CACHES)):
        return Statement((), words)
    try:
        if thinned := _THINNED.match(_STRINGS.sub("''", plain)):
            names = (thinned[1], *_OTHER.findall(plain))
            tables = (_relation(exp.to_table(each, dialect=dialect), schema) for each in names)
            changes = tuple(TableChange(TableChangeKind.THINNED, each) for each in tables)
            return Statement(changes, words)
        if altered := _PLAIN.match(_STRINGS.sub("''", plain)):
            table = _relation(exp.to_table(altered[1], dialect=dialect), schema)
            return Statement((TableChange(TableChangeKind.ALTERED, table),), words)
        if len(plain) > _LONGEST:
            raise _UnreadError
        with _quiet():
            trees = sqlglot.parse(plain, read=dialect)
        changes = tuple(c for tree in trees if tree is not None for c in _changes(tree, schema))
        if dialect != _MYSQL:
            changes = tuple(map(_without_given, changes))
    except (_UnreadError, SqlglotError, RecursionError):
        return _by_its_begin(plain, dialect, schema, words)
    return Statement(changes, words)


def _by_its_begin(plain: str, dialect: str, schema: str, words: frozenset[str]) -> Statement:
    """Classifies a statement that cannot be parsed by its beginning."""
    with suppress(_UnreadError, SqlglotError, RecursionError):
        if found := _CREATED.match(plain):
            table = _relation(exp.to_table(found[3], dialect=dialect), schema)
            kind, conditional = TableChangeKind.CREATED, bool(found[2])
            return Statement((TableChange(kind, table, is_conditional=conditional),), words)
        is_short = dialect == _MYSQL and len(plain) <= _LONGEST
        if is_short and (found := _WIDENED.match(plain)):
            table = _relation(exp.to_table(found[1], dialect=dialect), schema)
            columns = tuple(_listed(found[2], dialect))
            change = TableChange(TableChangeKind.ALTERED, table, columns=columns)
            return Statement((change,), words)
    with suppress(_UnreadError, SqlglotError):
        if dialect == _MYSQL and (found := _OF_ONE_TABLE.match(plain)):
            table = _relation(exp.to_table(found[1], dialect=dialect), schema)
            return Statement((TableChange(TableChangeKind.UNREAD, table),), words)
    return Statement((), words, is_read=False)


def _listed(columns: str, dialect: str) -> Iterator[ColumnChange]:
    """Reads a list of columns to be added, which a statement that makes a table has too."""
    with _quiet():
        made = sqlglot.parse_one(f"CREATE TABLE t {columns}", read=dialect)
    if not isinstance(made, exp.Create) or not isinstance(made.this, exp.Schema):
        raise _UnreadError
    yield from _columns(made.this)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silences sqlglot, which prints statements that it cannot parse; a default may be a secret."""
    logger = logging.getLogger("sqlglot")
    was, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = was


def _changes(tree: exp.Expr, schema: str) -> Iterator[TableChange]:
    match tree:
        case exp.Alter() if tree.args.get("kind") == "TABLE":
            yield _altered(tree, schema)
        case exp.Create() if tree.args.get("kind") == "TABLE":
            table = _relation(tree.find(exp.Table), schema)
            conditional = bool(tree.args.get("exists"))
            yield TableChange(TableChangeKind.CREATED, table, is_conditional=conditional)
        case exp.Drop() if tree.args.get("kind") == "TABLE":
            for each in tree.args["tables"]:
                yield TableChange(TableChangeKind.DROPPED, _relation(each, schema))
        case exp.Drop() if tree.args.get("kind") in {"DATABASE", "SCHEMA"}:
            for each in tree.args["tables"]:
                yield TableChange(TableChangeKind.DROPPED, Relation(each.name, ""))
        case exp.TruncateTable():
            for each in tree.expressions:
                yield TableChange(TableChangeKind.TRUNCATED, _relation(each, schema))
        case exp.Command() if tree.name.casefold() == "rename":
            yield from _renamed(tree.expression.name, schema)
        case exp.Command() if tree.name.casefold() not in _MAY_CHANGE:
            pass
        case exp.Command() | exp.Execute():
            raise _UnreadError
        case _:
            pass


def _relation(table: Any, schema: str) -> Relation:
    if not isinstance(table, exp.Table) or not table.name:
        raise _UnreadError
    return Relation(table.db or schema, table.name)


def _altered(tree: exp.Alter, schema: str) -> TableChange:
    table, renamed = _relation(tree.this, schema), None
    columns: list[ColumnChange] = []
    for action in tree.args["actions"]:
        match action:
            case exp.AlterRename():
                renamed = _relation(action.this, table.schema)
            case _:
                columns += _columns(action)
    kind = TableChangeKind.RENAMED if renamed else TableChangeKind.ALTERED
    return TableChange(kind, table, renamed, tuple(columns))


def _columns(action: exp.Expr) -> Iterator[ColumnChange]:
    match action:
        case exp.ColumnDef():
            yield ColumnChange(ColumnChangeKind.ADDED, action.name, given=_given(action))
        case exp.Schema():
            for each in action.expressions:
                yield from _columns(each)
        case exp.RenameColumn():
            name = action.args["to"].name
            yield ColumnChange(ColumnChangeKind.RENAMED, action.this.name, name)
        case exp.ModifyColumn():
            name, was = action.this.name, action.args.get("rename_from")
            if was is not None and was.name != name:
                yield ColumnChange(ColumnChangeKind.RENAMED, was.name, name)
            kind = action.this.args.get("kind")
            definition = kind.sql(_MYSQL) if isinstance(kind, exp.DataType) else ""
            yield ColumnChange(ColumnChangeKind.RETYPED, name, definition=definition)
        case exp.Drop() if action.args.get("kind") == "COLUMN":
            for each in action.args["tables"]:
                yield ColumnChange(ColumnChangeKind.DROPPED, each.name)
        case exp.AlterColumn():
            if (kind := action.args.get("dtype")) is not None:
                definition = kind.sql(_MYSQL) if isinstance(kind, exp.DataType) else ""
                yield ColumnChange(ColumnChangeKind.RETYPED, action.name, definition=definition)
        case exp.Drop() | exp.AddConstraint() | exp.DropPrimaryKey() | exp.RenameIndex():
            pass
        case _:
            raise _UnreadError


def _without_given(change: TableChange) -> TableChange:
    return replace(change, columns=tuple(replace(each, given=None) for each in change.columns))


def _given(column: exp.ColumnDef) -> Given | None:
    """Returns what the rows that are there get in a new column of MySQL; None if unknown."""
    kind = column.args.get("kind")
    of = {type(each.kind): each.kind for each in column.args.get("constraints") or ()}
    if not isinstance(kind, exp.DataType) or not of.keys() <= _PLAIN_CONSTRAINTS:
        return None
    default, told = of.get(exp.DefaultColumnConstraint), of.get(exp.NotNullColumnConstraint)
    if default is not None:
        return _constant(default.this, kind)
    if told is not None and not told.args.get("allow_null"):
        return Given(is_implied=True) if kind.this in _KINDS else None
    return Given() if kind.this in _NULLABLE else None


def _constant(default: exp.Expr, kind: exp.DataType) -> Given | None:
    match default:
        case exp.Null():
            return Given()
        case exp.Boolean() if kind.this in exp.DataType.INTEGER_TYPES:
            return Given(str(int(default.this)))
        case exp.Literal(is_string=True) if kind.this in _KINDS:
            is_rounded = kind.this == exp.DataType.Type.DATETIME and "." in default.this
            is_other = is_rounded or _REWRITTEN.search(default.this)
            return None if is_other else Given(default.this)
        case exp.Literal() | exp.Neg(this=exp.Literal()) if kind.this in _KINDS:
            is_rounded = kind.this in _FLOATS and kind.expressions
            text = f"-{default.this.this}" if isinstance(default, exp.Neg) else str(default.this)
            return Given(text) if _EXACT.fullmatch(text) and not is_rounded else None
        case _:
            return None


def _renamed(pairs: str, schema: str) -> Iterator[TableChange]:
    """Reads ``TABLE a TO b, c TO s.d``: MySQL's, which renames one after the other."""
    rest = re.sub(r"(?is)^\s*tables?\s+(if\s+exists\s+)?", "", pairs)
    if rest == pairs:  # RENAME USER, RENAME SEQUENCE
        return
    for pair in _PAIRS.findall(rest):
        found = re.fullmatch(
            r"(?is)\s*(.+?)(?:\s+(?:wait\s+\d+|nowait))?\s+to\s+(.+?)\s*;?\s*", pair
        )
        if found is None:
            raise _UnreadError
        was, now = (exp.to_table(part.strip(), dialect="mysql") for part in found.groups())
        yield TableChange(TableChangeKind.RENAMED, _relation(was, schema), _relation(now, schema))
