"""Runs the steps of a run side by side, each in a thread of one process.

Dagster's own executors run steps one after the other, or each in a process with a Spark session and
imports of its own. Steps of a replication seldom compute: they wait for Spark, or for changes.
`cdc_assets.orchestration.scheduler` decides how many of them work at a time.

Dagster keeps what it knows of a run: which step may begin, retries, slots of pools, hooks. This
module has the threads and the way in which a run ends.
"""

from __future__ import annotations

import os
import secrets
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

from cdc_assets.errors import TransientError
from cdc_assets.orchestration.dagster_internals import (
    ActiveExecution,
    EngineEventData,
    ExecuteRunWithPlanIterable,
    ExecutionPlan,
    ExecutionStep,
    InMemoryJob,
    InstanceConcurrencyContext,
    PlanExecutionContext,
    PlanExecutionContextManager,
    PlanOrchestrationContext,
    RetryMode,
    RunFailureReason,
    core_execute_in_process,
    dagster_event_sequence_for_step,
    hook_events,
)

_LOOK_SECONDS: Final = 0.5
"""How often to look at steps that wait for a pool or for a retry."""

_STOP_SECONDS: Final = 30.0
"""How long all steps may take to end once the run is to stop. Their publishes until then count."""

_ENDED_AT_ONCE: Final = 130


@dataclass(frozen=True, slots=True)
class GracefulStop:
    """The end of a run that is interrupted: its steps finish what they have begun.

    Attributes:
        seconds: how long its steps may take; None for as long as the batches at work take, unless a
            second signal ends the process.
        say: informs the sender of the signal.
    """

    seconds: float | None
    say: Callable[[str], object]


_STOP_OF_RUNS: Final = GracefulStop(_STOP_SECONDS, lambda _: None)


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


_STOP_OF_COMMANDS: Final = GracefulStop(None, _say)


@runtime_checkable
class SharedResource(Protocol):
    """A resource that is notified of the steps that use it side by side."""

    def begins(self) -> None:
        """Announces that several steps will use the resource at the same time."""

    def interrupt(self) -> None:
        """Announces that the run is to stop: waiting steps end now, others as soon as they can."""


class SideBySide(dg.Executor):
    """Executes the steps of a run side by side."""

    def __init__(self, stop: GracefulStop) -> None:
        self._stop = stop

    @property
    def retries(self) -> RetryMode:
        """Retries happen within the run."""
        return RetryMode.ENABLED

    def execute(
        self, plan_context: PlanOrchestrationContext, execution_plan: ExecutionPlan
    ) -> Iterator[dg.DagsterEvent]:
        """Runs the steps; yields their events as they happen."""
        steps = execution_plan.step_keys_to_execute
        process = EngineEventData.in_process(os.getpid(), steps)
        begins = f"Executing steps side by side (pid: {os.getpid()})"
        yield dg.DagsterEvent.engine_event(plan_context, begins, process)
        yield from ExecuteRunWithPlanIterable(
            execution_plan=execution_plan,
            iterator=partial(_events, stop=self._stop),
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
        yield dg.DagsterEvent.engine_event(plan_context, "Finished steps side by side", process)


def _executor(stop: GracefulStop) -> dg.ExecutorDefinition:
    """Defines the executor with this end."""

    @dg.executor(name="side_by_side", requirements=[], config_schema={})
    def made(_: dg.InitExecutorContext) -> dg.Executor:
        return SideBySide(stop)

    return made


side_by_side: Final = _executor(_STOP_OF_RUNS)
"""Runs all steps at once, in threads of one process."""


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
    found = dg.Definitions(
        assets=assets, resources=resources, executor=_executor(_STOP_OF_COMMANDS)
    )
    job = found.resolve_implicit_global_asset_job_def()
    partition = job.get_tags_for_partition_key(partition_key, None) if partition_key else {}
    result = core_execute_in_process(
        run_config=run_config or {},
        job=InMemoryJob(job),
        instance=instance,
        output_capturing_enabled=False,
        raise_on_error=False,
        run_tags={**(tags or {}), **partition},
    )
    _require_ended_by_steps(result)
    return result


def _require_ended_by_steps(result: dg.ExecuteInProcessResult) -> None:
    """Raises if a run has ended otherwise than by its steps: see `materialize`."""
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


_FromThread = tuple[threading.Thread, dg.DagsterEvent | BaseException | None]


@dataclass
class _Steps:
    """The steps at work, and the queue of their threads' events, with None at the end of each."""

    context: PlanExecutionContext
    active: ActiveExecution
    arriving: SimpleQueue[_FromThread] = field(default_factory=SimpleQueue[_FromThread])
    threads: dict[str, threading.Thread] = field(default_factory=dict[str, threading.Thread])
    shared: dict[int, SharedResource] = field(default_factory=dict[int, SharedResource])

    def start(self, step: ExecutionStep) -> None:
        context = self.context.for_step(step, self.active.get_known_state())
        for key in sorted(context.required_resource_keys):
            resource = getattr(context.resources, key, None)
            if isinstance(resource, SharedResource) and id(resource) not in self.shared:
                self.shared[id(resource)] = resource
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
            with dg.raise_execution_interrupts():
                thread, what = self.arriving.get(timeout=wait)
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

    def interrupt(self, stop: GracefulStop) -> None:
        """Asks steps to stop, and waits for them; stores but does not yield last events."""
        for each in self.shared.values():
            each.interrupt()
        if stop.seconds is None:
            self._wait_for_batches(stop.say)
            return
        deadline = time.monotonic() + stop.seconds
        for thread in self.threads.values():
            thread.join(max(0.0, deadline - time.monotonic()))

    def _wait_for_batches(self, say: Callable[[str], object]) -> None:
        """Waits for the batches at work; a second signal ends the process, as any kill may."""
        names = ", ".join(name for name, each in self.threads.items() if each.is_alive())
        say(f"ends after the batch at work ({names}); a second signal ends at once")
        try:
            for thread in self.threads.values():
                while thread.is_alive():
                    with dg.raise_execution_interrupts():
                        thread.join(_LOOK_SECONDS)
        except dg.DagsterExecutionInterruptedError:
            say("ended at once: what was not published yet is merged by the next start")
            os._exit(_ENDED_AT_ONCE)
        say("ended: what was published counts, the rest is merged by the next start")

    def _run(self, context: dg.StepExecutionContext) -> None:
        me, events = threading.current_thread(), list[dg.DagsterEvent]()
        try:
            for event in dagster_event_sequence_for_step(context):
                self.arriving.put((me, event))
                events.append(event)
            for event in hook_events(context, events):
                self.arriving.put((me, event))
        except BaseException as error:
            self.arriving.put((me, error))
        self.arriving.put((me, None))


def _events(
    job_context: PlanExecutionContext, execution_plan: ExecutionPlan, *, stop: GracefulStop
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
            steps.interrupt(stop)
            raise


@contextmanager
def _captured_output(
    context: PlanExecutionContext, plan: ExecutionPlan
) -> Iterator[dg.DagsterEvent]:
    """Captures the process's output for the UI, as Dagster's own executors do."""
    manager = context.instance.compute_log_manager
    log_key = manager.build_log_key_for_run(context.run_id, secrets.token_hex(4))
    keys = [step.key for step in plan.get_steps_to_execute_in_topo_order()]
    with manager.capture_logs(log_key) as captured:
        yield dg.DagsterEvent.capture_logs(context, keys, log_key, captured)
