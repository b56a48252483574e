"""Runs the steps of a run side by side, each in a thread of one process.

Dagster's own executors either run steps one after the other, or each in a process with a Spark
session and imports of its own. Steps of a replication seldom compute: they wait for Spark, or for
changes. `cdc_assets.orchestration.turns` decides how many of them work at a time.

The non-public parts of Dagster that this needs are used in this module alone.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Final, Protocol, runtime_checkable

import dagster as dg
from dagster._core.definitions.job_base import InMemoryJob
from dagster._core.errors import DagsterExecutionInterruptedError, raise_execution_interrupts
from dagster._core.events import EngineEventData, RunFailureReason
from dagster._core.execution.api import ExecuteRunWithPlanIterable
from dagster._core.execution.compute_logs import create_compute_log_file_key
from dagster._core.execution.context.system import (
    PlanExecutionContext,
    PlanOrchestrationContext,
    StepExecutionContext,
)
from dagster._core.execution.context_creation_job import PlanExecutionContextManager
from dagster._core.execution.execute_in_process import core_execute_in_process, merge_run_tags
from dagster._core.execution.plan.active import ActiveExecution
from dagster._core.execution.plan.execute_plan import (
    _trigger_hook as hook_events,  # pyright: ignore[reportPrivateUsage]
)
from dagster._core.execution.plan.execute_plan import dagster_event_sequence_for_step
from dagster._core.execution.plan.instance_concurrency_context import InstanceConcurrencyContext
from dagster._core.execution.plan.plan import ExecutionPlan
from dagster._core.execution.plan.step import ExecutionStep
from dagster._core.execution.retries import RetryMode

from cdc_assets.errors import TransientError

_LOOK_SECONDS: Final = 0.5
"""How often to look at steps that wait for a pool or for a retry."""

_FAREWELL_SECONDS: Final = 30.0
"""How long all steps may take to end once the run is to stop. Their publishes until then count."""

_ENDED_AT_ONCE: Final = 130


@dataclass(frozen=True, slots=True)
class Farewell:
    """How a run ends that is to stop.

    Attributes:
        seconds: how long its steps may take; None for as long as the batches at work take, unless a
            second signal ends the process.
        say: tells whoever has sent the signal.
    """

    seconds: float | None
    say: Callable[[str], object]


_OF_RUNS: Final = Farewell(_FAREWELL_SECONDS, lambda _: None)


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


_OF_COMMANDS: Final = Farewell(None, _say)


@runtime_checkable
class Attended(Protocol):
    """A resource that is notified of the steps that use it side by side."""

    def begins(self) -> None:
        """Announces that several steps will use the resource at the same time."""

    def interrupt(self) -> None:
        """Announces that the run is to stop: waiting steps end now, others as soon as they can."""


@dg.executor(name="side_by_side", requirements=[], config_schema={})
def side_by_side(_: dg.InitExecutorContext) -> dg.Executor:
    """Runs all steps at once, in threads of one process."""
    return SideBySide()


def _ending(farewell: Farewell) -> dg.ExecutorDefinition:
    """Returns the same executor with another end."""

    @dg.executor(name="side_by_side", requirements=[], config_schema={})
    def made(_: dg.InitExecutorContext) -> dg.Executor:
        return SideBySide(farewell)

    return made


class SideBySide(dg.Executor):
    """The executor that runs steps side by side; see the module."""

    def __init__(self, farewell: Farewell = _OF_RUNS) -> None:
        self._farewell = farewell

    @property
    def retries(self) -> RetryMode:
        """Retries happen within the run."""
        return RetryMode.ENABLED

    def execute(
        self, plan_context: PlanOrchestrationContext, execution_plan: ExecutionPlan
    ) -> Iterator[dg.DagsterEvent]:
        """Runs the steps; yields their events as they happen."""
        steps = execution_plan.step_keys_to_execute
        told = EngineEventData.in_process(os.getpid(), steps)
        begins = f"Executing steps side by side (pid: {os.getpid()})"
        yield dg.DagsterEvent.engine_event(plan_context, begins, told)
        yield from ExecuteRunWithPlanIterable(
            execution_plan=execution_plan,
            iterator=partial(_events, farewell=self._farewell),
            execution_context_manager=PlanExecutionContextManager(
                job=plan_context.job,
                retry_mode=self.retries,
                execution_plan=execution_plan,
                run_config=plan_context.run_config,
                dagster_run=plan_context.dagster_run,
                instance=plan_context.instance,
                raise_on_error=plan_context.raise_on_error,
                output_capture=plan_context.output_capture,
            ),
        )
        yield dg.DagsterEvent.engine_event(plan_context, "Finished steps side by side", told)


def materialize(
    assets: Sequence[dg.AssetsDefinition],
    *,
    instance: dg.DagsterInstance,
    resources: Mapping[str, Any],
    partition_key: str | None = None,
    run_config: Mapping[str, Any] | None = None,
    tags: Mapping[str, str] | None = None,
) -> dg.ExecuteInProcessResult:
    """Materializes assets with this executor, as `dagster.materialize` does with Dagster's own.

    Does not raise for a failed step. A first SIGINT or SIGTERM ends it after the batches at work,
    which it says; a second one ends the process at once.

    Raises:
        KeyboardInterrupt: if the run was interrupted or canceled; Dagster only records that.
        TransientError: if it failed otherwise than by a step.
    """
    found = dg.Definitions(assets=assets, resources=resources, executor=_ending(_OF_COMMANDS))
    job = found.resolve_implicit_global_asset_job_def()
    tags = merge_run_tags(job, partition_key, tags, None, instance, run_config)
    result = core_execute_in_process(
        run_config=run_config or {},
        job=InMemoryJob(job),
        instance=instance,
        output_capturing_enabled=False,
        raise_on_error=False,
        run_tags=tags,
    )
    _require_ended_by_steps(result)
    return result


def _require_ended_by_steps(result: dg.ExecuteInProcessResult) -> None:
    """Raises if something else than its steps has ended the run: see `materialize`."""
    kinds = {each.event_type: each for each in result.all_events if each.is_job_event}
    if dg.DagsterEventType.RUN_SUCCESS in kinds:
        return
    failed = kinds.get(dg.DagsterEventType.RUN_FAILURE)
    data = failed.job_failure_data if failed else None
    match data.failure_reason if data else RunFailureReason.UNEXPECTED_TERMINATION:
        case RunFailureReason.STEP_FAILURE:
            return
        case RunFailureReason.UNEXPECTED_TERMINATION:
            raise KeyboardInterrupt
        case _:
            kind = data.error.cls_name if data and data.error else "unknown error"
            what = f"the run failed otherwise than by a table ({kind})"
            raise TransientError(what, where=f"run={result.run_id}", remedy="start it again")


_Coming = tuple[threading.Thread, dg.DagsterEvent | BaseException | None]


@dataclass
class _Steps:
    """The running steps, and the queue of their threads' events, with None at the end of each."""

    context: PlanExecutionContext
    active: ActiveExecution
    coming: SimpleQueue[_Coming] = field(default_factory=SimpleQueue[_Coming])
    threads: dict[str, threading.Thread] = field(default_factory=dict[str, threading.Thread])
    attended: dict[int, Attended] = field(default_factory=dict[int, Attended])

    def start(self, step: ExecutionStep) -> None:
        context = self.context.for_step(step, self.active.get_known_state())
        for key in step_resources(context):
            resource = getattr(context.resources, key, None)
            if isinstance(resource, Attended) and id(resource) not in self.attended:
                self.attended[id(resource)] = resource
                resource.begins()
        thread = threading.Thread(target=self._run, args=(context,), name=step.key, daemon=True)
        self.threads[step.key] = thread
        thread.start()

    def events(self, wait: float) -> Iterator[dg.DagsterEvent]:
        """Yields the next event if one comes within ``wait`` seconds.

        Raises:
            BaseException: an error of a step's thread that is not reported as an event.
        """
        try:
            with raise_execution_interrupts():
                thread, what = self.coming.get(timeout=wait)
        except Empty:
            return
        match what:
            case dg.DagsterEvent():
                yield what
                self.active.handle_event(what)
            case BaseException():
                raise what
            case None:
                self._ended(thread)

    def _ended(self, thread: threading.Thread) -> None:
        """Completes the step, unless it is being retried already."""
        thread.join()
        if self.threads.get(thread.name) is thread:
            del self.threads[thread.name]
            self.active.verify_complete(self.context, thread.name)

    def interrupt(self, farewell: Farewell) -> None:
        """Asks steps to stop, and waits for them; stores but does not yield last events."""
        for each in self.attended.values():
            each.interrupt()
        if farewell.seconds is None:
            self._say_farewell(farewell.say)
            return
        deadline = time.monotonic() + farewell.seconds
        for thread in self.threads.values():
            thread.join(max(0.0, deadline - time.monotonic()))

    def _say_farewell(self, say: Callable[[str], object]) -> None:
        """Waits for the batches at work; a second signal ends the process, as any kill may."""
        names = ", ".join(name for name, each in self.threads.items() if each.is_alive())
        say(f"ends after the batch at work ({names}); a second signal ends at once")
        try:
            for thread in self.threads.values():
                while thread.is_alive():
                    with raise_execution_interrupts():
                        thread.join(_LOOK_SECONDS)
        except DagsterExecutionInterruptedError:
            say("ended at once: what was not published yet is merged by the next start")
            os._exit(_ENDED_AT_ONCE)
        say("ended: what was published counts, the rest is merged by the next start")

    def _run(self, context: StepExecutionContext) -> None:
        me, told = threading.current_thread(), list[dg.DagsterEvent]()
        try:
            for event in dagster_event_sequence_for_step(context):
                self.coming.put((me, event))
                told.append(event)
            for event in hook_events(context, told):
                self.coming.put((me, event))
        except BaseException as error:
            self.coming.put((me, error))
        self.coming.put((me, None))


def step_resources(context: StepExecutionContext) -> Sequence[str]:
    """Returns the keys of the resources that a step uses."""
    return sorted(context.required_resource_keys)


def _events(
    job_context: PlanExecutionContext, execution_plan: ExecutionPlan, *, farewell: Farewell
) -> Iterator[dg.DagsterEvent]:
    with (
        InstanceConcurrencyContext(job_context.instance, job_context.dagster_run) as pools,
        execution_plan.start(
            retry_mode=job_context.retry_mode, instance_concurrency_context=pools
        ) as active,
        _captured_output(job_context, execution_plan) as captured,
    ):
        yield captured
        steps = _Steps(job_context, active)
        try:
            while not active.is_complete:
                for step in active.get_steps_to_execute():
                    steps.start(step)
                yield from active.concurrency_event_iterator(job_context)
                yield from steps.events(_LOOK_SECONDS)
                yield from active.plan_events_iterator(job_context)
        except BaseException:
            steps.interrupt(farewell)
            raise


@contextmanager
def _captured_output(
    context: PlanExecutionContext, plan: ExecutionPlan
) -> Iterator[dg.DagsterEvent]:
    """Captures the process's output for the UI, as Dagster's own executors do."""
    manager = context.instance.compute_log_manager
    log_key = manager.build_log_key_for_run(context.run_id, create_compute_log_file_key())
    keys = [step.key for step in plan.get_steps_to_execute_in_topo_order()]
    with manager.capture_logs(log_key) as captured:
        yield dg.DagsterEvent.capture_logs(context, keys, log_key, captured)
