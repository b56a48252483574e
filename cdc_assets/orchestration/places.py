"""Provides places to work: a Spark session and connections, for one table at a time.

A session carries settings such as Iceberg's snapshot properties, and Kafka's clients serve one
thread: so tables that are merged at the same time have places of their own. A place outlives a
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
    """One of a run's places. Serves one thread at a time.

    Args:
        config: the configuration.
        new_session: opens a session.
        witnesses: the witnesses by which the run's batches prove completeness; None for none.
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
        """Returns the session; opens it if there is none."""
        if self._session is None:
            self._session = self._new_session()
        return self._session

    @cached_property
    def connections(self) -> Connections:
        """The connections of the services."""
        from cdc_assets.formats.histories import Histories
        from cdc_assets.merge.attempt import Connections

        log = self.services.log
        return Connections(log, self.services.lake, Histories(log), self._witnesses)

    @cached_property
    def replicator(self) -> Replicator:
        """The replicator that merges with this place's session."""
        from cdc_assets.merge import Replicator

        config, clock = self.services.config, self.services.clock
        return Replicator(config, self.session, clock=clock, connections=self.connections)

    def forget(self) -> None:
        """Gives up the session, usable or not; the next use opens a new one."""
        session, self._session = self._session, None
        if session is not None:
            with contextlib.suppress(Exception):  # the session may be what has just failed
                session.stop()
