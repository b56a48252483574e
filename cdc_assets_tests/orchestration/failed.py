"""Why a run failed, for tests."""

from __future__ import annotations

import dagster as dg


def reason(result: dg.ExecuteInProcessResult) -> str:
    """The message of the one step that failed, and of its cause."""
    (failure,) = (e for e in result.all_events if e.event_type is dg.DagsterEventType.STEP_FAILURE)
    error = failure.step_failure_data.error
    assert error is not None
    cause = error.cause
    return f"{error.message} {cause.message if cause else ''}"
