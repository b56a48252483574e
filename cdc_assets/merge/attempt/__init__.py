"""Makes one try of one batch: plans it, completes the plan from its records, executes it."""

from cdc_assets.merge.attempt.attempts import Attempts
from cdc_assets.merge.attempt.context import Connections

__all__ = ["Attempts", "Connections"]
