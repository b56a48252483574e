"""Maintains lake tables, through an asset each."""

# No `from __future__ import annotations`: Dagster reads the annotations of the bodies below.

import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import dagster as dg

from cdc_assets.config import ReplicationConfig
from cdc_assets.effects import effect
from cdc_assets.errors import CdcError
from cdc_assets.operate.services import Clock, utc_now
from cdc_assets.orchestration import liveness
from cdc_assets.orchestration.failing import message_of
from cdc_assets.orchestration.keys import (
    MAINTENANCE,
    maintenance_key,
    maintenance_op,
    pool_name,
    spark_key,
    table_key,
)
from cdc_assets.orchestration.places import Place
from cdc_assets.orchestration.staying import gives_way, turns_of
from cdc_assets.orchestration.turns import RunIsOverError
from cdc_assets.registry import TableEntry

if TYPE_CHECKING:
    from cdc_assets.lake import Lake
    from cdc_assets.merge.upkeep import Done, Needs, Upkeep

BUDGET_SECONDS: Final = 60.0
"""How long a table's upkeep may take: nothing is merged meanwhile. The rest is done next time."""

Tables = tuple[TableEntry, ...]
"""The tables that are merged into one lake table."""

OnDone = Callable[["Done"], None]


class Wish(dg.Config):
    """The options of a maintenance run.

    Attributes:
        orphans: whether also to remove the files that no snapshot names.
        whole: whether to do everything needed, however long it takes and whoever waits.
        turn: number of the run, which decides where it begins.
    """

    orphans: bool = False
    whole: bool = False
    turn: int = 0


def by_target(entries: Iterable[TableEntry]) -> list[Tables]:
    """Groups tables by the lake table into which they are merged."""
    found = dict[object, list[TableEntry]]()
    for entry in entries:
        found.setdefault(entry.target, []).append(entry)
    return [tuple(each) for each in found.values()]


def maintenance_asset(
    config: ReplicationConfig, tables: Tables, on_done: OnDone | None = None
) -> dg.AssetsDefinition:
    """Returns the asset that maintains a lake table when materialized.

    Args:
        config: the configuration.
        tables: the tables that are merged into it.
        on_done: receives each finished step.
    """
    first, spark, replication = tables[0], spark_key(config), config
    spec = dg.AssetSpec(
        maintenance_key(config, first.target),
        deps=[table_key(config, each) for each in tables],
        group_name=MAINTENANCE,
        kinds={"spark", "iceberg"},
        description=(
            f"Upkeep of `{first.target}` and of what is remembered beside it: compaction, expiry "
            "of snapshots, manifests, branches that were left, and orphan files."
        ),
        metadata={"dagster/table_name": f"{config.lake.catalog.name}.{first.target}"},
    )

    @dg.multi_asset(
        name=maintenance_op(config, first.target),
        specs=[spec],
        pool=pool_name(config, first),
        required_resource_keys={spark},
    )
    def maintain(context: dg.AssetExecutionContext, config: Wish) -> dg.MaterializeResult[Any]:
        is_whole_run = getattr(context.resources, spark).is_side_by_side
        with liveness.at_work(context, replication, is_whole_run=is_whole_run):
            return _maintained(context, config)

    def _maintained(context: dg.AssetExecutionContext, wish: Wish) -> dg.MaterializeResult[Any]:
        step = context.op_execution_context.op.name
        turns = turns_of(context, config, getattr(context.resources, spark), may_stay=False)
        try:
            with turns.turn(step, first) as turn:
                place = turn.place
                upkeep = upkeep_of(config, tables, place.services.lake, place.session)
                begins, done = time.monotonic(), list["Done"]()

                def is_over() -> bool:
                    if wish.whole:
                        return False
                    is_late = time.monotonic() - begins >= BUDGET_SECONDS
                    return is_late or gives_way(context.instance, context.run)

                steps = upkeep.carry_out(orphans=wish.orphans, is_over=is_over, turn=wish.turn)
                with given_up_on_failure(place):
                    for each in steps:
                        done.append(each)
                        say = context.log.warning if each.left else context.log.info
                        say(words(each))
                        if on_done:
                            on_done(each)
                after = upkeep.needs()
            turns.leave(step, first)
        except RunIsOverError:
            what = f"{first.target}: the run was stopped before the table had its turn"
            raise dg.Failure(what, allow_retries=False) from None
        except CdcError as error:
            turns.leave(step, first)
            what = f"upkeep of {first.target}: {message_of(error)}"
            raise dg.Failure(what, {"kind": MAINTENANCE}, allow_retries=False) from None
        with effect("dagster: event"):
            return dg.MaterializeResult(metadata=_metadata(done, after))

    return maintain


@contextmanager
def given_up_on_failure(place: Place) -> Generator[None]:
    """Gives up a place's session if the block fails: it may be what failed, and others get it."""
    try:
        yield
    except Exception:
        place.forget()
        raise


def upkeep_of(
    config: ReplicationConfig,
    tables: Tables,
    lake: "Lake",
    session: Callable[[], Any],
    clock: Clock = utc_now,
) -> "Upkeep":
    """Returns the object that maintains a lake table."""
    from cdc_assets.merge.upkeep import Upkeep

    return Upkeep(config, tables, lake, session, clock)


def words(done: "Done") -> str:
    """Describes a finished step for people."""
    if done.left:
        return f"{done.name}: {done.task} left out: {done.left}"
    counts = ", ".join(f"{name} {n}" for name, n in done.counts.items() if n)
    return f"{done.name}: {done.task} in {done.seconds:.1f} s{': ' if counts else ''}{counts}"


def needed(needs: "Needs") -> str:
    """Describes a table's needs for people."""
    figures = needs.figures
    what = ", ".join(needs.tasks) or "nothing to do"
    return (
        f"{needs.name}: {what} ({figures.files} files of {figures.file_bytes / 1e6:.1f} MB, "
        f"{figures.tiny + figures.small} small in a partition; {figures.marked_share:.0%} of "
        f"{figures.rows} rows deleted; {figures.manifests} manifests; "
        f"{len(figures.history.snapshots)} snapshots, {len(needs.expirable)} may go; "
        f"{len(figures.dead_branches)} branches left; metadata of "
        f"{figures.metadata_bytes / 1e6:.2f} MB)"
    )


def _metadata(done: Sequence["Done"], after: Sequence["Needs"]) -> dict[str, Any]:
    target = after[0].figures if after else None
    seconds = dict[str, float]()
    for each in done:
        seconds[each.task] = seconds.get(each.task, 0.0) + each.seconds
    figures: dict[str, Any] = {} if target is None else {
        "files": target.files,
        "deleted_rows_percent": 100 * target.marked_share,
        "manifests": target.manifests,
        "snapshots": len(target.history.snapshots),
        "metadata_bytes": target.metadata_bytes,
    }  # fmt: skip
    return {
        "steps": dg.MetadataValue.md("\n".join(f"- {words(each)}" for each in done) or "none"),
        "seconds": sum(seconds.values()),
        **{f"seconds/{task}": spent for task, spent in seconds.items()},
        **figures,
    }


def no_session() -> Any:
    """Stands in for a session that is never needed.

    Raises:
        RuntimeError: always.
    """
    msg = "what is needed is told without Spark"
    raise RuntimeError(msg)
