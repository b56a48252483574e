"""A few updates of a large table: rows marked as deleted, and files copied without them."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from cdc_assets.config import ReplicationConfig
from cdc_assets.config.layout import LayoutConfig
from cdc_assets.config.table import TableOverrides
from cdc_assets.schema.file_layout import DeleteMode
from cdc_assets_tests.bench.accounts import SOURCE, TABLE, drain, prepare_accounts
from cdc_assets_tests.bench.figures import Figures, Row, spread
from cdc_assets_tests.bench.world import World
from cdc_assets_tests.lake_view import read_table

UPDATES = 1_000


def measure(world: World) -> Iterator[Figures]:
    """The same updates into a table of each mode: scattered over it, and in one part of it."""
    accounts = prepare_accounts(world)
    configs = {mode: _in_mode(accounts.config, mode) for mode in DeleteMode}
    for mode, config in configs.items():
        world.say(f"filling a table: {mode}")
        drain(world, config, accounts.entry(mode.name.lower()))
    apart = world.scale.rows // UPDATES
    kinds = {
        "scattered": lambda n: f"WHERE aid % {apart} = {n}",
        "in one part": lambda n: f"WHERE aid BETWEEN {n * UPDATES + 1} AND {(n + 1) * UPDATES}",
    }
    rows = list[Row]()
    for kind, where in kinds.items():
        taken = {mode: list[dict[str, float]]() for mode in DeleteMode}
        for number in range(world.scale.repeats + 1):  # the first one warms up
            accounts.change(where(number))
            for mode, config in configs.items():
                entry = accounts.entry(mode.name.lower())
                used = world.meter.take(lambda c=config, e=entry: drain(world, c, e))
                table = read_table(config, entry.target)
                head = table.current_snapshot() if table else None
                said = head.summary if head else None
                written = int(said["added-files-size"] or 0) if said else 0
                figures = {"s": used.seconds, "cpu": used.cpu_seconds, "mb": written / 1e6}
                taken[mode].append(figures)
        rows += [_row(kind, mode, each[1:]) for mode, each in taken.items()]
    yield Figures(f"{UPDATES:,} updates into a table of {world.scale.rows:,} rows", rows)


def _row(kind: str, mode: DeleteMode, taken: list[dict[str, float]]) -> Row:
    return {
        "updates": kind,
        "mode": mode.value,
        **spread([each["s"] for each in taken]),
        "CPU s": round(median(each["cpu"] for each in taken), 2),
        "MB written": round(median(each["mb"] for each in taken), 2),
    }


def _in_mode(config: ReplicationConfig, mode: DeleteMode) -> ReplicationConfig:
    said = TableOverrides(layout=LayoutConfig(delete_mode=mode.value))
    source = config.source(SOURCE)
    tables = {**source.tables, f"public.{TABLE}": said}
    made = source.model_copy(update={"tables": tables})
    return config.model_copy(update={"sources": {**config.sources, SOURCE: made}})
