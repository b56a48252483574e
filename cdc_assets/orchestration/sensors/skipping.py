"""Skips a tick, with the reason, if Kafka, the catalog or the registry does not answer."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

import dagster as dg

from cdc_assets.errors import TransientError

Evaluate = Callable[[dg.SensorEvaluationContext], dg.SensorResult]


def skipping_when_unreachable(evaluate: Evaluate) -> Evaluate:
    """Turns a transient error into a skip that names the part and its address.

    The cursor stays, so the next tick looks at everything again. Terminal errors (a wrong
    configuration) stay errors: the tick fails, which the UI shows in red.
    """

    @wraps(evaluate)
    def evaluated(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        try:
            return evaluate(context)
        except TransientError as problem:
            return dg.SensorResult(skip_reason=str(problem), cursor=context.cursor)

    return evaluated
