"""Detects that a source's positions start again lower: restored, upgraded by dump, RESETLOGS.

New changes then have positions that look old, and would be ignored. Two statements about one Kafka
partition distinguish them from redeliveries:

1. A change keeps its commit time, and a snapshot's row the time of its reading, however often
   it is delivered. So a record that is newer by this time than everything before it in its
   partition was not delivered there before. No clock has to be right for that.
2. Within one numbering a connector delivers in commit order. So a record that is delivered for
   the first time is not below a commit that came before it in its partition.

A record that is newer by time and lower by commit contradicts that, unless the numbering began
again: it is a *witness*. Records that do not satisfy the second statement are no witnesses: rows of
incremental snapshots, and changes of connectors that send no last commits at all, whose LSNs are
not in commit order.

A connector's first transaction has no last commit either. Its changes *float*: they are placed
where they were made, not where they were committed, or where the low watermark lifts them
(`cdc_assets.changes.position`). A transaction may be open while others commit, and while a
connector is recreated. But whoever changes a row, or truncates the table, waits for it to end. So
a floating change is not below one of its own key that was delivered before it, nor below a truncate
that was committed before it. Only contradicting this makes a floating change a witness.

Between partitions, a record counts as newer only if it was committed later by more than `CLOCK_MS`.
That is checked where positions of other partitions count: for truncates, and once keys have moved.

A person may accept one restart. The records that belong to it are then found in every partition,
since old records may still be unread there (`Restart.has_begun`), and the *epoch* rises from there
on: it is placed above the first number of a position (`cdc_assets.changes.position`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from cdc_assets.changes.position import Scheme, decode, epoch_bits

Commit = tuple[int, ...]
"""The numbers of a position that identify the commit: the epoch and the source's."""

CLOCK_MS: Final = 60_000
"""How far commit times may run against commits, if keys may have moved: clocks are set back."""

LEEWAY_MS: Final = 10_000
"""Least time from the last merged change to the first change of a restored source. A record with a
lower position that is newer by less is a redelivery, whose time a connector or a tool changed."""

APART_MS: Final = 1_000
"""Like `LEEWAY_MS`, with all clocks right: concurrent transactions take their times before they
commit. No source is restored in less."""

SKEW_MS: Final = 600_000
"""How far the server's clock after a restart may be behind the clock before the restart."""

COMMIT_NUMBERS: Final[Mapping[Scheme, int]] = {
    Scheme.POSTGRES: 1,
    Scheme.SQLSERVER: 2,
    Scheme.ORACLE: 1,
    Scheme.TRAIL: 2,
}
"""How many numbers identify the commit. Schemes not listed have no such restarts.

The binlog has epochs of its own (`cdc_assets.changes.numbering`), YugabyteDB's hybrid times
continue after a restore, and Kafka's offsets never go back.
"""


class NumberingPlace(NamedTuple):
    """A record's place in the numbering.

    Attributes:
        offset: in its Kafka partition.
        commit: of its position, lifted to the low watermark; None if it has no position.
        source_ms: the source's time of the commit, or of the reading; None if there is none.
        may_witness: whether it was delivered in commit order.
        floats: whether it belongs to a connector's first transaction.
        is_overtaken: whether it floats below an earlier change of its own key.
        is_truncate: whether it is a truncate.
    """

    offset: int
    commit: Commit | None
    source_ms: int | None
    may_witness: bool
    floats: bool = False
    is_overtaken: bool = False
    is_truncate: bool = False


@dataclass(frozen=True, slots=True)
class Restart:
    """A witness of a restart, and the state that it contradicts.

    Attributes:
        partition, offset: of the witness.
        before, before_ms: the highest commit and the newest time before it.
        after, after_ms: commit and time of the witness.
    """

    partition: int
    offset: int
    before: Commit
    before_ms: int
    after: Commit
    after_ms: int

    def has_begun(self, record: NumberingPlace) -> bool:
        """Whether a record belongs to the numbering after the restart.

        Old commits above ``after`` are not newer than ``before_ms``, and new ones below it are
        not older than the restart. Where commits cannot decide, the time must be beyond doubt.
        """
        if record.commit is None or record.source_ms is None:
            return False
        if record.commit <= self.after:
            return record.source_ms > self.before_ms
        if record.commit < self.before:
            return record.source_ms >= self.after_ms
        return record.source_ms > self.after_ms + SKEW_MS

    def to_list(self) -> list[object]:
        """Returns the content as a list, for JSON."""
        return [
            self.partition, self.offset, self.before, self.before_ms, self.after, self.after_ms,
        ]  # fmt: skip

    @classmethod
    def of_list(cls, said: list[Any]) -> Restart:
        """Reads what `to_list` returned."""
        partition, offset, before, before_ms, after, after_ms = said
        return cls(partition, offset, tuple(before), before_ms, tuple(after), after_ms)

    def describe(self, scheme: Scheme) -> str:
        """Describes both positions, as numbers, and both times; without values of rows."""
        before, after = (_numbers(scheme, commit) for commit in (self.before, self.after))
        return (
            f"commit {after} at {_time(self.after_ms)} follows commit {before} "
            f"and the time {_time(self.before_ms)}"
        )


def _numbers(scheme: Scheme, commit: Commit) -> str:
    """Formats a commit as the source counts: without the epoch."""
    own = (commit[0] & (1 << epoch_bits(scheme)) - 1, *commit[1:])
    return ":".join(str(number) for number in own)


def _time(source_ms: int) -> str:
    return datetime.fromtimestamp(source_ms / 1000, UTC).isoformat(timespec="milliseconds")


@dataclass(frozen=True, slots=True)
class MergedState:
    """The state merged before a batch, as far as restarts are concerned.

    Attributes:
        highest: highest commit by partition; a missing partition had no change yet.
        newest_ms: by partition, a time that no record exceeds; missing likewise.
        highest_of_all: the commit that the whole table is compared with; None without one.
        newest_of_all_ms: the time that the whole table is compared with; None without one.
        truncated: commit of the last truncate; None without one.
        keys_stay: whether a redelivery goes to the same partition.
        apart_ms: by how much a witness must be newer than everything before it in its partition.
            The module's rule needs 0; but with several partitions, nobody knows whether keys
            moved before the first batch.
    """

    highest: Mapping[int, Commit] = field(default_factory=dict[int, Commit])
    newest_ms: Mapping[int, int] = field(default_factory=dict[int, int])
    highest_of_all: Commit | None = None
    newest_of_all_ms: int | None = None
    truncated: Commit | None = None
    keys_stay: bool = True
    apart_ms: int = 0


def witness(partition: int, records: Iterable[NumberingPlace], seen: MergedState) -> Restart | None:
    """Returns a partition's first record that contradicts earlier records; None if none does.

    Args:
        partition: of the records.
        records: in offset order, with the epochs that are known.
        seen: the state before them.
    """
    highest, newest = seen.highest.get(partition), seen.newest_ms.get(partition)
    truncated: Commit = ()
    for record in records:
        if record.commit is None:
            continue
        found = _contradiction(partition, record, seen, highest, newest, truncated)
        if found is not None:
            return found
        is_low = highest is not None and record.commit < highest
        if record.source_ms is not None and not is_low:
            newest = max(newest or 0, record.source_ms)
        highest = max(highest or record.commit, record.commit)
        if record.is_truncate:
            truncated = max(truncated, record.commit)
    return None


def _contradiction(
    partition: int,
    record: NumberingPlace,
    seen: MergedState,
    highest: Commit | None,
    newest: int | None,
    truncated: Commit,
) -> Restart | None:
    commit, source_ms = record.commit, record.source_ms
    if commit is None or source_ms is None:
        return None
    if seen.keys_stay and highest is not None and newest is not None:
        if _is_low(record, commit, highest, truncated) and source_ms > newest + seen.apart_ms:
            return Restart(partition, record.offset, highest, newest, commit, source_ms)
    above: Commit = seen.highest_of_all or ()
    if highest is not None and not seen.keys_stay:
        above = max(above, highest)
    times = [each for each in (newest, seen.newest_of_all_ms) if each is not None]
    is_low = _is_low(record, commit, above, max(seen.truncated or (), truncated))
    if not (times and above and is_low) or source_ms <= max(times) + CLOCK_MS:
        return None
    return Restart(partition, record.offset, above, max(times), commit, source_ms)


def _is_low(record: NumberingPlace, commit: Commit, highest: Commit, truncated: Commit) -> bool:
    if record.floats:
        return record.is_overtaken or commit < truncated
    return record.may_witness and commit < highest


def begin(
    partition: int, records: Sequence[NumberingPlace], accepted: Restart, seen: MergedState
) -> int | None:
    """Returns the offset of a partition's first record in the numbering after a restart.

    A restart accepted in one partition says too little about another one that is read later: its
    old records may be above everything known then. Its own witness says more.
    """
    own = witness(partition, records, seen)
    return min(
        (
            each.offset
            for restart in (accepted, own)
            if restart is not None
            for each in records
            if restart.has_begun(each)
        ),
        default=None,
    )


def newest_after(
    latest_ms: Mapping[int, int], source_ms: int | None, *, is_ordered: bool
) -> Mapping[int, int]:
    """Returns, by partition, times that no record of a batch exceeds.

    Args:
        latest_ms: by partition, the newest time among the newest changes of rows, which is cheap to
            find. No other record is newer as long as times run with positions.
        source_ms: the newest time of all records.
        is_ordered: whether times run with positions, but for `APART_MS`.
    """
    if source_ms is None:
        return {}
    return {
        p: min(source_ms, at + APART_MS) if is_ordered else source_ms for p, at in latest_ms.items()
    }


@dataclass(frozen=True, slots=True)
class Restarts:
    """The state of restarts, which each publish stores for the next.

    Attributes:
        newest_ms: by partition, a time that no record merged so far exceeds.
        epochs: by partition, the offset where each epoch begins, ascending, and the epoch.
        accepted: the restarts that people have accepted: that of epoch 1, of epoch 2 …
    """

    newest_ms: Mapping[int, int] = field(default_factory=dict[int, int])
    epochs: Mapping[int, Sequence[tuple[int, int]]] = field(
        default_factory=dict[int, Sequence[tuple[int, int]]]
    )
    accepted: tuple[Restart, ...] = ()

    def pending(self, partition: int) -> Restart | None:
        """Returns the next accepted restart that has not begun in a partition yet."""
        begun = self.epochs.get(partition, ())
        epoch = begun[-1][1] if begun else 0
        return self.accepted[epoch] if epoch < len(self.accepted) else None

    def all_pending(self, partitions: int) -> Mapping[int, Restart]:
        """Returns the pending restart of each partition that has one."""
        found = {p: self.pending(p) for p in range(partitions)}
        return {p: each for p, each in found.items() if each is not None}

    def begun(self, partition: int, offset: int) -> Restarts:
        """Returns the state with the partition's next epoch begun."""
        before = tuple(self.epochs.get(partition, ()))
        epoch = before[-1][1] + 1 if before else 1
        return replace(self, epochs={**self.epochs, partition: (*before, (offset, epoch))})

    def used(self) -> Restarts:
        """Returns the state without an accepted restart that has begun nowhere."""
        epochs = (begun[-1][1] for begun in self.epochs.values() if begun)
        return replace(self, accepted=self.accepted[: max(epochs, default=0)])

    def met_from(self, start: Mapping[int, int], scheme: Scheme) -> tuple[Restart, ...]:
        """Returns the accepted restarts that a reading from these offsets on meets, as it sees it.

        Args:
            start: by partition.
            scheme: of the positions: those of a table that begins behind a restart lack its epoch.
        """
        begun = [(p, at, epoch) for p, each in self.epochs.items() for at, epoch in each]
        behind = {epoch for p, at, epoch in begun if at <= start.get(p, 0)}
        ahead = {epoch for p, at, epoch in begun if at > start.get(p, 0)}
        numbered = enumerate(self.accepted, 1)
        met = tuple(each for number, each in numbered if number not in behind - ahead)
        more = len(self.accepted) - len(met) << epoch_bits(scheme)
        return tuple(
            replace(
                each,
                before=(each.before[0] - more, *each.before[1:]),
                after=(each.after[0] - more, *each.after[1:]),
            )
            for each in met
        )

    def read(self, newest_ms: Mapping[int, int]) -> Restarts:
        """Returns the state after a batch with these times, see `newest_after`."""
        newest = {p: max(at, self.newest_ms.get(p, at)) for p, at in newest_ms.items()}
        return replace(self, newest_ms={**self.newest_ms, **newest})

    def to_json(self) -> str:
        """Returns text; it grows with partitions and restarts, not with changes."""
        document = {
            "newest_ms": {str(p): at for p, at in sorted(self.newest_ms.items())},
            "epochs": {str(p): list(each) for p, each in sorted(self.epochs.items())},
            "accepted": [each.to_list() for each in self.accepted],
        }
        return json.dumps(document, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Restarts:
        """Reads what `to_json` wrote; the empty text gives an empty state."""
        if not text:
            return cls()
        said = json.loads(text)
        epochs = said["epochs"].items()
        return cls(
            newest_ms={int(p): at for p, at in said["newest_ms"].items()},
            epochs={int(p): tuple((at, epoch) for at, epoch in each) for p, each in epochs},
            accepted=tuple(Restart.of_list(each) for each in said["accepted"]),
        )


@dataclass(frozen=True, slots=True)
class Permit:
    """A person's acceptance of one restart.

    Attributes:
        epoch: the epoch that it raises to. It counts while the table has all epochs below it and
            not this one, so that it serves one restart and can be given twice.
        restart: the restart that was seen.
        generation: the number of rebuilds of the table that it was given for. A rebuilt table may
            begin behind the restart, and would take the next one for it.
    """

    epoch: int
    restart: Restart
    generation: int = 0

    def to_json(self) -> str:
        """Returns text."""
        return json.dumps(self.to_dict(), separators=(",", ":"))

    @staticmethod
    def all_to_json(permits: Iterable[Permit]) -> str:
        """Returns the text of several permits; empty for none."""
        said = [each.to_dict() for each in permits]
        return json.dumps(said, separators=(",", ":")) if said else ""

    @classmethod
    def all_from_json(cls, text: str) -> tuple[Permit, ...]:
        """Reads what `to_json` or `all_to_json` wrote; the empty text has none."""
        is_one = text.startswith("{")
        permits: list[dict[str, Any]] = json.loads(f"[{text}]" if is_one else text or "[]")
        return tuple(
            cls(each["epoch"], Restart.of_list(each["restart"]), each.get("generation", 0))
            for each in permits
        )

    def to_dict(self) -> dict[str, object]:
        """Returns the content for JSON."""
        restart = self.restart.to_list()
        return {"epoch": self.epoch, "restart": restart, "generation": self.generation}


def permitted(restarts: Restarts, permits: Iterable[Permit], generation: int) -> Restarts:
    """Returns the state with the restarts of permits accepted, but for those that are spent.

    Args:
        restarts: the state.
        permits: by their epochs, ascending.
        generation: the number of rebuilds of the table.
    """
    for each in permits:
        if (each.generation, each.epoch) == (generation, len(restarts.accepted) + 1):
            restarts = replace(restarts, accepted=(*restarts.accepted, each.restart))
    return restarts


def commit_of(scheme: Scheme, position: str) -> Commit | None:
    """Returns the commit of a position given as hexadecimal text; None if it is empty."""
    numbers = decode(bytes.fromhex(position))
    return numbers[: COMMIT_NUMBERS[scheme]] or None
