"""Reads what a user may do from ``SHOW GRANTS``, MySQL's and MariaDB's.

A name may have several accounts, for several hosts; which of them a connector logs in to is not
known. What one of them may do counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from glob import escape
from typing import Final

from cdc_assets.changes.names import TableName
from cdc_assets.databases.mysql.connection import asked
from cdc_assets.databases.mysql.dsn import parse_dsn
from cdc_assets.errors import LoginRefusedError, TerminalError

_OWN: Final = "SHOW GRANTS"
_HOSTS: Final = "SELECT Host FROM mysql.user WHERE User = %(user)s"
_OF: Final = "SHOW GRANTS FOR %(user)s@%(host)s"
_NAME: Final = r"""(?:\*|`(?:[^`]|``)*`|"(?:[^"]|"")*")"""
_GRANT: Final = re.compile(rf"GRANT (.+?) ON ({_NAME})\.({_NAME}) TO ", re.IGNORECASE)
_COLUMNS: Final = re.compile(r"\([^()]*+\)")
_ALL: Final = frozenset({"ALL PRIVILEGES", "ALL"})
_WITHOUT_SCHEMA: Final = re.compile(r"GRANT .+ ON ", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Right:
    """Rights on a place; ``schema`` is a pattern of LIKE, None everywhere; ``table`` None for all.

    ``names`` are in upper case. Rights on single columns are not among them.
    """

    names: frozenset[str]
    schema: str | None = None
    table: str | None = None

    def has(self, name: str) -> bool:
        """Returns whether a right is among them."""
        return name in self.names or bool(self.names & _ALL)

    def covers(self, table: TableName) -> bool:
        """Returns whether they hold for a table."""
        if self.schema is not None and not _is_like(table.schema, self.schema):
            return False
        return self.table in {None, table.name}


@dataclass(frozen=True, slots=True)
class Grants:
    """What the accounts of one name may do.

    Attributes:
        rights: their rights.
        has_roles: whether they have roles too, whose rights are not among these.
    """

    rights: tuple[Right, ...] = ()
    has_roles: bool = False

    def may(self, *names: str) -> bool:
        """Returns whether they have one of some rights everywhere."""
        everywhere = [each for each in self.rights if each.schema is None]
        return any(each.has(name) for each in everywhere for name in names)

    def may_read(self, table: TableName) -> bool:
        """Returns whether they may read a table, with all of its columns."""
        return any(each.has("SELECT") and each.covers(table) for each in self.rights)


def read_grants(dsn: str, user: str) -> Grants | None:
    """Returns what a user may do; None if that may not be asked, or the server has no such user.

    Raises:
        UnreachableError: if the server does not answer.
    """
    try:
        if parse_dsn(dsn).user == user:
            (lines,) = asked(dsn, (_OWN, {}))
        else:
            (hosts,) = asked(dsn, (_HOSTS, {"user": user}))
            if not hosts:
                return None
            queries = [(_OF, {"user": user, "host": host}) for (host,) in hosts]
            lines = [line for answer in asked(dsn, *queries) for line in answer]
    except (LoginRefusedError, TerminalError):
        return None
    return grants_of(str(line) for (line,) in lines)


def grants_of(lines: Iterable[str]) -> Grants:
    """Returns what lines of ``SHOW GRANTS`` say."""
    rights, has_roles = list[Right](), False
    for line in lines:
        found = _GRANT.match(line)
        if found is not None:
            names, schema, table = found.groups()
            rights.append(Right(_names(names), _unquoted(schema), _unquoted(table)))
        elif line.upper().startswith("GRANT ") and not _WITHOUT_SCHEMA.match(line):
            has_roles = True
    return Grants(tuple(rights), has_roles)


def _names(said: str) -> frozenset[str]:
    """Splits a list of rights, without those on columns."""
    marked = _COLUMNS.sub("()", said).upper()
    named = (each.strip() for each in marked.split(","))
    return frozenset(each for each in named if not each.endswith("()"))


def _unquoted(name: str) -> str | None:
    return None if name == "*" else name[1:-1].replace(name[0] * 2, name[0])


def _is_like(name: str, pattern: str) -> bool:
    r"""Returns whether a pattern of LIKE matches: ``%``, ``_``, and ``\`` before these."""
    parts: list[str] = re.findall(r"\\.|.", pattern, re.DOTALL)
    words = {"%": "*", "_": "?"}
    return fnmatchcase(name, "".join(words.get(each) or escape(each[-1]) for each in parts))
