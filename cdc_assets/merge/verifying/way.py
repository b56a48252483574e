"""Has whoever merges into a table wait, so that a publish of ours comes through."""

from __future__ import annotations

from typing import Final, Protocol


class Way(Protocol):
    """Is asked for once other writers came first a few times."""

    def ask(self) -> None:
        """Asks for a while from now on."""
        ...

    def clear(self) -> None:
        """Lets them go on."""
        ...


class _NoWay:
    """Nobody is asked: who comes first publishes."""

    def ask(self) -> None:
        """See `Way`."""

    def clear(self) -> None:
        """See `Way`."""


NO_WAY: Final = _NoWay()
