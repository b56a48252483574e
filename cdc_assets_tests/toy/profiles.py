"""How many cases are generated: by the thousand under ``HYPOTHESIS_PROFILE=soak``."""

from __future__ import annotations

import os
from typing import Final

import pytest
from hypothesis import HealthCheck, settings

SOAK = "soak"
settings.register_profile(
    SOAK, max_examples=5000, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)

LEFT: Final = "takes many minutes: make soak"
"""Why ``make test`` skips a test."""

in_soak = pytest.mark.skipif(os.environ.get("HYPOTHESIS_PROFILE") != SOAK, reason=LEFT)
"""For what searches where the usual run has a case at hand."""


def is_left_to_soak(item: pytest.Item) -> bool:
    """Whether ``make test`` skips this test, whichever profile it was collected with."""
    return any(mark.kwargs.get("reason") == LEFT for mark in item.iter_markers("skipif"))


def load() -> None:
    """Use the profile that the environment names; else what Hypothesis chose."""
    if name := os.environ.get("HYPOTHESIS_PROFILE"):
        settings.load_profile(name)


def examples(usual: int, *, in_soak: int | None = None) -> settings:
    """Settings for a test that needs this many examples, and many more in a soak."""
    if not is_soak():
        return settings(max_examples=usual, deadline=None)
    return settings(max_examples=in_soak or settings().max_examples, deadline=None)


def is_soak() -> bool:
    """Whether all that can be tried is to be tried."""
    return settings.get_current_profile_name() == SOAK
