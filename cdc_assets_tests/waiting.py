"""Waiting for conditions, never for time alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")


def until(
    find: Callable[[], Found],
    what: str = "the condition holds",
    *,
    within_seconds: float = 60,
    every_seconds: float = 0.1,
) -> Found:
    """Ask again and again until the answer is true; fail by name at the deadline."""
    deadline = time.monotonic() + within_seconds
    while not (found := find()):
        assert time.monotonic() < deadline, f"not within {within_seconds:g} s: {what}"
        time.sleep(every_seconds)
    return found
