"""What a part of the soak runs, and in which order: what is oldest first.

A group is what one worker would take together (see `cdc_assets_tests.workers`): mostly a module.
Parts are made of the groups' names alone, so that a part is the same one after others have run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from enum import IntEnum
from pathlib import Path

from cdc_assets_tests.soak.ledger import Passed

_PART = re.compile(r"([1-9]\d*)/([1-9]\d*)")

HasChanged = Callable[[Path, str], bool]
"""Whether what a module of tests is about has changed since a commit."""


class State(IntEnum):
    """Why a group is due; the lowest is run first."""

    NEVER = 0
    CHANGED = 1
    SAME = 2

    @property
    def words(self) -> str:
        """For people."""
        return ("never passed as a whole", "changed since", "the same since")[self]


@dataclass(frozen=True, slots=True)
class Part:
    """The ``number``-th of ``count`` parts, from 1."""

    number: int = 1
    count: int = 1

    @classmethod
    def parsed(cls, text: str) -> Part:
        """Read ``3/8``.

        Raises:
            ValueError: it is not of that form, or there is no such part.
        """
        found = _PART.fullmatch(text)
        if found is None or int(found[1]) > int(found[2]):
            msg = f"PART={text} is no part: 3/8 is the third of eight"
            raise ValueError(msg)
        return cls(int(found[1]), int(found[2]))

    def of(self, names: Iterable[str]) -> frozenset[str]:
        """Its share of these names."""
        return frozenset(sorted(names)[self.number - 1 :: self.count])


@dataclass(frozen=True, slots=True)
class Group:
    """Tests that run together, and when all of them had last passed."""

    name: str
    tests: tuple[str, ...]
    state: State
    since: date | None
    """The day of the oldest of their last passes; None if one has never passed."""

    seconds: int
    """That their last passes took; those that never passed count for nothing."""


def group(
    name: str,
    tests: Mapping[str, Path],
    passed: Mapping[str, Passed],
    has_changed: HasChanged,
) -> Group:
    """What is known of these tests, each with its module."""
    found = {test: passed[test] for test in tests if test in passed}
    seconds = sum(each.seconds for each in found.values())
    if len(found) < len(tests):
        return Group(name, tuple(tests), State.NEVER, None, seconds)
    looks = {(tests[test], each.commit) for test, each in found.items()}
    state = State.CHANGED if any(has_changed(*look) for look in looks) else State.SAME
    since = min(each.on for each in found.values())
    return Group(name, tuple(tests), state, since, seconds)


def in_order(groups: Iterable[Group]) -> Sequence[Group]:
    """Never passed first, then what has changed, then the rest; each with the oldest first."""
    return sorted(groups, key=lambda each: (each.state, each.since or date.min, each.name))
