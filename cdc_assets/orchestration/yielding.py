"""Has whoever merges into a table wait for a moment, so that another writer comes through."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from cdc_assets import desired
from cdc_assets.changes.names import TableName
from cdc_assets.desired import Wanted
from cdc_assets.errors import UnreachableError
from cdc_assets.operate import rebuilds
from cdc_assets.operate.services import Services

YIELDED: Final = timedelta(seconds=60)
"""For so long whoever merges waits at most, since it was asked last."""


@dataclass
class Way:
    """Asks by a wish, which ends by itself where this process dies.

    Nothing depends on it being heard: a writer that others get ahead of meets a conflict, or sees
    that they did, and tries again.

    Attributes:
        services: which store the wish.
        table: the table.
        run_id: who asks.
    """

    services: Services
    table: TableName
    run_id: str
    asked: bool = False

    def ask(self) -> None:
        """Asks for `YIELDED` from now on.

        Raises:
            UnreachableError: if the wish cannot be stored.
        """
        now = self.services.clock()
        wanted = Wanted(now, self.run_id, until=now + YIELDED)
        self.services.desired.put(self.table, desired.Wish.YIELDS, wanted)
        self.asked = True

    def clear(self) -> None:
        """Lets them go on, unless somebody else has asked since.

        Raises:
            UnreachableError: if the wish cannot be withdrawn.
        """
        if self.asked:
            wanted = self.services.desired.of(self.table).yields
            if wanted is not None and wanted.by == self.run_id:
                self.services.desired.remove(self.table, desired.Wish.YIELDS)
            self.asked = False

    def require_free(self) -> None:
        """Requires that the table is not being built anew, by which all of it is replaced.

        Asked right before a batch is published, it leaves no gap: a rebuild's wish is put down
        before branches of others are dropped and ``main`` is moved, and taken back after the swap.

        Raises:
            TerminalError: if it is.
        """
        rebuilds.require_none(self.services, self.table, "run the same command again")

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Asks, and goes on asking until the block ends.

        Raises:
            UnreachableError: if it cannot be asked at the beginning, or withdrawn in the end.
        """
        ended = threading.Event()

        def renew() -> None:
            while not ended.wait(YIELDED.total_seconds() / 3):
                with suppress(UnreachableError):  # it is asked again before the last one is over
                    self.ask()

        renewing = threading.Thread(target=renew, name=f"yields {self.table}", daemon=True)
        self.ask()
        renewing.start()
        try:
            yield
        finally:
            ended.set()
            renewing.join()
            self.clear()
