"""Many updates of a large table, in one batch."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from cdc_assets_tests.bench.accounts import Accounts, prepare_accounts
from cdc_assets_tests.bench.figures import Figures, spread
from cdc_assets_tests.bench.meter import MemoryPeaks, Taken
from cdc_assets_tests.bench.world import World

GOAL = "≤ 4 s"


def measure(world: World) -> Iterator[Figures]:
    """Each repetition into a table that was never updated; one more before, to warm up."""
    accounts = prepare_accounts(world)
    copies = [f"drain_{number}" for number in range(world.scale.repeats)]
    with (memory := MemoryPeaks(world.roles)).sampled():
        world.say("filling the tables, as far as they are not")
        for copy in ["warm_up", *copies]:
            accounts.drain(copy)
        world.say(f"updating {world.scale.updates:,} rows in PostgreSQL")
        accounts.update(0)
        accounts.drain("warm_up")
        taken, steps = [], []
        for copy in copies:
            taken.append(world.meter.take(lambda copy=copy: steps.append(_steps(accounts, copy))))
    yield _figures(world, taken)
    names = dict.fromkeys(name for each in steps for name in each)
    rows = [{"step": n, **spread([each.get(n, 0.0) for each in steps])} for n in names]
    yield Figures("Steps of the updates", rows)
    yield Figures("Peak memory, updates", memory.rows({}))


def _steps(accounts: Accounts, copy: str) -> dict[str, float]:
    """Drain; seconds per step."""
    (batch,) = accounts.drain(copy)
    return {**batch.steps, "all else": batch.duration_seconds - sum(batch.steps.values())}


def _figures(world: World, taken: list[Taken]) -> Figures:
    seconds = [each.seconds for each in taken]
    row = {
        "what": f"{world.scale.updates:,} updates",
        **spread(seconds),
        "CPU s": round(median(each.cpu_seconds for each in taken), 2),
        "events/s": round(world.scale.updates / median(seconds)),
        "goal": GOAL,
    }
    return Figures(f"Updates into a table of {world.scale.rows:,} rows", [row])
