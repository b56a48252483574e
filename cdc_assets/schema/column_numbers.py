"""Numbers a table's columns while a statement changes them, see `cdc_assets.schema.history`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from cdc_assets.schema.ddl import ColumnChange, ColumnChangeKind, Given


@dataclass
class ColumnNumbers:
    """The columns of a table while a statement changes them; case does not matter in names.

    Attributes:
        numbers: of the present columns, by name.
        former: of former names of columns, and of dropped columns.
        last: the highest number assigned.
        given: of added columns, by number, the value of the rows there were.
    """

    numbers: dict[str, int]
    former: dict[str, int]
    last: int
    given: dict[int, Given]

    def apply(self, change: ColumnChange) -> None:
        """Applies a change; an unknown column existed before the first statement."""
        match change.kind:
            case ColumnChangeKind.ADDED:
                if self._taken(change.name) is None:
                    self.numbers[change.name] = self._number()
                    if change.given is not None:
                        self.given[self.last] = change.given
            case ColumnChangeKind.DROPPED if self._is_gone(change.name):
                pass  # DROP COLUMN IF EXISTS
            case ColumnChangeKind.DROPPED:
                self._end(change.name)
            case ColumnChangeKind.RENAMED if (now := self._renamed_already(change)) is not None:
                self.former[change.name] = self.numbers[now]
            case ColumnChangeKind.RENAMED if change.renamed_to is not None:
                self.numbers[change.renamed_to] = self._end(change.name)
            case ColumnChangeKind.RENAMED | ColumnChangeKind.RETYPED:
                pass
            case _:
                assert_never(change.kind)

    def settle(self, names: tuple[str, ...], *, are_new: bool) -> None:
        """Sets all columns, spelled like this."""
        spelt = {name.casefold(): name for name in names}
        self.numbers = {spelt.get(name.casefold(), name): n for name, n in self.numbers.items()}
        gone = [name for name in self.numbers if name not in names]
        for name in gone:
            self._end(name)
        for name in names:
            if name not in self.numbers and (are_new or not gone):
                self.numbers[name] = self._number()

    def _renamed_already(self, change: ColumnChange) -> str | None:
        """Returns the new name if a column has it already and none the old one: they are newer."""
        is_there = self._taken(change.name) is not None
        return None if is_there or not change.renamed_to else self._taken(change.renamed_to)

    def _is_gone(self, name: str) -> bool:
        """Returns whether the column was renamed or dropped before."""
        was = {each.casefold() for each in self.former}
        return self._taken(name) is None and name.casefold() in was

    def _taken(self, name: str) -> str | None:
        return next((each for each in self.numbers if each.casefold() == name.casefold()), None)

    def _end(self, name: str) -> int:
        known = self._taken(name)
        number = self._number() if known is None else self.numbers.pop(known)
        self.former[known or name] = number
        return number

    def _number(self) -> int:
        self.last += 1
        return self.last
