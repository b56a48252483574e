"""Many updates of a large table, in one batch: a connector's first transaction, and a later one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from cdc_assets_tests.bench.accounts import Accounts, prepare_accounts
from cdc_assets_tests.bench.figures import Figures, Row, spread
from cdc_assets_tests.bench.meter import MemoryPeaks, Taken
from cdc_assets_tests.bench.world import World

GOAL = "≤ 4 s"


def measure(world: World) -> Iterator[Figures]:
    """Each repetition into a table of its own; one more before, to warm up.

    The changes of a connector's first transaction have no last commit, and are looked at apart.
    """
    accounts = prepare_accounts(world)
    copies = [f"drain_{number}" for number in range(world.scale.repeats)]
    rows: list[Row] = []
    steps: list[Figures] = []
    with (memory := MemoryPeaks(world.roles)).sampled():
        world.say("filling the tables, as far as they are not")
        for copy in ["warm_up", *copies]:
            accounts.drain(copy)
        for number, what in enumerate(("first transaction", "later transaction")):
            world.say(f"updating {world.scale.updates:,} rows in PostgreSQL")
            accounts.update(number)
            accounts.drain("warm_up")
            taken, each = _measured(accounts, copies)
            rows.append(_row(world, what, taken))
            steps.append(_of_steps(what, each))
    yield Figures(f"Updates into a table of {world.scale.rows:,} rows", rows)
    yield from steps
    yield Figures("Peak memory, updates", memory.rows({}))


def _measured(
    accounts: Accounts, copies: Sequence[str]
) -> tuple[list[Taken], list[dict[str, float]]]:
    """Return what each copy's drain took, and its seconds per step."""
    taken, steps = [], []
    for copy in copies:
        taken.append(
            accounts.world.meter.take(lambda copy=copy: steps.append(_steps(accounts, copy)))
        )
    return taken, steps


def _of_steps(what: str, each: list[dict[str, float]]) -> Figures:
    names = dict.fromkeys(name for one in each for name in one)
    rows = [{"step": n, **spread([one.get(n, 0.0) for one in each])} for n in names]
    return Figures(f"Steps of the updates, {what}", rows)


def _steps(accounts: Accounts, copy: str) -> dict[str, float]:
    """Drain; seconds per step."""
    (batch,) = accounts.drain(copy)
    return {**batch.steps, "all else": batch.duration_seconds - sum(batch.steps.values())}


def _row(world: World, what: str, taken: list[Taken]) -> Row:
    seconds = [each.seconds for each in taken]
    return {
        "what": f"{world.scale.updates:,} updates, {what}",
        **spread(seconds),
        "CPU s": round(median(each.cpu_seconds for each in taken), 2),
        "events/s": round(world.scale.updates / median(seconds)),
        "goal": GOAL,
    }
