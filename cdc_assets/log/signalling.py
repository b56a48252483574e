"""Sends signals to a connector in its topic, and reads its answers from its notifications' topic.

No state is kept here: callers give the offsets from which to read.
https://debezium.io/documentation/reference/3.6/configuration/signalling.html
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from cdc_assets.changes.json_text import read_object
from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.effects import effect
from cdc_assets.errors import OutcomeUnknownError, TerminalError
from cdc_assets.log.errors import place_of, translate
from cdc_assets.log.kafka import KafkaLog
from cdc_assets.log.notices import Notice
from cdc_assets.log.signal_channel import SignalChannel
from cdc_assets.log.values import RawRecord, Watermarks

_SECONDS: Final = 20
_PRODUCER: Final[Mapping[str, Any]] = {
    "acks": "all", "message.timeout.ms": _SECONDS * 1000, "log_level": 2,
}  # fmt: skip
_PARTITION: Final = 0
"""The only partition that the connector reads."""
_RECENT: Final = 1_000
"""Number of records in each partition of the notifications that are searched for a running
snapshot."""
_PLAIN: Final = re.compile(r"([^\w.])")


@dataclass(frozen=True, slots=True)
class Signal:
    """One signal.

    Attributes:
        id: distinguishes it from others.
        type: the action that it asks for.
        collections: the tables that it is about; none for all of a snapshot.
    """

    id: str
    type: str
    collections: tuple[str, ...] = ()

    def to_json(self) -> str:
        """Returns JSON for the connector, which without ``data`` would stop reading signals."""
        listed = [_PLAIN.sub(r"\\\1", each) for each in self.collections]
        data: dict[str, Any] = {"type": "INCREMENTAL"}
        data |= {"data-collections": listed} if listed else {}
        return json.dumps({"id": self.id, "type": self.type, "data": data})


@dataclass(frozen=True, slots=True)
class SignalEnds:
    """The ends of a channel's topics."""

    signals: int
    notices: OffsetVector


class Signalling:
    """One connector's signals and notifications.

    Args:
        log: to read with.
        conf: of the cluster, as librdkafka has it, secrets revealed.
        channel: of the connector.
        notice_of: reads a notification; None for another one.
    """

    def __init__(
        self,
        log: KafkaLog,
        conf: Mapping[str, Any],
        channel: SignalChannel,
        notice_of: Callable[[RawRecord], Notice | None],
    ) -> None:
        self._log = log
        self._conf = conf
        self._notice_of = notice_of
        self.channel = channel

    def ends(self) -> SignalEnds:
        """Returns the present ends of both topics; notifications that were never written end at 0.

        Raises:
            TerminalError: if there is no topic of signals.
        """
        channel = self.channel
        marks = self._log.watermarks([channel.signals, channel.notices])
        if channel.signals not in marks:
            what = f"connector {channel.connector} reads its signals from a topic that is not there"
            remedy = "create it with one partition, and restart the connector: it looks only then"
            raise TerminalError(what, where=f"topic={channel.signals}", remedy=remedy)
        notices = marks[channel.notices].end if channel.notices in marks else OffsetVector()
        return SignalEnds(marks[channel.signals].end.get(_PARTITION), notices)

    def send(self, signals: Sequence[Signal]) -> None:
        """Sends signals, in their order.

        Raises:
            OutcomeUnknownError: if Kafka did not confirm them.
            UnreachableError: if it does not answer, or refuses.
        """
        failed: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failed.append(error)

        topic, servers = self.channel.signals, place_of(self._conf)
        with effect("kafka: send signals"):
            try:
                producer = Producer({**self._conf, **_PRODUCER})
                for each in signals:
                    producer.produce(
                        topic, key=self.channel.prefix, value=each.to_json(),
                        partition=_PARTITION, on_delivery=delivered,
                    )  # fmt: skip
                left = producer.flush(_SECONDS + 5)
            except KafkaException as error:
                raise translate(error, servers) from error
        if left or any(each.code() == KafkaError._MSG_TIMED_OUT for each in failed):  # noqa: SLF001
            what = "Kafka did not confirm a signal: it is unknown whether the connector gets it"
            remedy = "run the same command again: it looks first"
            raise OutcomeUnknownError(what, where=f"topic={topic}", remedy=remedy)
        if failed:
            raise translate(KafkaException(failed[0]), servers)

    def is_sent(self, signal: str, since: int) -> bool:
        """Whether a signal is in its topic, from an offset on."""
        topic = self.channel.signals
        marks = self._log.watermarks([topic]).get(topic)
        if marks is None:
            return False
        start = _starts(marks, OffsetVector.of({_PARTITION: since})).get(_PARTITION)
        found = self._log.part({(topic, _PARTITION): (start, None)})
        return any(read_object(each.value).get("id") == signal for each in found)

    def notices(self, since: OffsetVector) -> tuple[tuple[Notice, ...], OffsetVector]:
        """Returns the notices from these offsets on, in order, and the next offsets to read."""
        topic = self.channel.notices
        marks = self._log.watermarks([topic]).get(topic)
        if marks is None:
            return (), since
        return self._between(_starts(marks, since), marks.end), marks.end

    def recent(self, until: OffsetVector) -> tuple[Notice, ...]:
        """Returns the last notices before some offsets."""
        topic = self.channel.notices
        marks = self._log.watermarks([topic]).get(topic)
        if marks is None:
            return ()
        since = OffsetVector.of({p: max(offset - _RECENT, 0) for p, offset in until})
        return self._between(_starts(marks, since), until)

    def _between(self, start: OffsetVector, end: OffsetVector) -> tuple[Notice, ...]:
        """Reads and orders notices by the connector's clock: one signal's are in one partition."""
        ranges, topic = start.ranges_to(end), self.channel.notices
        records = self._log.part({(topic, r.partition): (r.start, r.end) for r in ranges})
        notices = (
            (each.coordinate, notice)
            for each in records
            if each.value and (notice := self._notice_of(each)) is not None
        )
        in_order = sorted(notices, key=lambda each: (each[1].at_ms, each[0].offset))
        return tuple(notice for _, notice in in_order)


def _starts(marks: Watermarks, since: OffsetVector) -> OffsetVector:
    """Returns the first offset to read of each partition.

    A partition that ends before that belongs to a topic that was recreated: all of it is read.
    """
    reached = OffsetVector.of({p: at for p, at in since if at <= marks.end.get(p)})
    return OffsetVector.of({p: max(begin, reached.get(p)) for p, begin in marks.begin})
