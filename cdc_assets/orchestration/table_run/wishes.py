"""Follows the wishes of people and of other writers for a table while a run merges it.

Nothing is merged into a table that people have paused or dropped: a tail leaves it, before its
next batch at the latest; the others fail, and say how to resume it. A writer that wants to publish
has the table wait before its next turn, and end its turn before its next batch.
"""

from __future__ import annotations

import time
from typing import Final

from cdc_assets.changes.names import TableName
from cdc_assets.desired import NOTHING, Desired
from cdc_assets.errors import HeldError
from cdc_assets.operate.services import Services
from cdc_assets.operate.states import held_words
from cdc_assets.orchestration.table_run.intention import Intention
from cdc_assets.orchestration.turns import Turns

LOOK_SECONDS: Final = 2.0
"""How often a long turn checks whether people want it to end."""
YIELD_SECONDS: Final = 0.5
"""How often a turn that waits for another process's publish checks whether it has come."""


class Wishes:
    """The wishes for one table, looked up rarely enough to be cheap.

    Args:
        services: which store them.
        table: the table.
    """

    def __init__(self, services: Services, table: TableName) -> None:
        self._services, self._table = services, table
        self._found: Desired = NOTHING
        self._looked = float("-inf")

    def make_way(self, turns: Turns) -> None:
        """Waits as long as another writer has it wait for a publish of its own.

        That is before a turn, not in it: other tables may have the place. The wish for it expires
        within a minute, unless it is made again.
        """
        while self._wanted().yields is not None and not turns.is_over:
            time.sleep(YIELD_SECONDS)

    def held(self, intention: Intention) -> str:
        """Says why people want nothing to be merged now; empty if they do not hold the table.

        Raises:
            HeldError: if they do, and a person has asked for this very run.
        """
        said = held_words(self._table, self._wanted(LOOK_SECONDS))
        if said and intention is not Intention.TAIL:
            what, _, remedy = said.partition(" → ")
            raise HeldError(what, where=f"table={self._table}", remedy=remedy)
        return said

    def is_released(self) -> bool:
        """Returns whether people no longer hold the table; may be called in another thread."""
        return self._services.desired.of(self._table).held is None

    @property
    def ends_turn(self) -> bool:
        """Whether no further batch is wanted; False without a look soon after the last one."""
        if time.monotonic() - self._looked < LOOK_SECONDS:
            return False
        wanted = self._wanted()
        return wanted.held is not None or wanted.yields is not None

    def _wanted(self, within: float = 0.0) -> Desired:
        """Returns the wishes as of so many seconds ago at most."""
        if time.monotonic() - self._looked >= within:
            self._found = self._services.desired.of(self._table)
            self._looked = time.monotonic()
        return self._found
