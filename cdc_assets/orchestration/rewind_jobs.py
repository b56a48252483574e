"""Defines jobs that do what `cdc-assets history` and `rewind` do."""

# No `from __future__ import annotations`: Dagster reads the annotations of the bodies below.

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import dagster as dg

from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import CdcError
from cdc_assets.operate.discovery import find_table, replicated
from cdc_assets.operate.history import read_history
from cdc_assets.operate.rewind_goal import Goal
from cdc_assets.operate.services import Services
from cdc_assets.orchestration.failing import message_of
from cdc_assets.orchestration.keys import table_key
from cdc_assets.orchestration.people import people_job
from cdc_assets.orchestration.rewinding import Rewinding, hand_over, rewound
from cdc_assets.orchestration.rewound import SHOWN, history_table, observations
from cdc_assets.registry import Registry, TableEntry

REWIND: Final = "rewind"
HISTORY: Final = "history"


class RewindWish(dg.Config):
    """The options of a run of the job `rewind`.

    Attributes:
        table: ``[source.][schema.]table``.
        to: a snapshot, a time, offsets, or a tag that a rewind has left.
        undo: whether, instead, to return to what the last rewind replaced.
        forget: whether, instead, to drop the tags of what rewinds have replaced.
        all_shards: whether all other tables that are merged into the lake table go back, too.
        dry_run: whether only to say what would be done.
    """

    table: str
    to: str = ""
    undo: bool = False
    forget: bool = False
    all_shards: bool = False
    dry_run: bool = False


class HistoryWish(dg.Config):
    """The options of a run of the job `history`: one table; all of them if none is named."""

    table: str = ""
    limit: int = SHOWN


def rewind_job(config: ReplicationConfig, _: Registry) -> dg.JobDefinition:
    """Returns the job that rewinds a table as `cdc-assets rewind` does."""
    replication = config

    def take_back(context: dg.OpExecutionContext, config: RewindWish) -> None:
        services = Services(replication)
        with _failing(config.table):
            goal = _goal(config)
            wish = Rewinding(config.table, goal, config.dry_run)
            done = rewound(services, wish, context.log.info)
            if done.is_done and done.plan is not None:
                for each in observations(services, done.plan):
                    context.log_event(each)
                hand_over(replication, context.instance, done.plan.tables)

    about = (
        "Takes a table back to an earlier publish: rows and offsets together. It goes on from "
        "there by itself. `dry_run` says what would be done."
    )
    return people_job(config, REWIND, take_back, mode=REWIND, about=about)


def history_job(config: ReplicationConfig, _: Registry) -> dg.JobDefinition:
    """Returns the job that shows publishes on the assets as `cdc-assets history` prints them."""
    replication = config

    def show_history(context: dg.OpExecutionContext, config: HistoryWish) -> None:
        services, failed = Services(replication), list[str]()
        for entry in _wanted(services, config.table):
            try:
                lines = read_history(services, entry).lines(config.limit)
            except CdcError as error:
                failed.append(f"{entry.table}: {message_of(error)}")
                continue
            said = {"publishes": history_table(lines)}
            text = f"{entry.table}: its {len(lines)} newest publishes"
            context.log_event(
                dg.AssetObservation(table_key(replication, entry), text, metadata=said)
            )
        if failed:
            raise dg.Failure("; ".join(failed), allow_retries=False)

    about = "Shows a table's publishes on its asset, and to which of them it can go back."
    return people_job(config, HISTORY, show_history, mode=HISTORY, about=about)


def _wanted(services: Services, table: str) -> Sequence[TableEntry]:
    registry = services.registry.load()
    if table:
        return [find_table(services.config, registry, table)]
    return replicated(services.config, registry)


def _goal(wish: RewindWish) -> Goal | None:
    if wish.forget:
        return None
    return Goal(wish.to, undo=wish.undo, all_shards=wish.all_shards)


@contextmanager
def _failing(table: str) -> Iterator[None]:
    try:
        yield
    except CdcError as error:
        what = f"{table}: {message_of(error)}"
        raise dg.Failure(what, allow_retries=False) from None
