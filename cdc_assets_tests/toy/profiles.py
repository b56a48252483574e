"""How many cases are generated: by the thousand under ``HYPOTHESIS_PROFILE=soak``."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

SOAK = "soak"
settings.register_profile(
    SOAK, max_examples=5000, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


def load() -> None:
    """Use the profile that the environment names; else what Hypothesis chose."""
    if name := os.environ.get("HYPOTHESIS_PROFILE"):
        settings.load_profile(name)


def examples(usual: int) -> settings:
    """Settings for a test that needs this many examples, and many more in a soak."""
    many = settings().max_examples if is_soak() else usual
    return settings(max_examples=many, deadline=None)


def is_soak() -> bool:
    """Whether all that can be tried is to be tried."""
    return settings.get_current_profile_name() == SOAK
