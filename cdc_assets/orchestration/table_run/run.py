"""Runs one table's step: its turns, and what happens if one of them fails.

Delivery: each batch is published to the lake before its materialization is logged. A run
that dies in between leaves the lake correct and Dagster without that one event; the next run
continues from the lake.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import dagster as dg

from cdc_assets.config import ReplicationConfig
from cdc_assets.effects import effect
from cdc_assets.errors import HeldError
from cdc_assets.orchestration.failing import (
    MAX_RETRIES,
    failure_observation,
    failure_of,
    message_of,
)
from cdc_assets.orchestration.table_run.draining import Drain
from cdc_assets.orchestration.table_run.events import Event, quiet_result
from cdc_assets.orchestration.table_run.failure_record import FailureRecord
from cdc_assets.orchestration.table_run.one_turn import OneTurn
from cdc_assets.orchestration.table_run.replaying import Replay
from cdc_assets.orchestration.table_run.step import OnBatch, TableStep
from cdc_assets.orchestration.table_run.step_checks import StepChecks
from cdc_assets.orchestration.table_run.turn_by_turn import TurnByTurn
from cdc_assets.orchestration.table_run.wishes import Wishes
from cdc_assets.orchestration.turns import Ends, RunIsOverError
from cdc_assets.registry import TableEntry

if TYPE_CHECKING:
    from cdc_assets.orchestration.resources import ReplicationSpark


class TableRun:
    """The work of one step. Use it once.

    Args:
        context: the step's context.
        config: the configuration.
        entry: the table's entry in the registry.
        spark: the resource with the run's sessions.
        on_batch: receives each batch; a run that has it does not stay.
    """

    def __init__(
        self,
        context: dg.AssetExecutionContext,
        config: ReplicationConfig,
        entry: TableEntry,
        spark: ReplicationSpark,
        on_batch: OnBatch | None = None,
    ) -> None:
        self._step = step = TableStep(context, config, entry, spark, on_batch)
        self._wishes = Wishes(step.idle, entry.table)
        self._record = record = FailureRecord(step)
        self._checks = checks = StepChecks(step)
        drain = Drain(step, self._wishes, record)
        self._replay = Replay(step, drain, record, checks)
        self._one_turn = OneTurn(step, drain, self._replay, record, checks)
        self._turn_by_turn = TurnByTurn(step, drain, record, checks)

    def events(self) -> Iterator[Event]:
        """Does the work; yields each batch's materialization as soon as the next one is done.

        Raises:
            dagster.Failure: for every error. It is recorded for `status` and the sensors, unless
                hours were being replayed: that does not prevent the table from continuing.
        """
        step = self._step
        try:
            for event in self._work():
                with effect("dagster: event"):
                    yield event
            step.leave()
            return
        except RunIsOverError:
            what = f"{step.entry.table}: the run was stopped before the table had its turn"
            raise dg.Failure(what, allow_retries=False) from None
        except Exception as error:
            failed = error
        # Out of the handler: an error of what follows must not quote this one in its context.
        failure = failure_of(step.entry, failed)
        if not failure.allow_retries or step.context.retry_number >= MAX_RETRIES:
            try:
                yield from self._given_up(failed, failure)
            except Exception as error:  # the first error is what a person has to see
                said = f"{step.entry.table}: its failure could not be shown: {message_of(error)}"
                step.context.log.warning(said)
            finally:
                step.leave()
        raise failure

    def _given_up(self, error: Exception, failure: dg.Failure) -> Iterator[Event]:
        """Records the failure of the last try, and yields what shows it."""
        if not self._replay.is_merging_again and not isinstance(error, HeldError):
            self._record.fail(error)
        yield failure_observation(self._step.config, self._step.entry, failure)
        yield from self._checks.despite(failure)

    def _work(self) -> Iterator[Event]:
        step, turns = self._step, self._step.turns
        if not turns.stays:
            self._wishes.make_way(turns)
            with step.turn():
                if not (yield from self._is_let_go()):
                    yield from self._one_turn.events()
            return
        ends: Ends | None = {}
        while ends is not None:
            self._wishes.make_way(turns)
            with step.turn():
                if (yield from self._is_let_go()) or (yield from self._turn_by_turn.catch_up(ends)):
                    return
            ends = self._turn_by_turn.rest()
        yield self._turn_by_turn.result()

    def _is_let_go(self) -> Generator[Event, None, bool]:
        """Returns whether people want nothing to be merged; then the step ends here.

        Raises:
            HeldError: if a person has asked for this very run.
        """
        step, checks = self._step, self._checks
        said = self._wishes.held(step.intention)
        if not said:
            return False
        step.context.log.info(f"{step.entry.table}: {said}")
        step.turns.let_go(self._wishes.is_released)
        yield quiet_result(step, checks)
        return True
