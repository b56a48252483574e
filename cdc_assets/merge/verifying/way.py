"""Has whoever merges into a table wait, so that a publish of ours comes through and stays."""

from __future__ import annotations

from typing import Final, Protocol


class PublishLease(Protocol):
    """Is asked for once other writers came first a few times."""

    def ask(self) -> None:
        """Asks for a while from now on."""
        ...

    def clear(self) -> None:
        """Lets the other writers continue."""
        ...

    def require_free(self) -> None:
        """Requires that no rebuild is about to replace all of the table.

        Raises:
            TerminalError: if one is under way.
        """
        ...


class _NoLease:
    """Nobody is asked: who comes first publishes."""

    def ask(self) -> None:
        """See `PublishLease`."""

    def clear(self) -> None:
        """See `PublishLease`."""

    def require_free(self) -> None:
        """See `PublishLease`."""


NO_WAY: Final = _NoLease()
