"""Tells how far a rebuild has come, by the properties and publishes of both tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from cdc_assets.errors import TerminalError
from cdc_assets.lake import TableState
from cdc_assets.lake.carried import SideMark
from cdc_assets.merge.intake.planning import BEGIN, BEGIN_TOPIC, BEGIN_WHOLE
from cdc_assets.merge.rebuild.site import Site

SIGNAL: Final = "cdc-assets.rebuild-signal"
"""Property of the table beside: the note about the snapshot that it waits for, or empty."""

READ_BESIDE: Final = "cdc-assets.rebuild-reads"
"""Property of the table beside: its rows are read from the source."""

ID: Final = "cdc-assets.rebuild-id"
"""Property of the table beside: tells it from another one that was made in its place."""

OF_REBUILD: Final = frozenset({BEGIN, BEGIN_TOPIC, BEGIN_WHOLE, READ_BESIDE, ID, SIGNAL})
"""Properties of the table beside that nobody needs once it has taken the old one's place."""


@dataclass(frozen=True, slots=True)
class Standing:
    """The progress of a rebuild.

    Attributes:
        old: the table as readers see it.
        generation: of the rebuild: one more than that of the old table.
        beside: the table that is being filled; None before `Rebuild.begin`.
        swapped: whether a rebuild was swapped in and only not tidied up.
    """

    old: TableState
    generation: int
    beside: TableState | None
    swapped: bool

    @property
    def is_read(self) -> bool:
        """Whether the table beside is read from its source, and the log merged over it."""
        return self.beside is not None and _is_read(self.beside)

    @property
    def is_from_log(self) -> bool:
        """Whether the table beside is filled from the log, and not read from its source."""
        return self.beside is not None and not _is_read(self.beside)


def look(site: Site) -> Standing:
    """Looks how far the rebuild has come; changes nothing.

    Raises:
        TerminalError: if there is nothing that could be built anew.
    """
    old = site.state()
    if old is None or not (old.published or old.is_lost):
        what = "there is nothing to build anew: the table was not replicated yet"
        raise TerminalError(what, where=site.where, remedy="materialize it")
    done = generation_of(old)
    beside = site.state_beside(done + 1)
    swapped = done > 0 and site.state_beside(done) is not None
    return Standing(old, done + 1, beside, swapped)


# ── what a table says of itself ──────────────────────────────────────────────────────────


def generation_of(state: TableState) -> int:
    """Returns the number of rebuilds that the table was swapped in by; 0 without any."""
    return state.published.carried.generation if state.published else 0


def topic_of(state: TableState | None) -> str | None:
    """Returns the topic of the newest publish; None before the first."""
    return state.published.topic if state and state.published else None


def side_mark_of(state: TableState | None) -> SideMark | None:
    """Returns what the newest publish says of the side table; None before the first."""
    return state.published.carried.side if state and state.published else None


def id_of(beside: TableState) -> str:
    """Returns the id of a table beside; empty for one read from its source by an older version."""
    return beside.properties.get(ID, "")


def awaits_snapshot(beside: TableState) -> bool:
    """Returns whether a table beside begins where a snapshot is yet to be taken."""
    return BEGIN in beside.properties and not beside.properties.get(BEGIN_WHOLE)


def has_place(beside: TableState) -> bool:
    """Returns whether a table beside knows where in its topic it begins, or has come to."""
    return beside.published is not None or BEGIN in beside.properties


def _is_read(beside: TableState) -> bool:
    published = beside.published
    return published.carried.beside is not None if published else READ_BESIDE in beside.properties
