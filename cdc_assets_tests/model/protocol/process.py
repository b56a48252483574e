"""Runs attempt after attempt until nothing is left, and records results outside the lake."""

from __future__ import annotations

from enum import StrEnum

from cdc_assets_tests.model.protocol.effects import (
    EffectError,
    InterruptedAttemptError,
    Life,
    RefusedError,
    effect,
)
from cdc_assets_tests.model.protocol.execution import Attempt, Outcome
from cdc_assets_tests.model.protocol.plan import GROWTH, Kind, Order
from cdc_assets_tests.model.protocol.rules import Protocol
from cdc_assets_tests.model.protocol.world import World

CONFLICTS = 5
"""Conflicts in a row that end a run; the next run goes on."""


class End(StrEnum):
    """The way in which a run ends."""

    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"


def run(world: World, protocol: Protocol, order: Order) -> Life[End]:
    """Merges until nothing is left; a failure is recorded and ends the run."""
    try:
        end = yield from _drain(world, protocol, order)
        if end is not End.FAILED:
            failed = end is End.STOPPED
            yield from effect("failure file", lambda: world.set_failure_file(failed=failed))
            return end
    except (EffectError, InterruptedAttemptError, RefusedError):
        pass
    try:
        yield from effect("failure file", lambda: world.set_failure_file(failed=True))
    except (EffectError, InterruptedAttemptError):
        return End.FAILED
    return End.FAILED


def _drain(world: World, protocol: Protocol, order: Order) -> Life[End]:
    limits, conflicts = 1, 0
    while conflicts < CONFLICTS:
        attempt = Attempt(world, protocol, order, limits)
        match (yield from attempt.run()):
            case Outcome.PUBLISHED:
                limits, conflicts = 1, 0
                yield from effect("event", lambda a=attempt: world.events.append(a.number))
                if order.kind is not Kind.TAIL:
                    return End.DONE
            case Outcome.NOTHING:
                return End.DONE
            case Outcome.STOPPED:
                return End.STOPPED
            case Outcome.LONGER:
                limits *= GROWTH
            case Outcome.CONFLICT:
                conflicts += 1
            case Outcome.TABLE_MADE:
                pass
    return End.FAILED
