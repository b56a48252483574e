"""Lists a table's publishes, and decides to which of them the table can be rewound.

A rewind to a publish is possible if merging from there gives the same rows as the log: the log
still holds all later records, the side table's snapshot of that time is kept, and everything that
was merged since can be read from the log again, unlike records from the quarantine or of another
shard. `unrestored` counts the publishes that merging the log again does not restore. A rewind to a
publish before a rebuild or a renaming is refused, so that those are never among them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from cdc_assets.changes.offsets import Coordinate, OffsetVector
from cdc_assets.changes.publish_kind import PublishKind
from cdc_assets.errors import TerminalError
from cdc_assets.operate.known_tables import replicated
from cdc_assets.registry import TableEntry

if TYPE_CHECKING:
    from cdc_assets.lake.past import KeptPublish, Past
    from cdc_assets.lake.properties import Published
    from cdc_assets.lake.side import SideState
    from cdc_assets.log.values import TopicIdentity, Watermarks
    from cdc_assets.operate.services import Services


_NAMES: Final[Mapping[str, str]] = {
    PublishKind.REPLAY: "replays",
    PublishKind.REPAIR: "repairs",
    PublishKind.RESNAPSHOT: "waves of a re-snapshot",
}

_NO_TOPIC: Final = "its topic does not exist any more"
_ANOTHER_LOG: Final = "its offsets are those of another topic or cluster of this name"


@dataclass(frozen=True, slots=True)
class RewoundPublishes:
    """Publishes of one kind and table that the log alone does not bring back.

    Attributes:
        kind: a `PublishKind`, or one that this version does not know.
        table: the table that they belong to, or the shard if it is not replicated any more.
        publishes: how many there are.
    """

    kind: str
    table: str
    publishes: int

    @property
    def count_text(self) -> str:
        """Counts them, as ``2 replays``."""
        return f"{self.publishes} {_NAMES.get(self.kind, f'publishes of kind {self.kind}')}"

    def words(self) -> str:
        """Says how many are taken back, and what brings their rows back."""
        lost = f"{self.count_text} of {self.table} are taken back"
        once = f"{lost}, whose rows the log may not have: once the table has caught up,"
        match self.kind:
            case PublishKind.REPLAY:
                return f"{lost}: if they mended rows, merge their hours once more"
            case PublishKind.RESNAPSHOT:
                return f"{once} cdc-assets resnapshot --table {self.table}"
            case _:
                return f"{once} cdc-assets verify --repair --table {self.table}"

    def to_dict(self) -> dict[str, Any]:
        """Returns it for ``--json``."""
        return {"kind": str(self.kind), "table": self.table, "publishes": self.publishes}


def unrestored(
    publishes: Iterable[tuple[str, str]], tables: Mapping[str, str]
) -> tuple[RewoundPublishes, ...]:
    """Returns which publishes the log alone does not bring back.

    Args:
        publishes: kind and shard of each that is taken back.
        tables: the tables by their shards.
    """
    counts = Counter(each for each in publishes if each[0] != PublishKind.TAIL)
    return tuple(
        RewoundPublishes(kind, tables.get(shard, f"shard {shard}"), count)
        for (kind, shard), count in sorted(counts.items())
    )


class Reachability(StrEnum):
    """A publish's relation to the table's present state."""

    CURRENT = "current"
    """Its rows are the table's present rows."""
    REACHABLE = "can be rewound to"
    BARRED = "cannot be rewound to"


@dataclass(frozen=True, slots=True)
class PublishLine:
    """One publish of a table.

    Attributes:
        snapshot: the snapshot that it wrote.
        at: when the snapshot was written, aware.
        published: its properties.
        standing: its relation to the table's present state.
        why: the obstacle to a rewind; empty if there is none.
        tag: the tag of the rewind that replaced it; empty if it is in ``main``'s ancestry.
        loses: what a rewind to it takes back that merging the log again does not restore.
    """

    snapshot: int
    at: datetime
    published: Published
    standing: Reachability
    why: str = ""
    tag: str = ""
    loses: tuple[RewoundPublishes, ...] = ()

    def words(self) -> str:
        """Says whether the table can be rewound to it, and what that takes back."""
        lost = ", ".join(each.count_text for each in self.loses)
        takes_back = f"takes back {lost}" if lost else ""
        return ": ".join(filter(None, (self.standing.value, self.why or takes_back)))

    def to_dict(self) -> dict[str, Any]:
        """Returns the publish for ``--json``."""
        said = self.published
        return {
            "snapshot": self.snapshot,
            "at": self.at.isoformat(timespec="milliseconds"),
            "published_at": said.published_at.isoformat(timespec="milliseconds"),
            "kind": said.kind,
            "attempt": said.attempt,
            "run": said.run,
            "from": offsets_dict(said.start),
            "to": offsets_dict(said.offsets),
            "counts": dict(said.counts),
            "standing": self.standing.value,
            "why": self.why,
            "loses": [each.to_dict() for each in self.loses],
            "replaced_by_rewind": self.tag,
        }


def offsets_dict(vector: OffsetVector) -> dict[str, int]:
    """Returns by partition the next offset to read, for ``--json``."""
    return {str(partition): offset for partition, offset in vector}


@dataclass(frozen=True, slots=True)
class RewindConditions:
    """The facts that decide whether a table can be rewound.

    Attributes:
        entry: the table.
        marks: the log's bounds; None if the topic does not exist.
        identity: the topic's identity; None if the topic does not exist.
        sides: by name, the side tables that publishes name; None for one that is gone.
        quarantined: the coordinates of its records in quarantine.
    """

    entry: TableEntry
    marks: Watermarks | None
    identity: TopicIdentity | None
    sides: Mapping[str, SideState | None]
    quarantined: Collection[Coordinate]

    def quarantined_since(self, beyond: OffsetVector) -> int:
        """Returns the number of records in quarantine at or after offsets."""
        return len(self.quarantined) - self._before(beyond)

    def obstacle(self, to: Published | None, now: Published, since: Sequence[Published]) -> str:
        """Says why the table cannot be rewound; empty if it can.

        Args:
            to: the table's publish at the target; None if it had none yet.
            now: the table's last publish.
            since: the table's publishes in ``main``'s ancestry but not in the target's.
        """
        if to is None:
            return self._beginning_gone(now)
        return (
            self._other_table(to, now)
            or self._log_gone(to.offsets)
            or self._side_gone(to)
            or self._left_quarantine(to, since)
        )

    def _other_table(self, to: Published, now: Published) -> str:
        if to.carried.shadow is not None:
            return "its rows were not read to the end from the source yet"
        if self.marks is None or self.identity is None:
            return _NO_TOPIC
        if to.topic != self.entry.topic:
            return f"it was merged from {to.topic}, which the table had before it was renamed"
        if not self._is_of_log(to):
            return _ANOTHER_LOG
        if to.carried.generation != now.carried.generation:
            return "the table was rebuilt since; its former rows have the tag before_rebuild_<n>"
        return ""

    def _log_gone(self, offsets: OffsetVector) -> str:
        if self.marks is None:
            return _NO_TOPIC
        begin, end = self.marks.begin, self.marks.end
        gone = [f"{p}:[{offsets.get(p)},{at})" for p, at in begin if at > offsets.get(p)]
        if gone:
            return f"the log no longer holds {' '.join(gone)}"
        beyond = [f"{p}:{at}" for p, at in offsets if at > end.get(p)]
        return f"the log ends before {' '.join(beyond)}" if beyond else ""

    def _beginning_gone(self, now: Published) -> str:
        """Says why the log no longer gives all rows of a table that had none at the target."""
        gone = [f"{p}:[0,{at})" for p, at in self.marks.begin if at] if self.marks else []
        if self.marks is None or gone:
            return f"it had no rows there, and the log no longer holds {' '.join(gone) or 'them'}"
        return "" if self._is_of_log(now) else _ANOTHER_LOG

    def _is_of_log(self, said: Published) -> bool:
        identity = self.identity
        mine = (identity.topic_id, identity.cluster_id) if identity else None
        return (said.topic_id, said.cluster_id) == mine

    def _side_gone(self, to: Published) -> str:
        from cdc_assets.lake.side import side_of

        mark = to.carried.side
        if mark is None:
            return "an older version published it, which did not say what was remembered of deletes"
        if mark.snapshot is None:
            return ""
        name = side_of(self.entry.stem, mark)
        side = self.sides.get(str(name))
        if side is None:
            return f"the side table {name} is gone, which remembers deletes"
        try:
            side.readable(mark)
        except TerminalError:
            return f"snapshot {mark.snapshot} of the side table {name} is gone"
        return ""

    def _left_quarantine(self, to: Published, since: Sequence[Published]) -> str:
        """Finds records that left the quarantine since, and would not be read again."""
        then, now = to.counts.get("quarantined", 0), self._before(to.offsets)
        if then == now and not (then and any(each.kind == PublishKind.REPLAY for each in since)):
            return ""
        return (
            "records left the quarantine since, or came into it by a replay, that lie before its "
            "offsets: they would not be merged again; go further back"
        )

    def _before(self, offsets: OffsetVector) -> int:
        topic = self.entry.topic
        mine = (each for each in self.quarantined if each.topic == topic)
        return sum(each.offset < offsets.get(each.partition) for each in mine)


@dataclass(frozen=True, slots=True)
class TableHistory:
    """A table's past, with the facts that decide about rewinds.

    Attributes:
        entry: the table.
        past: the result of one look at the lake.
        facts: those of the table and of all tables that are merged into the same lake table.
    """

    entry: TableEntry
    past: Past
    facts: tuple[RewindConditions, ...]

    def lines(self, limit: int) -> tuple[PublishLine, ...]:
        """Returns the newest publishes, and at most as many that rewinds have replaced."""
        found = [(each, "") for each in self.past.line if self._is_of_table(each)][:limit]
        seen = set[int]()
        for tag, kept in self.past.rewound.items():
            mine = [e for e in kept if self._is_of_table(e) and e.snapshot not in seen]
            seen.update(each.snapshot for each in mine)
            found += [(each, tag) for each in mine]
        return tuple(self._line(*each) for each in found[: 2 * limit])

    def obstacle(self, snapshot: int, publish: KeptPublish, *, all_shards: bool = False) -> str:
        """Says why the table cannot be rewound to a snapshot; empty if it can.

        Args:
            snapshot: the snapshot to which ``main`` would be set.
            publish: the newest publish in its ancestry.
            all_shards: whether all other tables that are merged into the lake table go back, too.
        """
        since = [each.published for each in self.past.since(snapshot)]
        now = self.past.line[0].published if self.past.line else publish.published
        if not all_shards and (moved := self._others_moved(publish.published, now)):
            return moved
        for facts in self.facts:
            shard = facts.entry.shard_value
            if facts.entry.table != self.entry.table and not all_shards:
                continue
            mine, last = publish.published.of_shard(shard), now.of_shard(shard)
            if last is None:
                continue
            own = [each for each in since if each.shard == shard]
            if why := facts.obstacle(mine, last, own):
                return why if len(self.facts) == 1 else f"{facts.entry.table}: {why}"
        return ""

    def record_of_table(self, publish: KeptPublish) -> Published | None:
        """Returns a publish's properties of this table."""
        return publish.published.of_shard(self.entry.shard_value)

    def loses(self, snapshot: int) -> tuple[RewoundPublishes, ...]:
        """Returns what a rewind to a snapshot takes back that the log alone does not restore."""
        gone = ((e.published.kind, e.published.shard) for e in self.past.since(snapshot))
        tables = {each.entry.shard_value: str(each.entry.table) for each in self.facts}
        return unrestored(gone, tables)

    def own_facts(self) -> RewindConditions:
        """Returns the facts of the table itself."""
        return next(each for each in self.facts if each.entry.table == self.entry.table)

    def _others_moved(self, to: Published, now: Published) -> str:
        mine = self.entry.shard_value
        before, after = _attempts(to, mine), _attempts(now, mine)
        moved = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
        if not moved:
            return ""
        return (
            f"other tables that are merged into {self.entry.target} have published since (shards "
            f"{', '.join(moved)}), and would go back with it; with --all-shards they do"
        )

    def _is_of_table(self, each: KeptPublish) -> bool:
        return each.published.shard == self.entry.shard_value

    def _line(self, each: KeptPublish, tag: str) -> PublishLine:
        why = self.obstacle(each.snapshot, each)
        standing = Reachability.BARRED if why else Reachability.REACHABLE
        if not tag and self.past.is_at(each.snapshot):
            standing, why = Reachability.CURRENT, ""
        loses = self.loses(each.snapshot) if standing is Reachability.REACHABLE else ()
        return PublishLine(each.snapshot, each.at, each.published, standing, why, tag, loses)


def read_history(services: Services, entry: TableEntry) -> TableHistory:
    """Reads the lake, Kafka and the quarantine. Does not need Spark.

    Raises:
        TerminalError: if nothing was published of the table yet.
        UnreachableError: if one of them does not answer.
    """
    past = services.lake.past(entry.target)
    if past is None or not (past.line or past.rewound):
        what = "nothing was published of the table yet"
        raise TerminalError(what, where=f"table={entry.table}", remedy="materialize it")
    entries = [entry]
    if entry.shard is not None:
        known = replicated(services.config, services.registry.load())
        entries += [e for e in known if e.target == entry.target and e.table != entry.table]
    return TableHistory(entry, past, _facts(services, entries, past))


def _facts(
    services: Services, entries: Sequence[TableEntry], past: Past
) -> tuple[RewindConditions, ...]:
    from cdc_assets.lake.quarantined import QuarantineLake

    topics = [each.topic for each in entries]
    marks, identities = services.log.watermarks(topics), services.log.identity(topics)
    lake = QuarantineLake(services.config)
    return tuple(
        RewindConditions(
            entry=each,
            marks=marks.get(each.topic),
            identity=identities.get(each.topic),
            sides=_sides(services, each, past),
            quarantined=lake.coordinates(each.table.source, each.table.qualified),
        )
        for each in entries
    )


def _sides(services: Services, entry: TableEntry, past: Past) -> dict[str, SideState | None]:
    from cdc_assets.lake.side import side_of

    kept = [*past.line, *(each for line in past.rewound.values() for each in line)]
    said = (each.published.of_shard(entry.shard_value) for each in kept)
    marks = {each.carried.side for each in said if each and each.carried.side}
    names = {side_of(entry.stem, mark) for mark in marks if mark.snapshot is not None}
    return {str(name): services.lake.side(name) for name in names}


def _attempts(said: Published, mine: str) -> dict[str, str]:
    """Returns by shard the attempt of the newest publish, for the other shards."""
    others = said.others_than(mine)
    return {name: values.get("attempt", "") for name, values in others.items()}
