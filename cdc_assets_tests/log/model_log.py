"""A topic as lists, and generated logs of transactions in it as a connector may write them."""

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st

from cdc_assets.log.marks import LogRecord, Transaction

NOW = datetime(2026, 3, 1, tzinfo=UTC)
GAP = "gap"
TOMBSTONE = "tombstone"


@dataclass
class ModelLog:
    """A topic as lists: of records, tombstones and gaps; and how much of it can be seen."""

    partitions: dict[int, list] = field(default_factory=lambda: defaultdict(list))
    sizes: dict[str, int] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    ended: dict[str, int | None] = field(default_factory=dict)

    def at(self, partition, offset):
        found = self.partitions[partition][offset : self.ends[partition]]
        return next((record for record in found if isinstance(record, LogRecord)), None)

    def between(self, partition, start, end):
        found = self.partitions[partition][max(0, start) : min(end, self.ends[partition])]
        return tuple(record for record in found if isinstance(record, LogRecord))

    def load(self, spans):
        assert set(spans) <= set(self.ends)

    def counts(self, wanted):
        return {t.id: self.ended[t.id] for t in wanted if t.id in self.ended}

    def add(self, partition, transaction, place, time=NOW):
        log = self.partitions[partition]
        log.append(LogRecord(len(log), time, transaction, place))

    def merged(self, positions):
        """Places of each transaction below positions."""
        places = defaultdict(set)
        for partition, position in positions.items():
            for record in self.partitions[partition][:position]:
                if isinstance(record, LogRecord) and record.place is not None:
                    places[record.transaction.id].add(record.place)
        return places

    def halves(self, positions):
        """Transactions of which a reader would see a part."""
        return {
            id_
            for id_, places in self.merged(positions).items()
            if places != set(range(1, self.sizes[id_] + 1))
        }

    def is_cut_from_delete(self, partition, position):
        log = self.partitions[partition]
        return position < self.ends[partition] and log[position] == TOMBSTONE

    def see(self, ends, ended_ids):
        self.ends = dict(ends)
        self.ended = {id_: self.sizes[id_] for id_ in ended_ids}

    def see_all(self):
        self.see({p: len(log) for p, log in self.partitions.items()}, self.sizes)


@st.composite
def transactions(draw, count):
    """What a connector emits once: changes, rows between transactions, ends."""
    emitted, sizes = [], {}
    for number in range(draw(st.integers(1, 5))):
        last_commit, commit = 100 * number, 100 * number + 100
        for partition in draw(st.lists(st.integers(0, count - 1), max_size=4)):
            ahead = last_commit + draw(st.sampled_from([1, 1, 1, 250]))
            emitted.append(("row", partition, Transaction(f"rows read at {ahead}", (ahead,)), None))
        size = draw(st.sampled_from([1, 2, 3, 5, 40]))
        sizes[f"{number}"] = size
        partitions = draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=6))
        for place in range(1, size + 1):
            order = (commit - size + place - 1,) if number == 0 else (last_commit,)
            kind = draw(st.sampled_from(["change", "change", "delete"]))
            where = partitions[place % len(partitions)]
            emitted.append((kind, where, Transaction(f"{number}", order), place))
        emitted.append(("end", None, Transaction(f"{number}", ()), None))
    return emitted, sizes


@st.composite
def logs(draw, restarts=True, minutes=(0,)):
    """A log, and the ends of each partition and of the metadata after each thing sent.

    Args:
        draw: Hypothesis's.
        restarts: whether the connector sends some of it again.
        minutes: that may lie between two things that it sends.
    """
    count = draw(st.integers(1, 4))
    emitted, sizes = draw(transactions(count))
    log = ModelLog(sizes=sizes)
    again = draw(st.lists(st.integers(0, len(emitted)), max_size=2)) if restarts else []
    sent = list(emitted)
    for upto in again:
        begin = draw(st.integers(0, upto))
        sent = [*sent[:upto], *sent[begin:]]
    gap = st.tuples(
        st.integers(0, len(sent)),
        st.integers(0, count - 1),
        st.sampled_from([1, 2, 31, 32, 70, 200]),
    )
    for at, partition, length in sorted(draw(st.lists(gap, max_size=6)), reverse=True):
        sent.insert(at, ("gap", partition, length, None))
    for partition in range(count):
        log.partitions[partition] = []
    moments = [(dict.fromkeys(range(count), 0), frozenset())]
    time, pauses = NOW, st.sampled_from(minutes)
    for kind, partition, what, place in sent:
        ends, done = moments[-1]
        time += timedelta(minutes=draw(pauses) if len(minutes) > 1 else minutes[0])
        if kind == "end":
            moments.append((ends, done | {what.id}))
            continue
        if kind == "gap":
            log.partitions[partition] += [GAP] * what
        else:
            log.add(partition, what, place, time)
            log.partitions[partition] += [TOMBSTONE] if kind == "delete" else []
        moments.append((ends | {partition: len(log.partitions[partition])}, done))
    return log, moments


@st.composite
def visible(draw, moments):
    """Each partition, and the metadata, as of some moment of its own."""
    at = st.integers(0, len(moments) - 1)
    last = {p: moments[draw(at)][0][p] for p in moments[0][0]}
    return last, moments[draw(at)][1]
