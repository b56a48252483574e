"""Where a table of a run works: a Spark session, and connections, for one table at a time.

A session carries settings such as Iceberg's snapshot properties, and Kafka's clients serve one
thread: so tables that are merged at the same time have places of their own. A place outlives the
turn: the next table finds its session warm and its connections open.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from cdc_assets.config import ReplicationConfig
from cdc_assets.operate.services import Services

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cdc_assets.merge import Replicator
    from cdc_assets.merge.attempt import Connections
    from cdc_assets.merge.intake.witnesses import Witnesses


class Place:
    """One of a run's places. One thread at a time.

    Args:
        config: the configuration.
        new_session: opens a session.
        witnesses: what the run's batches may prove; None for nothing.
    """

    def __init__(
        self,
        config: ReplicationConfig,
        new_session: Callable[[], SparkSession],
        witnesses: Witnesses | None = None,
    ) -> None:
        self._witnesses = witnesses
        self._new_session = new_session
        self._session: SparkSession | None = None
        self.services = Services(config)

    def session(self) -> SparkSession:
        """The session, opened now if there is none."""
        if self._session is None:
            self._session = self._new_session()
        return self._session

    @cached_property
    def connections(self) -> Connections:
        """Those of the services."""
        from cdc_assets.formats.histories import Histories
        from cdc_assets.merge.attempt import Connections

        log = self.services.log
        return Connections(log, self.services.lake, Histories(log), self._witnesses)

    @cached_property
    def replicator(self) -> Replicator:
        """Merges with this place's session."""
        from cdc_assets.merge import Replicator

        config, clock = self.services.config, self.services.clock
        return Replicator(config, self.session, clock=clock, connections=self.connections)

    def forget(self) -> None:
        """Give the session up, usable or not; the next use opens a new one."""
        session, self._session = self._session, None
        if session is not None:
            with contextlib.suppress(Exception):  # it may be what has just failed
                session.stop()
