"""Reads statements in Canal's messages, and in TiCDC's: ``isDdl``, with the text in ``sql``.

Of a statement on several tables, Canal names only the first in ``database`` and ``table``. The text
therefore decides which tables it affects, and these names help only where the text cannot be read.
https://github.com/alibaba/canal (``LogEventConvert.parseQueryEvent``) and
https://docs.pingcap.com/tidb/stable/ticdc-canal-json
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from cdc_assets.changes.json_text import mapping, natural
from cdc_assets.changes.offsets import Coordinate
from cdc_assets.changes.position import Scheme
from cdc_assets.formats.canal.messages import TRUNCATE, Message, rows_of
from cdc_assets.formats.ddl import read_statement
from cdc_assets.formats.spec import LINE_BITS
from cdc_assets.formats.times import time_of_millis
from cdc_assets.schema.ddl import Ddl, Statement


def statements_of(
    messages: Iterable[Message], coordinate: Coordinate, scheme: Scheme
) -> Iterator[Ddl]:
    """Yields the statements of a record's messages; a truncate is a change of the table's rows.

    Args:
        messages: of the record, in order.
        coordinate: the record's.
        scheme: of the table's positions.
    """
    line = 0
    for message in messages:
        if message.get("isDdl") is True and message.get("type") != TRUNCATE:
            yield _ddl(message, coordinate, _place(message, coordinate, line, scheme))
        line += max(1, len(rows_of(message)))


def _ddl(message: Message, coordinate: Coordinate, place: tuple[int, int] | None) -> Ddl:
    text, commit = message.get("sql"), mapping(message.get("_tidb")).get("commitTs")
    return Ddl(
        text=text if isinstance(text, str) else "",
        statement=_statement(message),
        position=f"commitTs={commit}" if natural(commit) is not None else "",
        at=time_of_millis(message.get("es")),
        coordinate=coordinate,
        place=place,
    )


def _statement(message: Message) -> Statement:
    """Reads the statement; without a text, it may affect the named table in any way."""
    text, table = message.get("sql"), _name(message, "table")
    words = frozenset({table.casefold()} - {""})
    if not isinstance(text, str) or not text.strip():
        return Statement((), words, is_read=False)
    schema = _name(message, "ddlSchema") or _name(message, "database")
    found = read_statement(text, "mysql", schema)
    return replace(found, words=found.words | words)


def _name(message: Message, field: str) -> str:
    found = message.get(field)
    return found if isinstance(found, str) else ""


def _place(
    message: Message, coordinate: Coordinate, line: int, scheme: Scheme
) -> tuple[int, int] | None:
    if scheme is Scheme.TIDB:
        commit = natural(mapping(message.get("_tidb")).get("commitTs"))
        return (commit, 0) if commit else None
    return ((coordinate.offset << LINE_BITS) + line, 0) if scheme is Scheme.OFFSET else None
