"""Parses statements that change tables: those of Oracle with sqlglot.

Statements that cannot be parsed are reported as unread, so that the tables that they name are not
taken for unchanged. https://sqlglot.com/sqlglot.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from cdc_assets.formats.foreign_keys import key_changes
from cdc_assets.formats.mysql_ddl import LONGEST, read_changes
from cdc_assets.formats.mysql_definitions import quiet
from cdc_assets.formats.mysql_words import UnreadError
from cdc_assets.schema.ddl import (
    ColumnChange,
    ColumnChangeKind,
    Relation,
    Statement,
    TableChange,
    TableChangeKind,
)

_WORD: Final = re.compile(r"[\w$#]+")
_COMMENTS: Final = re.compile(r"(?s)(?:\s*+/\*.*?\*/)*")
_STRINGS: Final = re.compile(r"'(?:[^']++|'')*+(?:'|\Z)")
_NAME: Final = r'(?:"[^"]{1,200}+"|[\w$#]++)'
"""Oracle has names of up to 128 characters. A quote without an end is looked for from each place
where one may begin."""
_MORE: Final = rf"\s*+\.\s*+{_NAME}"
_NAMED: Final = rf"({_NAME}(?:{_MORE})*)(?!{_MORE})"
"""No group is repeated possessively: before Python 3.11.5, such as in Debian 12, one that fails
half-way keeps what it has passed."""
_OF_NO_TABLE: Final = re.compile(
    r"(?i)\s*+(?:create|alter|drop)\s++(?:or\s++replace\s++)?"
    r"(?:(?:unique|bitmap|public|editionable|noneditionable|force)\s++)*"
    r"(?:trigger|procedure|function|view|user|role|package|index)\b"
)
"""Statements on other objects of a database, which name tables without changing them."""

_IF_THERE: Final = r"if\s++exists\s++"
_ALTERED: Final = re.compile(
    rf"(?i)\s*+alter\s++table\s++(?:{_IF_THERE}|(?!{_IF_THERE})){_NAMED}\s++"
)
_THINNING: Final = re.compile(r"(?i)\b(?:drop|truncate|exchange)\s++(?:sub)?+partition\b")
"""Clauses by which rows go or come with a whole partition."""

_IF_NOT: Final = r"if\s++not\s++exists\s++"
_CREATED: Final = re.compile(
    rf"(?i)\s*+create\s++table\s++(?:({_IF_NOT})|(?!{_IF_NOT})){_NAMED}(?=[\s(])"
)
"""A statement whose effect is known without its columns."""

_OTHER: Final = re.compile(rf"(?i)\bwith\s++table\s++{_NAMED}")
"""The other table of such a clause."""

_MYSQL: Final = "mysql"
_WITH_KEYS: Final = frozenset(
    {TableChangeKind.CREATED, TableChangeKind.ALTERED, TableChangeKind.UNREAD}
)
_MAY_CHANGE: Final = frozenset({"alter", "create", "drop", "exec", "execute", "rename", "truncate"})


def read_statement(text: str, dialect: str, schema: str) -> Statement:
    """Determines the effect of a text of one or more statements on tables.

    Never raises for a text, and takes time in proportion to its length. Only MySQL's and MariaDB's
    tell what older rows get in a new column.

    Args:
        text: as in the source's event.
        dialect: sqlglot's name of it.
        schema: of tables that are named without one (MySQL: the database).
    """
    words = _words(text)
    try:
        return Statement(
            (_read_mysql if dialect == _MYSQL else _read)(text, dialect, schema), words
        )
    except (UnreadError, SqlglotError, RecursionError):
        return Statement((), words, is_read=False)


def _words(text: str) -> frozenset[str]:
    """Returns all words, and all that may be a name in quotes: more than there are."""
    plain = {each.casefold() for each in _WORD.findall(text)}
    quoted: set[str] = set()
    for quote in ("`", '"'):
        quoted.update(text.split(quote))
        quoted.update(
            part.replace("\0", quote) for part in text.replace(2 * quote, "\0").split(quote)
        )
    return frozenset(plain | {each.casefold() for each in quoted})


def _read_mysql(text: str, _dialect: str, schema: str) -> tuple[TableChange, ...]:
    """Reads a statement of MySQL, MariaDB or TiDB, with the foreign keys in it."""
    found = read_changes(text, schema)
    if not any(each.kind in _WITH_KEYS for each in found):
        return found
    keys = key_changes(text)
    return tuple(
        replace(each, cascades=keys.added, dropped_keys=keys.dropped)
        if each.kind in _WITH_KEYS
        else each
        for each in found
    )


def _read(text: str, dialect: str, schema: str) -> tuple[TableChange, ...]:
    """Reads a statement of Oracle, or of an unknown database."""
    plain = text[found.end() :] if (found := _COMMENTS.match(text)) else text
    if _OF_NO_TABLE.match(plain):
        return ()
    if (altered := _ALTERED.match(plain)) and _THINNING.search(
        _STRINGS.sub("''", plain[altered.end() :])
    ):
        names = dict.fromkeys((altered[1], *_OTHER.findall(plain)))
        tables = (_relation(exp.to_table(each, dialect=dialect), schema) for each in names)
        return tuple(TableChange(TableChangeKind.THINNED, each) for each in tables)
    try:
        if len(plain) > LONGEST:
            raise UnreadError
        with quiet():
            trees = sqlglot.parse(plain, read=dialect)
        return tuple(c for tree in trees if tree is not None for c in _changes(tree, schema))
    except (UnreadError, SqlglotError, RecursionError):
        if (created := _CREATED.match(plain)) is None:
            raise
        table = _relation(exp.to_table(created[2], dialect=dialect), schema)
        kind, conditional = TableChangeKind.CREATED, bool(created[1])
        return (TableChange(kind, table, is_conditional=conditional),)


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
        case exp.Command() if tree.name.casefold() not in _MAY_CHANGE:
            pass
        case exp.Command():
            raise UnreadError
        case _:
            pass


def _relation(table: Any, schema: str) -> Relation:
    if not isinstance(table, exp.Table) or not table.name:
        raise UnreadError
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
            yield ColumnChange(ColumnChangeKind.ADDED, action.name)
        case exp.Schema():
            for each in action.expressions:
                yield from _columns(each)
        case exp.RenameColumn():
            name = action.args["to"].name
            yield ColumnChange(ColumnChangeKind.RENAMED, action.this.name, name)
        case exp.Drop() if action.args.get("kind") == "COLUMN":
            for each in action.args["tables"]:
                yield ColumnChange(ColumnChangeKind.DROPPED, each.name)
        case exp.Drop() | exp.AddConstraint():
            pass
        case _:
            raise UnreadError
