"""The reactions to changes of a source's columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Reaction(StrEnum):
    """The reaction to a change of the source's columns."""

    EVOLVE = "evolve"  # the lake follows, if nothing is lost
    STRICT = "strict"  # the table stops
    IGNORE = "ignore"  # the lake stays as it is


@dataclass(frozen=True, slots=True)
class Policy:
    """The reaction to each kind of change.

    Attributes:
        add, widen, rename, drop, incompatible: by kind. For an incompatible change, to evolve means
            to stop, since nothing else is lossless; with ``new_column`` it means another column.
        new_column: whether values of a type that does not fit go into a new column, ``name__v2``.
        drops_columns: whether a column that the source has dropped is dropped from the lake too.
        names: names of columns in the lake, by names in records.
        given_up: columns that the source has dropped, as the configuration says.
    """

    add: Reaction = Reaction.EVOLVE
    widen: Reaction = Reaction.EVOLVE
    rename: Reaction = Reaction.EVOLVE
    drop: Reaction = Reaction.EVOLVE
    incompatible: Reaction = Reaction.EVOLVE
    new_column: bool = False
    drops_columns: bool = False
    names: Mapping[str, str] = field(default_factory=dict[str, str])
    given_up: frozenset[str] = frozenset()

    @classmethod
    def of(cls, mode: Reaction) -> Policy:
        """Returns a policy with the same reaction to all kinds."""
        return cls(mode, mode, mode, mode, mode)
