"""Cuts the statements of MySQL, MariaDB and TiDB into words, names and signs.

Blanks, comments and the contents of texts are left out. Any text takes time in proportion to its
length. https://dev.mysql.com/doc/refman/8.4/en/comments.html
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from cdc_assets.schema.ddl import Relation

_TOKEN: Final = re.compile(
    r"""
    \s++ | --(?=\s|\Z)[^\n]*+ | \#[^\n]*+
    | (?P<version> /\*(?P<of>[MT]?)!(?:\[[^]\s]{0,64}\])?(?P<number>\d{5,6})? )
    | (?P<end> \*/ )
    | /\*.*?(?:\*/|\Z)
    | '(?P<text> (?:[^'\\]++|\\(?:.|\Z)|'')*+ )'?+
    | "(?P<quoted> (?:[^"\\]++|\\(?:.|\Z)|"")*+ )"?+
    | `(?P<name> (?:[^`]++|``)*+ )`?+
    | (?P<word> [\w$]++ )
    | (?P<sign> . )
    """,
    re.DOTALL | re.VERBOSE,
)
_QUOTED: Final = ("text", "quoted", "name")
_EXECUTED: Final = 50_699
"""A comment with a version up to this is part of the statement for every server in use."""

OPENING, CLOSING = "(", ")"


class UnreadError(Exception):
    """A statement that may change tables in a way that is not known here."""


class Token(NamedTuple):
    """A part of a statement.

    Attributes:
        word: a word in lower case, or one sign; empty for anything in quotes.
        name: the name that it may be; empty for signs and texts.
        start: its place in the text, inclusive.
        end: exclusive.
    """

    word: str
    name: str
    start: int
    end: int


def tokens_of(text: str, *, with_versions: bool) -> Iterator[Token]:
    """Cuts a text; the contents of a comment with a version are part of it, or left out.

    Raises:
        UnreadError: if quotes are not closed, as they are for the server that has executed it.
    """
    is_left_out = False
    for found in _TOKEN.finditer(text):
        if found["version"]:
            is_left_out = not with_versions and _is_of_some_servers(found)
        elif found["end"]:
            is_left_out = False
        elif not is_left_out and (token := _token(found)):
            yield token


def has_versions(text: str) -> bool:
    """Returns whether a comment in it is part of the statement for some servers only."""
    return any(_is_of_some_servers(each) for each in _TOKEN.finditer(text) if each["version"])


def _token(found: re.Match[str]) -> Token | None:
    """Returns a token; None for blanks and comments."""
    kind = found.lastgroup
    if kind in _QUOTED and found.end(kind) == len(found.string):
        raise UnreadError
    match kind:
        case "word":
            return Token(found[0].casefold(), found[0], *found.span())
        case "sign":
            return Token(found[0], "", *found.span())
        case "name":
            return Token("", found["name"].replace("``", "`"), *found.span())
        case "quoted":
            return Token("", found["quoted"].replace('""', '"'), *found.span())
        case "text":
            return Token("", "", *found.span())
        case _:
            return None


def _is_of_some_servers(version: re.Match[str]) -> bool:
    return bool(version["of"]) or int(version["number"] or 0) > _EXECUTED


class Words:
    """The tokens of a statement or clause, taken from the front.

    Args:
        tokens: in order.
        text: from which they were cut.
    """

    def __init__(self, tokens: list[Token], text: str) -> None:
        self.tokens = tokens
        self.text = text
        self._at = 0

    def next(self, after: int = 0) -> str:
        """Returns a word that follows, without taking it; empty if there is none."""
        at = self._at + after
        return self.tokens[at].word if at < len(self.tokens) else ""

    def take(self, *words: str) -> bool:
        """Takes these words if they come next."""
        if any(self.next(after) != word for after, word in enumerate(words)):
            return False
        self._at += len(words)
        return True

    def take_any(self, *words: str) -> None:
        """Takes all of these words that come next, in any order."""
        while self.next() in words:
            self._at += 1

    def skip(self) -> None:
        """Takes whatever comes next."""
        self._at += 1

    @property
    def left(self) -> int:
        """How many tokens are not taken."""
        return len(self.tokens) - self._at

    @property
    def is_done(self) -> bool:
        """Whether all tokens are taken."""
        return self.left <= 0

    def name(self) -> str:
        """Takes a name.

        Raises:
            UnreadError: if there is none.
        """
        if self.is_done or not (name := self.tokens[self._at].name):
            raise UnreadError
        self._at += 1
        return name

    def names(self) -> list[str]:
        """Takes names joined by dots."""
        found = [self.name()]
        while self.take("."):
            found.append(self.name())
        return found

    def relation(self, schema: str) -> Relation:
        """Takes the name of a table."""
        *before, name = self.names()
        return Relation(before[-1] if before else schema, name)

    @property
    def ahead(self) -> str:
        """The text of all that is left."""
        if self.is_done:
            return ""
        return self.text[self.tokens[self._at].start : self.tokens[-1].end]

    def parts(self, at: str) -> Iterator[Words]:
        """Takes all that is left, split at a sign as by `parted`."""
        return (Words(part, self.text) for part in parted(self.rest(), at))

    def statements(self) -> list[Words]:
        """Splits at semicolons; without any, parentheses need not match.

        Raises:
            UnreadError: if they do not match in one of several statements.
        """
        if not any(each.word == ";" for each in self.tokens):
            return [self]
        return [*Words(self.tokens, self.text).parts(";")]

    def rest(self) -> list[Token]:
        """Takes all that is left."""
        found, self._at = self.tokens[self._at :], len(self.tokens)
        return found


def parted(tokens: Iterable[Token], at: str) -> Iterator[list[Token]]:
    """Splits at a sign outside of parentheses.

    Raises:
        UnreadError: if the parentheses do not match.
    """
    part: list[Token] = []
    depth = 0
    for each in tokens:
        depth += (each.word == OPENING) - (each.word == CLOSING)
        if depth < 0:
            raise UnreadError
        if each.word == at and not depth:
            yield part
            part = []
        else:
            part.append(each)
    if depth:
        raise UnreadError
    yield part
