"""Finds the epochs of a topic: the places where the numbering of binlog files starts again.

After a failover, or after ``RESET BINARY LOGS``, a MySQL or MariaDB server numbers its binlog
files on its own: new changes have positions that look old. The *epoch* precedes the file number
in a position (`cdc_assets.changes.position.scheme`) and rises there, so that new changes are higher
again.

Debezium emits changes in binlog order. Hence, within one numbering, a change delivered for the
first time is above everything that its Kafka partition had before. A change that is not is either a
redelivery or the first one of another numbering. Two things distinguish them:

- *Lineage and serial*, which a change keeps wherever it is replicated to: of a GTID ``uuid:n``
  (MySQL) the uuid and n, of ``domain-server-seq`` (MariaDB) the domain and the sequence number;
  without a GTID the server that committed it, the files' base name and the place. Serials rise
  within a lineage, so a change above the highest serial so far was never delivered before. A
  transaction has one serial and many places: if it is the newest of all and one of its changes is
  outside its places seen so far, it was renumbered, and the rest of it comes now.
- *Time.* A redelivery keeps its time. A change later than all changes of the topic so far is new;
  so is a snapshot's row that was read after all snapshot rows so far. A reset takes a new snapshot,
  since it removes the connector's position. The snapshot is above everything that any partition had
  before it.

A restart concerns the whole source, and each partition of the topic reaches it separately. The
first partition that shows it gives the epoch. In all others the epoch begins, unless their own
records show it earlier, with the first record that was sent no earlier. One connector sends to all
of them, so Kafka's timestamps are those of one clock. After a reset, serials begin again in all of
them.

Guaranteed: a change delivered for the first time has a position above everything that its partition
had before, and after a known restart above everything that any partition had before it. Within one
numbering no epoch is raised, and a redelivered change keeps its position. Not guaranteed: a change
redelivered *out of another numbering* has another position than before, until its successors have
come again too.

Not detected: servers without GTIDs that replicate each other's changes (a chain), when the
connector moves from one to another; a failover in partitions where all new changes happen to be
numbered above the old ones, until another partition shows it; a reset while no partition has a
record later than its last by the source's clock; the rest of a transaction that two failovers cut,
or whose places happen to fall among those seen of it. The first transaction after that is detected
again.

https://dev.mysql.com/doc/refman/8.4/en/replication-gtids-concepts.html
https://mariadb.com/docs/server/ha-and-performance/standard-replication/gtid
"""

from cdc_assets.changes.numbering.records import BinlogRecord, Place, lineage_of
from cdc_assets.changes.numbering.scan import RestartSeenLateError, scan
from cdc_assets.changes.numbering.state import STAGES, Begin, Numbering, NumberingBegin

__all__ = [
    "STAGES",
    "Begin",
    "BinlogRecord",
    "Numbering",
    "NumberingBegin",
    "Place",
    "RestartSeenLateError",
    "lineage_of",
    "scan",
]
