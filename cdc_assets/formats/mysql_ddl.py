"""Reads the statements by which MySQL, MariaDB and TiDB change tables.

An ``ALTER TABLE`` is cut at its commas into clauses, which tell by their first words which columns
they change. Any text takes time in proportion to its length.
https://dev.mysql.com/doc/refman/8.4/en/alter-table.html and
https://mariadb.com/docs/server/reference/sql-statements/data-definition/alter/alter-table
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final

from cdc_assets.formats.mysql_definitions import read_definition
from cdc_assets.formats.mysql_words import (
    CLOSING,
    OPENING,
    Token,
    UnreadError,
    Words,
    has_versions,
    tokens_of,
)
from cdc_assets.schema.ddl import (
    ColumnChange,
    ColumnChangeKind,
    Relation,
    TableChange,
    TableChangeKind,
)

LONGEST: Final = 250_000
"""Characters of a statement that is read to its end. One that alters thousands of columns needs
some hundred thousand."""

_BEGIN: Final = 10_000
_OBJECTS: Final = frozenset({
    "table", "tables", "database", "schema", "trigger", "procedure", "function", "event", "view",
    "user", "role", "server", "package", "index", "sequence", "tablespace", "logfile", "resource",
    "placement", "instance", "undo", "binding", "statistics", "spatial", "library",
})  # fmt: skip
_HOLDING_ROWS: Final = frozenset({"table", "tables", "database", "schema"})
_ON_OBJECTS: Final = frozenset({"create", "alter", "drop"})
_KEYS: Final = frozenset({
    "index", "key", "fulltext", "spatial", "constraint", "primary", "unique", "foreign", "check",
    "stats_extended",
})  # fmt: skip
"""Words that begin a key or a constraint. Columns of these names are quoted, except the last."""

_KEYS_OF_TWO: Final = frozenset({
    ("vector", "index"), ("vector", "key"), ("period", "for"), ("system", "versioning"),
    ("clustering", "index"), ("clustering", "key"), ("columnar", "index"),
})  # fmt: skip
_PARTS: Final = ("partition", "subpartition")
_THINNING: Final = frozenset({
    *((verb, part) for part in _PARTS for verb in (
        "drop", "truncate", "exchange", "convert", "discard", "import", "first",
    )),
    ("convert", "table"), ("discard", "tablespace"), ("import", "tablespace"),
})  # fmt: skip
"""The first words of clauses by which rows go or come with a whole partition, or file."""

_OTHER_TABLE: Final = frozenset({("with", "table"), ("to", "table"), ("convert", "table")})
_OPTIONS: Final = frozenset({
    "affinity", "algorithm", "alter", "analyze", "attributes", "auto_id_cache", "auto_increment",
    "auto_random_base", "autoextend_size", "avg_row_length", "cache", "character", "charset",
    "check", "checksum", "coalesce", "collate", "comment", "compact", "compression", "connection",
    "convert", "data", "default", "delay_key_write", "disable", "enable", "encrypted",
    "encryption", "encryption_key_id", "engine", "engine_attribute", "force", "ietf_quotes",
    "index", "insert_method", "key_block_size", "last", "lock", "max_rows", "merge", "min_rows",
    "nocache", "optimize", "order", "pack_keys", "page_checksum", "page_compressed",
    "page_compression_level", "partition", "password", "placement", "rebuild", "remove",
    "reorganize", "repair", "row_format", "secondary_engine", "secondary_engine_attribute",
    "secondary_load", "secondary_unload", "sequence", "set", "shard_row_id_bits", "split",
    "stats_auto_recalc", "stats_buckets", "stats_col_choice", "stats_col_list", "stats_persistent",
    "stats_sample_pages", "stats_sample_rate", "stats_topn", "storage", "table_checksum",
    "tablespace", "transactional", "ttl", "ttl_enable", "ttl_job_interval", "union", "with",
    "without",
})  # fmt: skip
"""The first words of clauses that change neither columns nor rows."""

_UNIQUE: Final = frozenset({"unique", "primary"})
"""Words of the keys for which ``ALTER IGNORE TABLE`` deletes rows."""

_BEGINNING: Final = frozenset({"add", "change", "drop", "modify", "rename"})


def read_changes(text: str, schema: str) -> tuple[TableChange, ...]:
    """Returns the effects of a text of one or more statements on tables, in their order.

    Args:
        text: as in the source's event.
        schema: the database of tables that are named without one.

    Raises:
        UnreadError: if it may change tables that are not known.
    """
    if len(text) > LONGEST:
        return _by_its_beginning(text, schema)
    found = _all_changes(Words([*tokens_of(text, with_versions=True)], text), schema)
    if has_versions(text):
        without = _all_changes(Words([*tokens_of(text, with_versions=False)], text), schema)
        found, without = (tuple(map(_without_definitions, each)) for each in (found, without))
        if without != found:  # which of the two the server has executed is not known
            raise UnreadError
    return found


def _without_definitions(change: TableChange) -> TableChange:
    columns = (replace(each, given=None, definition="") for each in change.columns)
    return replace(change, columns=tuple(columns))


# ── statements ────────────────────────────────────────────────────────────────────────────


def _all_changes(words: Words, schema: str) -> tuple[TableChange, ...]:
    if _is_of_no_table(words):  # a procedure holds statements that are not executed
        return ()
    return tuple(change for part in words.statements() for change in _changes(part, schema))


def _by_its_beginning(text: str, schema: str) -> tuple[TableChange, ...]:
    """Reads a statement that is longer than any that alters a table."""
    tokens: list[Token] = []
    with suppress(UnreadError):
        tokens += tokens_of(text[:_BEGIN], with_versions=True)
    words = Words(tokens, text)
    if _is_of_no_table(words):
        return ()
    if words.take("create"):
        return tuple(_created(words, schema))
    raise UnreadError


def _is_of_no_table(words: Words) -> bool:
    """Returns whether it makes, alters or drops an object that holds no rows.

    Raises:
        UnreadError: if it is on an object of a kind that is not known.
    """
    if words.next() not in _ON_OBJECTS:
        return False
    kind = next((each.word for each in words.tokens if each.word in _OBJECTS), "")
    if not kind:
        raise UnreadError
    return kind not in _HOLDING_ROWS


def _changes(words: Words, schema: str) -> Iterator[TableChange]:
    if words.take("set", "statement"):  # MariaDB: settings for one statement
        while not words.is_done and not words.take("for"):
            words.skip()
    read = _READERS.get(words.next())
    if read is not None:
        words.skip()
        yield from read(words, schema)


def _created(words: Words, schema: str) -> Iterator[TableChange]:
    words.take("or", "replace")
    if words.take("temporary") or words.take("global", "temporary"):
        return
    if words.take("table"):
        conditional = words.take("if", "not", "exists")
        table = words.relation(schema)
        yield TableChange(TableChangeKind.CREATED, table, is_conditional=conditional)


def _dropped(words: Words, schema: str) -> Iterator[TableChange]:
    kind = words.next()
    if kind not in _HOLDING_ROWS:
        return
    words.skip()
    words.take("if", "exists")
    if kind in {"database", "schema"}:
        yield TableChange(TableChangeKind.DROPPED, Relation(words.name(), ""))
    else:
        for part in words.parts(","):
            yield TableChange(TableChangeKind.DROPPED, part.relation(schema))


def _truncated(words: Words, schema: str) -> Iterator[TableChange]:
    words.take("table")
    yield TableChange(TableChangeKind.TRUNCATED, words.relation(schema))


def _renamed(words: Words, schema: str) -> Iterator[TableChange]:
    """Reads ``TABLE a TO b, c TO s.d``, which renames one after the other."""
    if not words.take("table") and not words.take("tables"):  # RENAME USER
        return
    words.take("if", "exists")
    for part in words.parts(","):
        table = part.relation(schema)
        _take_wait(part)
        if not part.take("to"):
            raise UnreadError
        yield TableChange(TableChangeKind.RENAMED, table, part.relation(schema))


def _unknown(_words: Words, _schema: str) -> Iterator[TableChange]:
    raise UnreadError


def _take_wait(words: Words) -> None:
    if words.take("wait"):
        words.skip()
    words.take("nowait")


def _altered(words: Words, schema: str) -> Iterator[TableChange]:
    words.take_any("online", "offline")
    is_ignoring = words.take("ignore")
    words.take_any("online", "offline", "ignore")
    if not words.take("table"):
        return
    words.take("if", "exists")
    table = words.relation(schema)
    _take_wait(words)
    clauses = Words(words.rest(), words.text)
    if is_ignoring and any(each.word in _UNIQUE for each in clauses.tokens):
        yield TableChange(TableChangeKind.DEDUPLICATED, table)
    try:
        yield from _of_clauses([*clauses.parts(",")], table)
    except UnreadError:
        if any(each.word == "rename" for each in clauses.tokens):
            raise
        yield TableChange(TableChangeKind.UNREAD, table)


_READERS: Final[Mapping[str, Callable[[Words, str], Iterator[TableChange]]]] = {
    "alter": _altered,
    "create": _created,
    "drop": _dropped,
    "rename": _renamed,
    "truncate": _truncated,
    **dict.fromkeys(("recover", "flashback", "exec", "execute"), _unknown),
}
"""By the first word; other statements change no tables, except by a change of each row."""


def _of_clauses(clauses: list[Words], table: Relation) -> list[TableChange]:
    columns: list[ColumnChange] = []
    renamed: Relation | None = None
    thinned: list[Relation] = []
    of_list: Callable[[Words], bool] | None = None
    for each in clauses:
        two = (each.next(), each.next(1))
        if of_list is not None and of_list(each):
            continue
        of_list = _LISTS.get(two[0 if two[0] == "order" else 1], of_list)
        if two[0] == "rename" and two[1] not in {"column", "index", "key"}:
            renamed = _new_name(each, table.schema)
        elif two in _THINNING:
            thinned += [table, *_other_tables(each, table.schema)]
        else:
            columns += _columns(each)
    changes = [TableChange(TableChangeKind.THINNED, each) for each in thinned]
    if columns or renamed or not changes:
        kind = TableChangeKind.RENAMED if renamed else TableChangeKind.ALTERED
        changes.append(TableChange(kind, table, renamed, tuple(_at_once(columns))))
    return changes


def _new_name(clause: Words, schema: str) -> Relation:
    clause.skip()
    clause.take_any("to", "as", "=")
    found = clause.relation(schema)
    if not clause.is_done:
        raise UnreadError
    return found


def _other_tables(clause: Words, schema: str) -> Iterator[Relation]:
    while not clause.is_done:
        if (clause.next(), clause.next(1)) in _OTHER_TABLE:
            clause.skip()
            clause.skip()
            yield clause.relation(schema)
        else:
            clause.skip()


def _is_ordering(clause: Words) -> bool:
    """Returns whether it is another column of ``ORDER BY a, b DESC``."""
    return clause.left == 1 or (clause.left == 2 and clause.next(1) in {"asc", "desc"})


def _is_another_part(clause: Words) -> bool:
    """Returns whether it is another one of ``DROP PARTITION p, q``, which stands alone."""
    return clause.next() not in _BEGINNING


_LISTS: Final[Mapping[str, Callable[[Words], bool]]] = {
    "order": _is_ordering,
    **dict.fromkeys(_PARTS, _is_another_part),
}


def _columns(clause: Words) -> Iterator[ColumnChange]:
    match clause.next():
        case "add":
            clause.skip()
            yield from _added(clause)
        case "change":
            clause.skip()
            yield from _changed(clause)
        case "modify":
            clause.skip()
            _take_column(clause)
            yield _retyped(clause.names()[-1], clause)
        case "drop":
            clause.skip()
            yield from _gone(clause)
        case "rename":
            clause.skip()
            yield from _called(clause)
        case word if clause.is_done or word in _OPTIONS or clause.next(1) == "=":
            pass
        case _:
            raise UnreadError


def _take_column(clause: Words) -> bool:
    is_column = clause.take("column")
    clause.take_any("if", "not", "exists")
    return is_column


def _is_key(clause: Words) -> bool:
    two = (clause.next(), clause.next(1))
    return two[0] in _KEYS or two in _KEYS_OF_TWO or two[0] in _PARTS


def _added(clause: Words) -> Iterator[ColumnChange]:
    if not _take_column(clause) and _is_key(clause):
        return
    if not clause.take(OPENING):
        yield _new(clause)
        return
    listed = clause.rest()
    if not listed or listed.pop().word != CLOSING:
        raise UnreadError
    for each in Words(listed, clause.text).parts(","):
        if not _is_key(each):
            yield _new(each)


def _new(column: Words) -> ColumnChange:
    name = column.names()[-1]
    return ColumnChange(ColumnChangeKind.ADDED, name, given=read_definition(column.ahead)[1])


def _retyped(name: str, column: Words) -> ColumnChange:
    definition, _ = read_definition(column.ahead)
    return ColumnChange(ColumnChangeKind.RETYPED, name, definition=definition)


def _changed(clause: Words) -> Iterator[ColumnChange]:
    _take_column(clause)
    was, name = clause.names()[-1], clause.name()
    if was != name:
        yield ColumnChange(ColumnChangeKind.RENAMED, was, name)
    yield _retyped(name, clause)


def _gone(clause: Words) -> Iterator[ColumnChange]:
    if not _take_column(clause) and _is_key(clause):
        return
    name = clause.names()[-1]
    clause.take_any("restrict", "cascade")
    if not clause.is_done:
        raise UnreadError
    yield ColumnChange(ColumnChangeKind.DROPPED, name)


def _called(clause: Words) -> Iterator[ColumnChange]:
    if not _take_column(clause):  # an index
        return
    name = clause.names()[-1]
    if not clause.take("to"):
        raise UnreadError
    yield ColumnChange(ColumnChangeKind.RENAMED, name, clause.name())


def _at_once(columns: list[ColumnChange]) -> Iterator[ColumnChange]:
    """Orders changes so that, one after the other, they do what the statement does at once.

    Names in a statement are those from before it: a dropped column gives its name to a renamed or
    added one, and a column that is renamed to the name of a renamed one comes after that.
    """
    kinds = {kind: [each for each in columns if each.kind is kind] for kind in ColumnChangeKind}
    yield from kinds[ColumnChangeKind.DROPPED]
    left = {each.name.casefold(): each for each in kinds[ColumnChangeKind.RENAMED]}
    for each in kinds[ColumnChangeKind.RENAMED]:
        chain: list[ColumnChange] = []
        name: str = each.name
        while (found := left.pop(name.casefold(), None)) is not None:
            chain.append(found)
            name = found.renamed_to or ""
        yield from reversed(chain)
    yield from kinds[ColumnChangeKind.RETYPED]
    yield from kinds[ColumnChangeKind.ADDED]
