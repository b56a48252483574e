"""Puts steady load on the shop, which continues whatever people do to the shop's tables.

As a program (``python -m cdc_assets_devstack.shop.load --rate 20``) it takes the DSN from
``SHOP_DSN``, runs until a signal stops it, and prints its troubles.

A duty that the database refuses (a column was renamed, a table dropped or locked, a constraint
added) is rolled back and rests for a while; the others continue. Each trouble is reported once, and
so is its end. A lost connection is opened again, however long that takes.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType

import click

from cdc_assets_devstack import environment
from cdc_assets_devstack.shop.clerk import DUTIES, Clerk, Duty, LoadTotals
from cdc_assets_devstack.shop.database import shop_at
from cdc_assets_devstack.shop.dialect import Session
from cdc_assets_devstack.shop.trouble import Troubles

_LONGEST_DEBT_SECONDS = 1.0
_RECONNECT_SECONDS = 0.5

Say = Callable[[str], None]


class ShopLoad:
    """Transactions on the shop: inserts, updates, deletes, several tables at once, rollbacks.

    The transactions follow from the seed and from the database's content at the start, so a
    run continues from existing data, and several may work on one database (with different seeds).
    The totals count only acknowledged commits: one whose answer was lost with the connection is
    not included.

    Args:
        dsn: the DSN of a database that `prepare_shop` made.
        rate: row changes per second; 0 means as fast as the database accepts them.
        seed: the seed of the random choices.
        say: receives a line for each trouble, and for its end.
    """

    def __init__(
        self, dsn: str, rate: float = 20, seed: int = 7, say: Say = lambda _: None
    ) -> None:
        self._shop = shop_at(dsn)
        self._rate = rate
        self._seed = seed
        self._troubles = Troubles(say)
        self._rng: random.Random | None = None
        self.totals = LoadTotals()

    def run(
        self, stop: threading.Event | None = None, transactions: int | None = None
    ) -> LoadTotals:
        """Works until ``stop`` is set or ``transactions`` transactions were tried."""
        stop = stop or threading.Event()
        enough = None if transactions is None else self._tried + transactions
        while not stop.is_set() and self._tried != enough:
            session = self._connected(stop)
            if session is None:
                break
            with contextlib.closing(session):
                self._work(session, stop, enough)
            if self._tried != enough:
                stop.wait(_RECONNECT_SECONDS)
        return self.totals

    @property
    def _tried(self) -> int:
        return self.totals.commits + self.totals.rollbacks

    def _connected(self, stop: threading.Event) -> Session | None:
        """Waits for a session of the database; returns None once ``stop`` is set."""
        while not stop.is_set():
            try:
                session = self._shop.connect()
                self._rng = self._rng or self._rng_of(session)
            except self._shop.error as error:
                self._troubles.lost(self._shop.describe(error))
                stop.wait(_RECONNECT_SECONDS)
            else:
                self._troubles.found()
                return session
        return None

    def _rng_of(self, session: Session) -> random.Random:
        """Returns random choices that follow from the seed and the number of orders taken."""
        newest = session.newest_order()
        session.commit()
        return random.Random(f"{self._seed}:{newest}")  # noqa: S311 - a workload, no secret

    def _work(self, session: Session, stop: threading.Event, enough: int | None) -> None:
        """Does duties at the rate until enough were tried, ``stop`` is set or the session lost."""
        rng = self._rng or random.Random(self._seed)  # noqa: S311 - a workload, no secret
        due = time.monotonic()
        while not (stop.is_set() or session.closed or self._tried == enough):
            due = max(due, time.monotonic() - _LONGEST_DEBT_SECONDS)
            able = self._troubles.able(DUTIES)
            if not able:
                stop.wait(_RECONNECT_SECONDS)
                continue
            (duty,) = rng.choices(able, [each.weight for each in able])
            changes = self._transaction(session, duty, rng)
            # A duty without changes takes time, too: otherwise an empty shop means a busy loop.
            due += max(1, changes) / self._rate if self._rate else 0
            stop.wait(max(0.0, due - time.monotonic()))

    def _transaction(self, session: Session, duty: Duty, rng: random.Random) -> int:
        """Does one transaction; returns its number of row changes, even if rolled back."""
        clerk = Clerk(session, rng)
        try:
            duty.work(clerk)
            changed_its_mind = rng.random() < 0.05
            (session.rollback if changed_its_mind else session.commit)()
        except self._shop.error as error:
            changed_its_mind = True
            self._failed(session, duty, error)
        else:
            self._troubles.done(duty)
        self._count(clerk.done, committed=not changed_its_mind)
        return clerk.done.changes

    def _failed(self, session: Session, duty: Duty, error: Exception) -> None:
        """Records a failure and rolls back the transaction; closes a lost session."""
        if session.closed:
            self._troubles.lost(self._shop.describe(error))
            return
        if not self._shop.is_usual(error):
            self._troubles.refused(duty, self._shop.describe(error))
        try:
            session.rollback()
        except self._shop.error as lost:
            session.close()
            self._troubles.lost(self._shop.describe(lost))

    def _count(self, done: LoadTotals, *, committed: bool) -> None:
        if not committed:
            self.totals.rollbacks += 1
            return
        self.totals.commits += 1
        self.totals.inserts += done.inserts
        self.totals.updates += done.updates
        self.totals.deletes += done.deletes


@click.command()
@click.option("--rate", default=20.0, show_default=True, help="Row changes per second.")
@click.option("--seed", default=7, show_default=True)
def main(rate: float, seed: int) -> None:
    """Put steady load on the shop at $SHOP_DSN, until SIGTERM or SIGINT."""
    stop = threading.Event()

    def leave(_signal: int, _frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGINT, leave)
    environment.forget_other_databases()
    load = ShopLoad(os.environ["SHOP_DSN"], rate, seed, say=click.echo)
    click.echo(f"stopped after {load.run(stop)}")


if __name__ == "__main__":
    main()
