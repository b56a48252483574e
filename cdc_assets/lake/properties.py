"""Records a publish in the properties of its own snapshot.

They are the only place where offsets are stored. A snapshot carries them in the same commit
that completes its rows, so that rows and offsets cannot diverge.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.changes.slo import SloWindow
from cdc_assets.lake.carried import PROPERTY as CARRIED
from cdc_assets.lake.carried import SHARDS, Carried
from cdc_assets.lake.packed import PACKED, pack, packed_values, unpack, unpacked_values

PREFIX: Final = "cdc-assets."
OFFSETS: Final = PREFIX + "offsets"
ATTEMPT: Final = PREFIX + "attempt"
MODE: Final = PREFIX + "mode"
"""Property of a table: its mode, if it does not hold its source's rows."""
WHERE: Final = PREFIX + "where"
"""Property of a table: the condition on the source's rows that all of its rows were chosen by."""
MIXED: Final = "mixed"
"""Its value once the configuration has had another condition: older rows obey the older one."""
ADOPTED: Final = PREFIX + "adopted"
"""Property of a table that another tool made: the name by which its adoption found it."""
_SHARD: Final = "shard"
_VALID_THROUGH: Final = "valid-through"
_OTHERS: Final = "other-shards"
_OTHERS_PACKED: Final = f"{PACKED}-{_OTHERS}"

OtherShards = Mapping[str, Mapping[str, str]]
"""The properties of each of the other shards' newest publishes, as text, by shard."""


def accepted_restart(shard: str) -> str:
    """Returns the name of the table property with a `cdc_assets.changes.restarts.Permit`.

    Args:
        shard: the shard that restarted; empty for a table with one source table.
    """
    return f"{PREFIX}accepted-restart{'.' if shard else ''}{shard}"


@dataclass(frozen=True, slots=True)
class Published:
    """The record of a publish.

    Attributes:
        offsets: next-to-read offset per partition, after this publish.
        start: the same before it. For a replay both are the vector that it left untouched.
        topic, topic_id, cluster_id: the log that the offsets belong to.
        attempt: unique per try; if it is found in ``main``'s ancestry, the try succeeded.
        run: the Dagster run, for people.
        kind: a `PublishKind`, or one that only a newer version knows.
        published_at: when the commit was written, aware.
        carried: the state that the next batch needs.
        counts: records, inserted, updated, deleted and others, of this publish.
        slo: latencies of the hours that the SLO covers, this publish included.
        shard: which of the tables that are merged into one it belongs to; empty for a single one.
        valid_through: a time by the source's clock before which everything committed there is in
            the table; None if nothing is proven.
        others: the records of the other shards: a snapshot contains the progress of all of them,
            so that none is lost when older snapshots expire.
    """

    offsets: OffsetVector
    start: OffsetVector
    topic: str
    topic_id: str
    cluster_id: str
    attempt: str
    run: str
    kind: str
    published_at: datetime
    carried: Carried = field(default_factory=Carried)
    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    slo: SloWindow = field(default_factory=SloWindow)
    shard: str = ""
    valid_through: datetime | None = None
    others: OtherShards = field(default_factory=dict[str, Mapping[str, str]])

    def of_shard(self, shard: str) -> Published | None:
        """Returns the record of a shard's newest publish up to this one; None without any."""
        if shard == self.shard:
            return self
        said = self.others.get(shard)
        if said is None:
            return None
        found = Published.from_properties({PREFIX + name: text for name, text in said.items()})
        return replace(found, shard=shard, others=self.others_than(shard))

    def others_than(self, shard: str) -> OtherShards:
        """Returns the other shards' records for the next publish of this shard."""
        others = dict(self.others)
        if self.shard:
            others[self.shard] = self._values()
        return {name: said for name, said in others.items() if name != shard}

    def to_properties(self) -> dict[str, str]:
        """Returns compact text properties, with our prefix."""
        values = packed_values(self._values())
        if self.shard:
            values[_SHARD] = self.shard
            values[_OTHERS_PACKED] = pack({name: dict(said) for name, said in self.others.items()})
        return {PREFIX + name: text for name, text in values.items()}

    def _values(self) -> dict[str, str]:
        through = self.valid_through
        return {
            **({_VALID_THROUGH: _iso(through)} if through else {}),
            "offsets": self.offsets.to_json(),
            "start": self.start.to_json(),
            "topic": self.topic,
            "topic-id": self.topic_id,
            "cluster-id": self.cluster_id,
            "attempt": self.attempt,
            "run": self.run,
            "kind": self.kind,
            "published-at": _iso(self.published_at),
            CARRIED: self.carried.to_json([SHARDS] if self.shard else []),
            "counts": json.dumps(dict(self.counts), separators=(",", ":"), sort_keys=True),
            "slo": self.slo.to_json(),
        }

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Published:
        """Reads what `to_properties` wrote, in this version or an older one.

        Raises:
            KeyError: if this is not the summary of one of our publishes.
            TerminalError: if a newer version wrote something that this one must not ignore.
            ValueError: if somebody has cut or changed it.
        """
        ours = (item for item in properties.items() if item[0].startswith(PREFIX))
        get = unpacked_values({key.removeprefix(PREFIX): text for key, text in ours})
        carried, others = get.get(CARRIED), get.get(_OTHERS_PACKED)
        return cls(
            offsets=OffsetVector.from_json(get["offsets"]),
            start=OffsetVector.from_json(get["start"]),
            topic=get["topic"],
            topic_id=get["topic-id"],
            cluster_id=get["cluster-id"],
            attempt=get["attempt"],
            run=get.get("run", ""),
            kind=get.get("kind", "tail"),
            published_at=datetime.fromisoformat(get["published-at"]),
            carried=Carried.from_0_1(get) if carried is None else Carried.from_json(carried),
            counts={name: int(n) for name, n in json.loads(get.get("counts", "{}")).items()},
            slo=SloWindow.from_json(get.get("slo", "{}")),
            shard=get.get(_SHARD, ""),
            valid_through=_time(get.get(_VALID_THROUGH)),
            others=json.loads(get.get(_OTHERS, "{}")) if others is None else unpack(others),
        )


def _iso(at: datetime) -> str:
    """Formats a time to the millisecond, rounded down."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds")


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
