"""Finds foreign keys whose rules change rows, in the text of a statement.

The text is asked, not its tree: of a statement that cannot be parsed, too, it tells whether rows
may change without an event.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

_NAME: Final = r'(?:`[^`]+`|"[^"]+"|[\w$]+)'
_REFERENCES: Final = re.compile(r"(?i)\breferences\b")
_RULE: Final = re.compile(r"(?i)\bon\s+(delete|update)\s+(cascade|set\s+null|set\s+default)\b")
_CONSTRAINT: Final = re.compile(rf"(?i)\bconstraint\s+({_NAME})\s+foreign\s+key\b")
_DROPPED: Final = re.compile(
    rf"(?i)\bdrop\s+(?:foreign\s+key|constraint)\s+(?:if\s+exists\s+)?({_NAME})"
)
UNNAMED: Final = "without a name"


@dataclass(frozen=True, slots=True)
class KeyChanges:
    """The foreign keys in a statement.

    Attributes:
        added: names of those that change rows of their table, or `UNNAMED`.
        dropped: names of all that are dropped.
    """

    added: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()


def key_changes(text: str) -> KeyChanges:
    """Returns the foreign keys that a statement adds and drops.

    A comment or a string may look like one: then the table is in doubt without need.
    """
    parts = _REFERENCES.split(text)
    added = tuple(_name_in(before) for before, after in pairwise(parts) if _RULE.search(after))
    return KeyChanges(added, tuple(_plain(each) for each in _DROPPED.findall(text)))


def _name_in(text: str) -> str:
    """Returns the name of the last constraint in a text, if its foreign key follows."""
    names = [*_CONSTRAINT.finditer(text)]
    return _plain(names[-1][1]) if names else UNNAMED


def _plain(name: str) -> str:
    return name.strip('`"')
