"""Steps of a run in threads of one process, as Dagster sees them."""

# No `from __future__ import annotations`: Dagster reads the annotations of the bodies below.

import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from queue import SimpleQueue

import dagster as dg
import pytest

from cdc_assets.errors import TransientError
from cdc_assets.orchestration.side_by_side import GracefulStop, materialize

pytestmark = pytest.mark.slow


class Attended(dg.ConfigurableResource):  # type: ignore[type-arg]
    """A resource that is told of the steps that use it."""

    def begins(self) -> None:
        told.append("begins")

    def interrupt(self) -> None:
        told.append("interrupt")
        stopped.set()


told: list[str] = []
stopped = threading.Event()
together = threading.Barrier(3)
tries: dict[str, int] = {}


@pytest.fixture(autouse=True)
def _fresh() -> None:
    told.clear()
    stopped.clear()
    together.reset()
    tries.clear()


def meeting(name: str, *, pool: str | None = None) -> dg.AssetsDefinition:
    """An asset that ends once all three are at work."""

    @dg.multi_asset(
        name=name, specs=[dg.AssetSpec(name)], required_resource_keys={"spark"}, pool=pool,
        check_specs=[dg.AssetCheckSpec("right", asset=name)],
    )  # fmt: skip
    def work(context: dg.AssetExecutionContext) -> Iterator[object]:
        together.wait(20)
        yield dg.AssetMaterialization(name, metadata={"records": 1})
        yield dg.AssetCheckResult(asset_key=name, check_name="right", passed=True)
        yield dg.MaterializeResult()

    return work


def failing(name: str, tries_that_fail: int) -> dg.AssetsDefinition:
    @dg.multi_asset(
        name=name, specs=[dg.AssetSpec(name)], retry_policy=dg.RetryPolicy(max_retries=1),
        required_resource_keys={"spark"},
    )  # fmt: skip
    def work(context: dg.AssetExecutionContext) -> Iterator[object]:
        tries[name] = tries.get(name, 0) + 1
        if tries[name] <= tries_that_fail:
            raise dg.Failure("no")
        yield dg.MaterializeResult()

    return work


def run(
    instance: dg.DagsterInstance, assets: Sequence[dg.AssetsDefinition]
) -> dg.ExecuteInProcessResult:
    return materialize(assets, instance=instance, resources={"spark": Attended()})


def test_all_steps_are_at_work_at_once_and_their_events_are_their_own(
    instance: dg.DagsterInstance,
) -> None:
    result = run(instance, [meeting(name) for name in "abc"])
    assert result.success
    assert told == ["begins"]
    for name in "abc":
        key = dg.AssetKey(name)
        events = [e for e in result.all_events if e.step_key == name]
        assert events[0].event_type_value == "STEP_START"
        assert events[-1].event_type_value == "STEP_SUCCESS"
        made = [e for e in events if e.is_step_materialization]
        assert {e.asset_key for e in made} == {key}
        assert len(made) == 2
        (stored,) = instance.get_latest_materialization_events([key]).values()
        assert stored is not None
        assert stored.run_id == result.run_id


def test_a_step_that_fails_does_so_alone_and_one_that_goes_right_later_is_none(
    instance: dg.DagsterInstance,
) -> None:
    assets = [failing("once", 1), failing("always", 9), failing("never", 0)]
    result = run(instance, assets)
    assert not result.success
    assert [each.step_key for each in result.get_step_failure_events()] == ["always"]
    assert tries == {"once": 2, "always": 2, "never": 1}
    keys = [dg.AssetKey(each) for each in ("once", "always", "never")]
    found = instance.get_latest_materialization_events(keys)
    assert [found.get(key) is not None for key in keys] == [True, False, True]


def test_steps_of_one_pool_come_one_after_the_other(instance: dg.DagsterInstance) -> None:
    instance.event_log_storage.set_concurrency_slots("one", 1)
    at_work, most = [0], [0]

    def counted(name: str) -> dg.AssetsDefinition:
        @dg.asset(name=name, pool="one")
        def work() -> None:
            at_work[0] += 1
            most[0] = max(most[0], at_work[0])
            at_work[0] -= 1

        return work

    result = materialize([counted(n) for n in "ab"], instance=instance, resources={})
    assert result.success
    assert most == [1]


@pytest.mark.parametrize("asked", [True, False], ids=["canceled", "Ctrl-C"])
def test_a_run_that_is_interrupted_tells_its_steps_and_waits_for_them(
    instance: dg.DagsterInstance, asked: bool
) -> None:
    begun, ended = SimpleQueue[dg.DagsterRun](), threading.Event()

    @dg.multi_asset(name="rests", specs=[dg.AssetSpec("rests")], required_resource_keys={"spark"})
    def rests(context: dg.AssetExecutionContext) -> Iterator[object]:
        begun.put(context.run)
        assert stopped.wait(20)
        yield dg.MaterializeResult()
        ended.set()

    def interrupts() -> None:
        if asked:
            instance.report_run_canceling(begun.get(timeout=20))
        else:
            begun.get(timeout=20)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupts).start()
    with pytest.raises(KeyboardInterrupt):
        run(instance, [rests])
    assert told == ["begins", "interrupt"]
    assert ended.is_set()
    (stored,) = instance.get_runs()
    status = dg.DagsterRunStatus.CANCELED if asked else dg.DagsterRunStatus.FAILURE
    assert stored.status is status


def test_steps_that_do_not_end_are_waited_for_together(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = GracefulStop(0.5, str)
    monkeypatch.setattr("cdc_assets.orchestration.side_by_side._STOP_OF_COMMANDS", stop)
    begun, never = SimpleQueue[str](), threading.Event()

    def hanging(name: str) -> dg.AssetsDefinition:
        @dg.asset(name=name)
        def work() -> None:
            begun.put(name)
            never.wait(60)

        return work

    def interrupts() -> None:
        for _ in range(10):
            begun.get(timeout=20)
        at.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    at = list[float]()
    threading.Thread(target=interrupts).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            run(instance, [hanging(name) for name in "abcdefghij"])
        assert time.monotonic() - at[0] < 4
    finally:
        never.set()
        # They would write events of this run while the next test's begins.
        for each in threading.enumerate():
            if each.name in set("abcdefghij"):
                each.join(30)


def test_a_run_that_fails_otherwise_than_by_a_step_is_no_success(
    instance: dg.DagsterInstance,
) -> None:
    class Broken(dg.ConfigurableResource):  # type: ignore[type-arg]
        def setup_for_execution(self, context: dg.InitResourceContext) -> None:
            msg = "postgresql://shop:geheim@db"
            raise RuntimeError(msg)

    asset = failing("never", 0)
    with pytest.raises(TransientError, match="otherwise than by a table") as failed:
        materialize([asset], instance=instance, resources={"spark": Broken()})
    assert "geheim" not in str(failed.value)


def test_hooks_hear_of_steps(instance: dg.DagsterInstance) -> None:
    heard: list[str] = []

    @dg.success_hook
    def well(context: dg.HookContext) -> None:
        heard.append(context.step_key)

    asset = failing("never", 0).with_attributes(hook_defs={well})
    assert run(instance, [asset]).success
    assert heard == ["never"]
