"""Tracks duties that the shop's load cannot do: reports each once, and retries it after a while."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cdc_assets_devstack.shop.clerk import Duty

FIRST_REST_SECONDS, LONGEST_REST_SECONDS = 1.0, 15.0
STEADY_SECONDS = 30.0
"""How long a trouble must stay away to count as over."""


@dataclass(slots=True)
class _Trouble:
    """The reported reasons and the rest of a duty that the database refused."""

    said: set[str]
    rest_seconds: float
    rests_until: float
    refused_at: float


class Troubles:
    """The resting duties with the reasons, and the state of the connection.

    A trouble is over when it has not recurred for a while: a constraint that refuses every
    other order is one trouble, not a hundred.

    Args:
        say: receives each trouble and its end, once.
        clock: monotonic seconds.
    """

    def __init__(
        self, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._say = say
        self._clock = clock
        self._troubles: dict[str, _Trouble] = {}
        self._is_lost = self._said_lost = False
        self._lost_at = -STEADY_SECONDS

    def able(self, duties: Sequence[Duty]) -> list[Duty]:
        """Returns the duties that do not rest now."""
        now = self._clock()
        resting = {name for name, each in self._troubles.items() if each.rests_until > now}
        return [each for each in duties if each.name not in resting]

    def refused(self, duty: Duty, reason: str) -> None:
        """Records that the database refused a duty, which then rests, longer each time."""
        now = self._clock()
        trouble = self._troubles.setdefault(duty.name, _Trouble(set(), 0.0, now, now))
        doubled = max(FIRST_REST_SECONDS, 2 * trouble.rest_seconds)
        trouble.rest_seconds = min(doubled, LONGEST_REST_SECONDS)
        trouble.rests_until = now + trouble.rest_seconds
        trouble.refused_at = now
        if reason not in trouble.said:
            trouble.said.add(reason)
            self._say(f"the shop cannot {duty.name}: {reason}; the other duties continue")

    def done(self, duty: Duty) -> None:
        """Records that a duty was done."""
        trouble = self._troubles.get(duty.name)
        if trouble is None:
            return
        trouble.rest_seconds = 0.0
        if self._clock() - trouble.refused_at >= STEADY_SECONDS:
            del self._troubles[duty.name]
            self._say(f"the shop can {duty.name} again")

    def lost(self, reason: str) -> None:
        """Records that there is no connection."""
        now = self._clock()
        if not self._is_lost and now - self._lost_at >= STEADY_SECONDS:
            self._say(f"the shop's database is gone: {reason}; its load waits for it")
            self._said_lost = True
        self._is_lost, self._lost_at = True, now

    def found(self) -> None:
        """Records that there is a connection."""
        if self._said_lost:
            self._say("the shop's database is back")
        self._is_lost = self._said_lost = False
