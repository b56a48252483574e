"""Finds the topic of transaction metadata that tells where a table's transactions end."""

from __future__ import annotations

from cdc_assets.log.kafka import KafkaLog
from cdc_assets.log.kinds import TopicKind
from cdc_assets.log.transactions import TransactionLog
from cdc_assets.merge.intake.planning.configured import Configured
from cdc_assets.registry import TableEntry


class TransactionTopics:
    """The topics of transaction metadata. The kind of each that was examined is remembered.

    Args:
        configured: the tables.
        log: Kafka.
    """

    def __init__(self, configured: Configured, log: KafkaLog) -> None:
        self._configured = configured
        self._log = log
        self._kinds: dict[str, TopicKind] = {}

    def of(self, entry: TableEntry) -> TransactionLog | None:
        """Returns the transactions of a table; None if no topic tells about them.

        Nor does one for a topic of several tables, whose records are counted for each of them.

        Raises:
            CdcError: if Kafka does not answer.
        """
        topic = None if entry.is_shared else self._topic(entry)
        if topic is None:
            return None
        qualified, marks = entry.at_source.qualified, self._configured.format(entry)
        return self._log.transactions((entry.topic, topic), qualified, marks)

    def _topic(self, entry: TableEntry) -> str | None:
        """Returns the topic of transaction metadata; one that could be a table's is examined."""
        fmt, name = self._configured.format(entry), entry.at_source.qualified
        found = fmt.topics.transaction_topics(entry.topic, name, self._log.topics())
        doubtful = [each for each in found if fmt.topics.table_of(each, entry.table.source)]
        if not doubtful:
            return found[0] if found else None
        unknown = [each for each in doubtful if each not in self._kinds]
        self._kinds |= self._log.kinds(unknown, fmt.kind) if unknown else {}
        tables = {each for each in doubtful if self._kinds.get(each) is TopicKind.CHANGES}
        return next((each for each in found if each not in tables), None)
