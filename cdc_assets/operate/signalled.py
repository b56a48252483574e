"""Pauses, resumes and stops the incremental snapshots that connectors make.

It sends a signal, and waits for the connector's answer. A connector pauses all tables of its
snapshot, not a single one; it stops each table individually.

A connector notices that a snapshot is to be stopped when it reads the next chunk, which a paused
one never does. So a stop is followed by a resume, which reads a chunk; and by a pause, if the other
tables of the snapshot were paused before.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Final

from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.errors import TransientError
from cdc_assets.formats.signalling import signalling_of
from cdc_assets.log.notices import Phase, TableSnapshot
from cdc_assets.log.signalling import Signal, Signalling
from cdc_assets.operate.services import Services
from cdc_assets.operate.steering import Done, Order, Say, Steered, each_of
from cdc_assets.registry import TableEntry

_POLL_SECONDS: Final = 0.5
_PAUSE: Final = "pause-snapshot"
_RESUME: Final = "resume-snapshot"
_STOP: Final = "stop-snapshot"
_NONE: Final = "no snapshot of it is under way, as far as its connector has said"


class Action(StrEnum):
    """An action on a snapshot that is under way."""

    PAUSE = "pause"
    RESUME = "resume"
    STOP = "stop"


def signals_for(
    action: Action, snapshot: TableSnapshot, new_id: Callable[[], str]
) -> tuple[Signal, ...]:
    """Returns the signals to send, in this order; none if they would change nothing."""
    if not snapshot.is_under_way:
        return ()
    is_paused = snapshot.phase is Phase.PAUSED
    pause, resume = Signal(new_id(), _PAUSE), Signal(new_id(), _RESUME)
    match action:
        case Action.PAUSE:
            return () if is_paused else (pause,)
        case Action.RESUME:
            return (resume,) if is_paused else ()
        case Action.STOP:
            stop = Signal(new_id(), _STOP, (snapshot.collection,))
            again = (pause,) if is_paused and snapshot.waiting else ()
            return (stop, resume, *again)


def steer_snapshots(
    services: Services, entries: Iterable[TableEntry], action: Action, order: Order, say: Say
) -> Steered:
    """Makes connectors pause, resume or stop tables' snapshots, and waits for their answers."""

    def one(entry: TableEntry) -> Done:
        signalling = signalling_of(services.config, services.log, entry)
        at, snapshot = _now(signalling, entry)
        signals = signals_for(action, snapshot, lambda: f"cdc-assets-{uuid.uuid4()}")
        if not signals:
            return Done(entry, changed=False, words=_unchanged(action, snapshot))
        told = f"{_done(action, signalling)}"
        if order.dry_run:
            return Done(entry, changed=True, words=f"would be {told}")
        signalling.send(signals)
        seconds = services.config.source(entry.table.source).resnapshot.answer_seconds
        ended = _answered(signalling, snapshot, at, action, seconds, entry)
        if action is Action.STOP:
            services.resnapshots.forget_signal(entry.table)
        if ended.phase is Phase.DONE:
            return Done(entry, changed=False, words="its snapshot was done before the signal came")
        return Done(entry, changed=True, words=told)

    return each_of(entries, f"resnapshot --{action}", order, one, say)


def _now(signalling: Signalling, entry: TableEntry) -> tuple[OffsetVector, TableSnapshot]:
    at, channel = signalling.ends().notices, signalling.channel
    snapshot = TableSnapshot(channel.prefix, channel.collection_of(entry))
    for notice in signalling.recent(at):
        snapshot = snapshot.after(notice)
    return at, snapshot


def _answered(
    signalling: Signalling,
    snapshot: TableSnapshot,
    at: OffsetVector,
    action: Action,
    seconds: float,
    entry: TableEntry,
) -> TableSnapshot:
    wanted = {Action.PAUSE: Phase.PAUSED, Action.RESUME: Phase.RUNNING, Action.STOP: Phase.STOPPED}
    ends = time.monotonic() + seconds
    while not (snapshot.is_over or snapshot.phase is wanted[action]):
        if time.monotonic() >= ends:
            what = f"the connector has not answered the signal to {action} for {seconds:g} s"
            remedy = "see whether it runs: it answers when it does"
            raise TransientError(what, where=f"table={entry.table}", remedy=remedy)
        time.sleep(_POLL_SECONDS)
        notices, at = signalling.notices(at)
        for notice in notices:
            snapshot = snapshot if snapshot.is_over else snapshot.after(notice)
    return snapshot


def _unchanged(action: Action, snapshot: TableSnapshot) -> str:
    if not snapshot.is_under_way:
        return _NONE
    return "its snapshot is paused already" if action is Action.PAUSE else "its snapshot runs"


def _done(action: Action, signalling: Signalling) -> str:
    name = signalling.channel.connector
    match action:
        case Action.PAUSE:
            return (
                f"paused, with all that connector {name} reads by a snapshot; changes go on, and a "
                "restart of the connector ends it"
            )
        case Action.RESUME:
            return f"resumed, with all that connector {name} reads by a snapshot"
        case Action.STOP:
            return "stopped: the rows that were read stay as the snapshot has shown them"
