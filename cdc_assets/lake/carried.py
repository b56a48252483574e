"""Carries the state that a table's next batch needs from earlier batches, as one versioned value.

It is stored with each publish, in the snapshot itself, and nowhere else. A reader uses a default
for a field that an older version did not write. A field that must not be ignored is listed in
``needs``: a reader that does not know it refuses the whole value.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from cdc_assets.changes.missing import MOST, Missing
from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.changes.position import LowWatermarks
from cdc_assets.errors import TerminalError
from cdc_assets.lake.packed import PACKED
from cdc_assets.lake.shadow_progress import ShadowProgress

PROPERTY: Final = "carried"

LastRecords = Mapping[int, tuple[int, int]]
"""By partition, the offset of a record and its digest."""


@dataclass(frozen=True, slots=True)
class SideMark:
    """A snapshot of a side table, whose entries count. None: none count.

    ``table`` is the side table's name; empty for the side table that the lake table's name implies.
    A rebuilt table continues with the side table of its rebuild.
    """

    snapshot: int | None = None
    table: str = ""


@dataclass(frozen=True, slots=True)
class Carried:
    """The state that is carried from batch to batch.

    Attributes:
        applied: per partition, the highest position applied, hexadecimal.
        partitions: the topic's number of partitions at the table's first publish;
            ``partitions_seen`` at the newest publish that took everything there was.
        settles_at: ends of the log when the table was begun, up to which a key may have changes in
            two partitions, as partitions may have been added before; None once they are reached.
        settled_at: the highest position applied when they were reached, hexadecimal: from it on all
            changes of a key are in one partition. Empty before, for topics of one partition, and
            in what older versions have published, whose tables settle as new ones do.
        key_schemas: numbers of the schemas that the keys of the newest batch's records had, see
            `cdc_assets.formats.format.Format.key_schema`; empty if they were not watched.
        snapshot_starts: the begins of complete snapshots, see
            `cdc_assets.changes.position.low_watermark_at`.
        max_tombstone: the highest position of a remembered delete, hexadecimal.
        max_truncate: the highest position of a truncate, hexadecimal: older rows are gone for good.
        numbering: of the source's positions, see `cdc_assets.changes.restarts` and, for binlogs,
            `cdc_assets.changes.numbering`.
        side: of the side table, see `cdc_assets.lake.side`; None if it was published by a version
            that did not write it, which counted everything in the side table.
        generation: the number of rebuilds of the table.
        filled: the additions of columns whose older rows have their value, see
            `cdc_assets.schema.types.Existing`.
        read_at: for a table that was read from its source as a whole, a position, hexadecimal:
            changes at or below it are in the rows that were read, and never applied; else empty.
        read_from: offsets of its topic, changes before which are never applied: they are also in
            the rows that were read, or the table begins there, as one that is built from a new
            snapshot does, and one whose name another table had before. None for no such changes.
        own_from: for a table that was read from its source, the offsets of its topic before which
            other changes than its own come; None if there are none, or nobody knows. For other
            tables ``read_from`` tells.
        shadow: progress of a shadow table that is read from the source; None for other tables.
        missing: the rejected records below its offsets. None if these are unknown, because an older
            version has published or there were too many: then all records in quarantine between the
            table's beginning and its offsets count.
        last_merged: per partition the offset of the last record that was merged and seen, and a
            digest of the record, see `cdc_assets.log.values.RawRecord.digest`: another digest shows
            a log that was cut back and has grown again. Partitions without a known record are left
            out.
        at_source: the source's table as the rebuild knew it that was swapped in, until the lake
            table's properties say it, see `cdc_assets.lake.at_source`; else empty.
    """

    applied: Mapping[int, str] = field(default_factory=dict[int, str])
    partitions: int = 0
    partitions_seen: int = 0
    settles_at: OffsetVector | None = None
    settled_at: str = ""
    key_schemas: tuple[int, ...] = ()
    snapshot_starts: LowWatermarks = field(default_factory=dict[int, Sequence[tuple[int, int]]])
    max_tombstone: str = ""
    max_truncate: str = ""
    numbering: str = ""
    side: SideMark | None = None
    generation: int = 0
    filled: tuple[str, ...] = ()
    read_at: str = ""
    read_from: OffsetVector | None = None
    own_from: OffsetVector | None = None
    shadow: ShadowProgress | None = None
    missing: Missing | None = None
    last_merged: LastRecords = field(default_factory=dict[int, tuple[int, int]])
    at_source: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def own_beginning(self) -> OffsetVector | None:
        """The table's first offsets in its topic, behind other changes; None if all are its own."""
        return self.own_from if self.read_at else self.read_from

    def begun_behind(self, log_begin: OffsetVector) -> OffsetVector | None:
        """Returns the table's beginning, if its topic still holds other changes before; else None.

        A rebuild starts from these offsets.

        Args:
            log_begin: the topic's first offsets.
        """
        own, begin = self.own_beginning, log_begin.as_dict()
        return own if own and any(at > begin.get(p, 0) for p, at in own) else None

    def to_json(self, needs: Sequence[str] = ()) -> str:
        """Returns canonical text.

        Args:
            needs: names of further features of the publish that a reader must know.
        """
        document: dict[str, Any] = {
            "needs": list(needs),
            "applied": _by_partition(self.applied),
            "partitions": self.partitions,
            "partitions_seen": self.partitions_seen,
            "snapshot_starts": _by_partition({p: [*s] for p, s in self.snapshot_starts.items()}),
            "max_tombstone": self.max_tombstone,
            "max_truncate": self.max_truncate,
            "numbering": self.numbering,
            "generation": self.generation,
        }
        if self.settles_at is not None:
            document["settles_at"] = _by_partition(self.settles_at.as_dict())
        if self.settled_at:
            document["settled_at"] = self.settled_at
        if self.key_schemas:
            document["key_schemas"] = list(self.key_schemas)
        if self.filled:
            document["filled"] = list(self.filled)
        if self.read_at:
            document["read_at"] = self.read_at
        if self.read_from is not None:
            document["read_from"] = _by_partition(self.read_from.as_dict())
        if self.own_from is not None:
            document["own_from"] = _by_partition(self.own_from.as_dict())
        if self.missing is not None and len(self.missing) <= MOST:
            document["missing"] = self.missing.to_dict()
        if self.last_merged:
            document["last_merged"] = _by_partition({p: [*r] for p, r in self.last_merged.items()})
        if self.shadow is not None:
            document["beside"] = self.shadow.to_dict()
            document["needs"].append("beside")
        if self.at_source:
            document["at_source"] = dict(self.at_source)
            document["needs"].append("at_source")
        if self.side is not None:
            document["side"] = {"snapshot": self.side.snapshot, "table": self.side.table}
        return json.dumps(document, separators=(",", ":"), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Carried:
        """Reads the state written by this version, an older or a newer one.

        Raises:
            TerminalError: if a newer version wrote a field that must not be ignored.
        """
        said: dict[str, Any] = json.loads(text)
        unknown = sorted(set(said.get("needs", ())) - KNOWN)
        if unknown:
            what = f"a newer version of cdc_assets has published with {', '.join(unknown)}"
            raise TerminalError(
                what, remedy="upgrade this installation to that version", page="newer-version"
            )
        return cls(
            applied=_of_partitions(said.get("applied", {})),
            partitions=said.get("partitions", 0),
            partitions_seen=said.get("partitions_seen", 0),
            settles_at=OffsetVector.of(_of_partitions(said["settles_at"]))
            if "settles_at" in said
            else None,
            settled_at=said.get("settled_at", ""),
            key_schemas=tuple(said.get("key_schemas", ())),
            snapshot_starts=_starts(said.get("snapshot_starts", {})),
            max_tombstone=said.get("max_tombstone", ""),
            max_truncate=said.get("max_truncate", ""),
            numbering=said.get("numbering", ""),
            side=SideMark(**said["side"]) if "side" in said else None,
            generation=said.get("generation", 0),
            filled=tuple(said.get("filled", ())),
            read_at=said.get("read_at", ""),
            read_from=_offsets(said.get("read_from")),
            own_from=_offsets(said.get("own_from")),
            shadow=ShadowProgress.from_dict(said["beside"]) if "beside" in said else None,
            missing=Missing.from_dict(said["missing"]) if "missing" in said else None,
            last_merged=_records(said.get("last_merged", {})),
            at_source=said.get("at_source", {}),
        )

    @classmethod
    def from_0_1(cls, get: Mapping[str, str]) -> Carried:
        """Reads a publish of version 0.1.0, which wrote a property for each field."""
        return cls(
            applied=_of_partitions(json.loads(get.get("applied", "{}"))),
            partitions=int(get.get("partitions", 0)),
            partitions_seen=int(get.get("partitions-seen", 0)),
            snapshot_starts=_starts(json.loads(get.get("read-floors", "{}"))),
            max_tombstone=get.get("tombstones", ""),
            max_truncate=get.get("truncated", ""),
            numbering=get.get("numbering", ""),
        )


SHARDS: Final = "shards"
"""The need to know that several source tables have their rows and state in one lake table."""

KNOWN: Final = frozenset(Carried.__dataclass_fields__) - {"shadow"} | {"beside", SHARDS, PACKED}
"""The fields and additional needs that this version supports."""


def _by_partition(values: Mapping[int, Any]) -> dict[str, Any]:
    return {str(partition): value for partition, value in values.items()}


def _of_partitions(said: Mapping[str, Any]) -> dict[int, Any]:
    return {int(partition): value for partition, value in said.items()}


def _offsets(said: Mapping[str, Any] | None) -> OffsetVector | None:
    return None if said is None else OffsetVector.of(_of_partitions(said))


def _starts(said: Mapping[str, Any]) -> LowWatermarks:
    return {int(p): tuple((begin, lsn) for begin, lsn in each) for p, each in said.items()}


def _records(said: Mapping[str, Any]) -> LastRecords:
    return {int(partition): (at, digest) for partition, (at, digest) in said.items()}
