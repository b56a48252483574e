"""Links messages to their entries in the reference, and holds the table of all errors.

The page ``docs/reference/errors.md`` is generated from `ERRORS`. An entry's id is its anchor, and
never changes. A message belongs to the first entry with a phrase of it; otherwise to the entry of
its error's class. The phrases are parts of the messages in the code, which a test compares.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from cdc_assets.errors import message_of

_PAGES: Final = "https://github.com/cdc-assets/cdc-assets/blob/main/docs/"


def page(path: str) -> str:
    """Returns the address of a page of the documentation, by the page's path below ``docs/``."""
    return _PAGES + path


def finding_page(name: str) -> str:
    """Returns the address of a finding's entry."""
    return page(f"reference/findings.md#{name}")


@dataclass(frozen=True, slots=True)
class ErrorEntry:
    """An entry of the reference of errors.

    Attributes:
        id: the anchor.
        means: the cause and its effect.
        remedy: the steps, in Markdown.
        phrases: parts of the messages; none if the entry is that of a class.
        kind: the name of the class; empty if messages decide.
    """

    id: str
    means: str
    remedy: str
    phrases: tuple[str, ...] = ()
    kind: str = ""


_REBUILD: Final = "[Rebuild the table](../how-to/tables/rebuild-a-table.md)"

ERRORS: Final = (
    # ── parts that do not answer ──────────────────────────────────────────────────────────────
    ErrorEntry(
        "kafka-silent", "Kafka did not answer, or its answer came too late.",
        "Check that the brokers run, and `kafka.bootstrap_servers`, listeners and login.",
        ("Kafka does not answer (", "Kafka did not answer within "),
    ),
    ErrorEntry(
        "partition-without-leader", "A partition of the topic has no leader.",
        "Start a broker that holds a replica of the partition.",
        ("a partition of ",),
    ),
    ErrorEntry(
        "connect-silent", "Kafka Connect did not answer.",
        "Check that the worker runs, and `sources.<name>.connect.url`.",
        ("Kafka Connect at ",),
    ),
    ErrorEntry(
        "database-refused", "The source's database refused the connection or the query.",
        "Check user, password, rights and database name in `database.dsn`.",
        ("the database refused (",),
    ),
    ErrorEntry(
        "spark-silent", "No Spark server answered at this address.",
        "Check that the server runs, and address and token. The local server's log is "
        "`.cdc/logs/spark.log`.",
        ("Spark does not answer (", "Spark cannot be connected to: "),
    ),
    ErrorEntry(
        "decode-jar", "Driver or executors of Spark lack `decode.jar`, or have that of another "
        "version.",
        "Start the server with the jars that `cdc-assets jars` prints, or set `spark.send_jar`. "
        "See [Run a Spark server](../how-to/run/run-a-spark-server.md).",
        (" of cdc-assets", "Spark has another build of "),
    ),
    ErrorEntry(
        "metadata-unreadable", "The table's metadata file exists, and its contents cannot be used: "
        "another writer changed the table, or the file was cut.",
        "Undo that change, or restore an older metadata file.",
        ("the lake's metadata of ",),
    ),
    ErrorEntry(
        "metadata-silent", "The catalog or the store did not return the table's metadata.",
        "Check that the catalog answers, and that the table's folder can be read.",
        ("cannot read the metadata of ",),
    ),
    ErrorEntry(
        "catalog-missing", "The file of a catalog in SQLite does not exist, and neither does its "
        "folder.",
        "Correct `lake.catalog.uri`, or create the folder. `cdc-assets stack up` creates that of "
        "the local stack.",
        ("the catalog's file does not exist, nor the folder for it",),
    ),
    ErrorEntry(
        "metadata-gone", "The catalog names a metadata file that does not exist.",
        "Restore the table's folder. To begin again, drop the table from the catalog: the next run "
        "creates it from its topic.",
        ("and its metadata file is gone",),
    ),
    # ── the log ───────────────────────────────────────────────────────────────────────────────
    ErrorEntry(
        "lost-beginning", "A new table's topic no longer begins at offset 0: rows would be "
        "missing.",
        "Have the connector take a snapshot of the table, then set `lost_start: accept`.",
        ("the log no longer holds its beginning: ",),
    ),
    ErrorEntry(
        "lost-hour", "A replay reads hours that the log no longer holds completely.",
        "Choose later hours.",
        ("the log may no longer hold the start of hour ",),
    ),
    ErrorEntry(
        "dropped-end-unknown", "An earlier build dropped a table of this name, and did not record "
        "the topic's id.",
        "In the registry's document, add `topic_id` to the table's `dropped` (the id that "
        "`kafka-topics --describe` prints). If the topic was recreated after the drop, remove "
        "`end` instead.",
        ("a dropped table of this name ended at offsets ",),
    ),
    ErrorEntry(
        "binlog-reset", "The binlog was reset, and changes from beyond the reset were merged "
        "before "
        "the reset was recognised.",
        f"{_REBUILD} from a new snapshot or from the source.",
        ("the binlog was reset before changes that are merged already",),
    ),
    ErrorEntry(
        "shared-position", "Different changes have one position in the binlog: MySQL compressed a "
        "transaction, or the connector for MySQL reads MariaDB 11.4 or later.",
        "Set `binlog_transaction_compression=OFF` for all sessions, or use the connector for "
        "MariaDB. Then [rebuild the table from a "
        "snapshot](../how-to/tables/rebuild-from-a-snapshot.md).",
        ("different changes have one place in the binlog",),
    ),
    ErrorEntry(
        "not-change-events", "None of the topic's first records is a change event of the source's "
        "format.",
        "Exclude the topic (`topics.exclude`), or correct the connector's `value.converter`.",
        ("of the topic's first ",),
    ),
    ErrorEntry(
        "record-too-large", "The record is larger than `batch.max_record_bytes`.",
        "Raise the limit if Spark has the memory: see "
        "[Replicate large records](../how-to/tables/replicate-large-records.md).",
        (" (batch.max_record_bytes)",),
    ),
    ErrorEntry(
        "quarantine-full", "So many records are rejected that a common cause is likely.",
        "List the reasons with `cdc-assets quarantine list`, correct the cause, or raise "
        "`quarantine.max_records` or `quarantine.max_bytes`.",
        ("record(s) are in quarantine, more than ", "bytes of records would be in quarantine, "),
    ),
    ErrorEntry(
        "truncate-in-partitions", "The topic has several partitions, its changes have no position, "
        "and a truncate's place among them is unknown.",
        f"{_REBUILD}.",
        ("a truncate in a topic of several partitions whose changes have no position",),
    ),
    # ── the source's tables ───────────────────────────────────────────────────────────────────
    ErrorEntry(
        "recreated-table", "Another table has the name at the source now. The lake's rows may be "
        "those of the first one.",
        "Follow [Handle renamed or recreated "
        "tables](../how-to/tables/handle-renamed-or-recreated-tables.md).",
        ("the table was dropped and recreated", "another table was given its name"),
        "AnotherTableError",
    ),
    ErrorEntry(
        "statement-unreadable", "A statement on the table cannot be parsed, and may have renamed "
        "columns.",
        "Compare the columns: `cdc-assets schema diff TABLE`. If none was renamed, run "
        f"`cdc-assets accept-restart TABLE`. Otherwise: {_REBUILD}.",
        ("a statement cannot be read, which may have renamed columns",),
    ),
    ErrorEntry(
        "statements-cut-back", "A broker lost the end of the topic of statements, and none of the "
        "known statements is left.",
        "Compare the columns: `cdc-assets schema diff TABLE`. If none was renamed, and the table "
        f"was not recreated, run `cdc-assets accept-restart TABLE`. Otherwise: {_REBUILD}.",
        ("its topic of statements was cut back, and none of those known before is left",),
    ),
    # ── columns ───────────────────────────────────────────────────────────────────────────────
    ErrorEntry(
        "columns-in-doubt", "Records have a column that the database lacks, or the reverse. Both "
        "may be the same column under two names.",
        "Say which columns were dropped: `tables.<schema.table>.absent_columns`. See "
        "[Columns that records lack](sources/postgresql.md#columns-that-records-lack).",
        (", which the database no longer has, and it ", " is lacking: whether that "),
    ),
    ErrorEntry(
        "columns-missing", "Records lack a column of which the table has values.",
        "Have the connector send the column again. Or name it under `absent_columns`, which "
        "empties it.",
        ("columns of the table are missing from records: ", "a record lacks column "),
    ),
    ErrorEntry(
        "columns-inexact", "The lake cannot store a column's type exactly. The message has the "
        "reason for each column.",
        "Give the column a type under `tables.<schema.table>.columns`, or exclude it. See "
        "[Types](types.md).",
        ("columns cannot be stored exactly: ",),
    ),
    ErrorEntry(
        "columns-changed", "The source's columns have changed in a way that would lose data, or "
        "that `schema_changes` forbids.",
        "Print the differences: `cdc-assets schema diff TABLE`. Then choose in "
        "[Follow column changes](../how-to/tables/follow-column-changes.md).",
        ("the source's columns have changed: ",),
    ),
    ErrorEntry(
        "older-rows-unknown", "A column was added with a value for existing rows, which neither "
        "the catalog nor a statement reports.",
        "Set the value: `tables.<schema.table>.columns.<column>.existing`. See [New columns and "
        "older rows](../how-to/tables/follow-column-changes.md#new-columns-and-older-rows).",
        (" was added with a value for the rows that are older, ",),
    ),
    ErrorEntry(
        "column-confused", "Two columns have had one name, so it is unknown which of them a value "
        "belongs to.",
        f"{_REBUILD}.",
        (" was dropped and added again: ", " has the former name of another column: "),
    ),
    ErrorEntry(
        "withheld-renamed", "An excluded or masked column is missing, and a new column has "
        "appeared: "
        "it may be the same column.",
        "Exclude or mask the new name as well. If the old column was dropped, remove its entry.",
        ("the configuration withholds: it may be that by another name",),
    ),
    ErrorEntry(
        "column-type-unknown", "The source has a column that no record has yet, and records carry "
        "no schema.",
        "Set the type under `tables.<schema.table>.columns`, or configure `database:`.",
        ("the source has a column ",),
    ),
    ErrorEntry(
        "salt-changed", "The table's digests were made with another salt, or none.",
        "Restore the salt, or run `cdc-assets rebuild TABLE`, which makes all digests again.",
        ("the table was made with another salt, or none, of: ",),
    ),
    # ── keys and repeats ──────────────────────────────────────────────────────────────────────
    ErrorEntry(
        "added-partitions", "Kafka's offsets alone order the table's changes, and changes of one "
        "key "
        "are in two partitions.",
        "Follow [Add partitions](../how-to/tables/add-partitions.md).",
        ("changes of one key are in two partitions",), "MovedKeysError",
    ),
    ErrorEntry(
        "keyless-missing-row", "A table without a key lacks a part of its log.",
        f"{_REBUILD}.",
        ("deleted or updated row(s) are not in the lake",), "MissingRowError",
    ),
    ErrorEntry(
        "keyless-repeat", "A table without a key cannot distinguish a repeated row from an equal "
        "one, as its records lack transaction metadata.",
        "Set the connector's `provide.transaction.metadata=true`. See "
        "[Tables without a key](sources/postgresql.md#tables-without-a-key).",
        ("created row(s) have the position and the content of another one: ",),
    ),
    ErrorEntry(
        "keyless-replay", "Rows of a table without a key are counted, so merging them again would "
        "count them twice.",
        f"{_REBUILD}.",
        ("a table without a key is not replayed: ",),
    ),
    ErrorEntry(
        "keyless-positions", "The table has no primary key, and its events have no position that "
        "would show repeats.",
        "Name key columns under `tables.<schema.table>.primary_key`, or use a source with "
        "positions.",
        ("the table has no primary key, and its events have no position that shows repeats",),
    ),
    ErrorEntry(
        "renumbered-transaction", "A redelivery renumbered the events of a transaction, so repeats "
        "cannot be recognised.",
        "Set the connector's `provide.transaction.metadata=true`, and rebuild the table.",
        (" have one number in one transaction: a redelivery renumbered it",),
    ),
    # ── the lake table ────────────────────────────────────────────────────────────────────────
    ErrorEntry(
        "newer-version", "A newer version of cdc_assets has written the table.",
        "Upgrade this installation.",
        ("a newer version of cdc_assets has published with ",),
    ),
    ErrorEntry(
        "side-table-gone", "A side table in `cdc_assets_tombstones`, or one of its snapshots, was "
        "removed.",
        f"{_REBUILD}. Exclude the namespace `cdc_assets_tombstones` from other tools' expiry.",
        ("the side table ", " of the side table, which this table needs, is gone"),
    ),
    ErrorEntry(
        "fixed-at-creation", "`deletes` or `mode` differs from the table's own, which is fixed at "
        "creation.",
        "Restore the setting, or rebuild the table. Reset a history: `cdc-assets reset`.",
        ("the table was made with deletes: ", "the table was made with mode: "),
    ),
    ErrorEntry(
        "history-without-key", "`mode: history` needs a key.",
        "Name one (`primary_key`), or use `mode: changelog`.",
        ("the table has no key, and versions are those of a key's row",),
    ),
    ErrorEntry(
        "foreign-table", "Another table exists under the target's name.",
        "Change `target`, or take the table over: `cdc-assets adopt`.",
        ("the lake table exists but was not made by cdc_assets, or for other source tables",),
    ),
    ErrorEntry(
        "lost-offsets", "All snapshots with offsets were expired, and so were the metadata files "
        "that list them.",
        f"{_REBUILD}. Limit other tools' expiry: see "
        "[Maintain tables](../how-to/run/maintain-tables.md).",
        ("the lake table lost its offsets: ",),
    ),
    ErrorEntry(
        "being-rebuilt", "A rebuild of the table has begun and has not ended.",
        "Continue with `cdc-assets rebuild TABLE`, or end it with `--abandon`.",
        ("the table is being rebuilt, ",),
    ),
    ErrorEntry(
        "assessed", "`assess` found that the table's rows would be wrong or missing.",
        "The message names the finding: see [Findings](findings.md). The table continues once the "
        "cause is gone.",
        ("assessed before its first batch: ",),
    ),
    ErrorEntry(
        "spark-failed", "A statement failed on Spark. The message has Spark's error condition.",
        "See the Spark server's log.",
        ("Spark failed at: ",),
    ),
    ErrorEntry(
        "registry-unreadable", "The registry's document is damaged, or was written by another "
        "version.",
        "Restore the document from a backup. Read "
        "[Files](environment.md#files-of-the-registry) before deleting it.",
        ("the registry is not readable as one", "the registry has version "),
    ),
    ErrorEntry(
        "directives-elsewhere", "Requests to pause, drop or reset tables are in a folder that "
        "belongs to no registry. Nothing is merged meanwhile.",
        "Move the documents to the folder that the message names.",
        ("document(s) of tables' directives are no registry's own",),
    ),
    # ── this machine ──────────────────────────────────────────────────────────────────────────
    ErrorEntry(
        "port-taken", "Another program listens on a port of the local stack.",
        "Stop that program, or change `stack.ports`, and `kafka.bootstrap_servers` with it. For "
        "Dagster: `make demo PORT=3001`.",
        (", is taken by ",),
    ),
    ErrorEntry(
        "other-settings", "A part of this folder's local stack was started by another "
        "configuration "
        "with the same `home`.",
        "Give each configuration its own `home` and `stack.ports`, or stop the other one with the "
        "command in the message.",
        (" of this folder runs with other settings: ",),
    ),
    ErrorEntry(
        "settings-in-use", "The configuration has changed while clients use the part.",
        "Wait until they disconnect, or run `cdc-assets stack down`.",
        (" runs with the settings from before, and is in use: ",),
    ),
    ErrorEntry(
        "not-stopped", "`stack down` leaves parts of another configuration running.",
        "Name that configuration, or add `--force`.",
        ("not stopped: ",),
    ),
    ErrorEntry(
        "demo-running", "A demo already runs in this folder.",
        "Use that demo, or stop it.",
        ("a demo runs here already: ",),
    ),
    ErrorEntry(
        "pieces-missing", "The JVM pieces of a part are not installed.",
        "Run `cdc-assets stack install`. Finished downloads are kept. To use a mirror, set "
        "`CDC_ASSETS_MAVEN_REPOSITORY`.",
        (" are not installed, or not those of its manifest", "could not download for "),
    ),
    ErrorEntry(
        "local-data-damaged", "Data of the local stack is damaged, or belongs to another password.",
        "Run the command in the message. It removes all local data.",
        (" is damaged: ", " does not take the password of the local stack"),
    ),
    # ── kinds: what any other message of this class means ─────────────────────────────────────
    ErrorEntry(
        "unset-variable", "This process lacks an environment variable or a file with a secret.",
        "Export the variable where Dagster and the command start, or make the file readable.",
        kind="UnsetVariableError",
    ),
    ErrorEntry(
        "config", "The configuration or an option is wrong. The message names file, line and key.",
        "Correct the key, then run `cdc-assets config check`. All keys: "
        "[Configuration](configuration.md).",
        kind="ConfigError",
    ),
    ErrorEntry(
        "login-refused", "A part answered, and refused the login or its rights.",
        "Renew the password, token or certificate, or grant the right. The next attempt reads "
        "secrets and certificates again.",
        kind="LoginRefusedError",
    ),
    ErrorEntry(
        "hung", "A step exceeded `batch.statement_seconds` or `batch.table_seconds` and was ended.",
        "Look at the Spark server. If such a step may take that long, raise the limit. Other "
        "tables "
        "of the run continue.",
        kind="HungError",
    ),
    ErrorEntry(
        "unreachable", "A part did not answer. The message names the part and its address.",
        "Check that the part runs. The table is retried automatically.",
        kind="UnreachableError",
    ),
    ErrorEntry(
        "conflict", "Two writers met, and the other one committed first. Nothing is lost.",
        "None. If it recurs, look for another writer, such as maintenance in a tight loop.",
        kind="ConflictError",
    ),
    ErrorEntry(
        "cut-short", "A batch ended within a transaction or another unit.",
        "None. The next batch reads further.",
        kind="CutShortError",
    ),
    ErrorEntry(
        "transient", "Something passed that a second attempt does not meet.",
        "None. The table is retried automatically.",
        kind="TransientError",
    ),
    ErrorEntry(
        "lost-range", "The log lost records before they were merged. The message names the "
        "offsets.",
        f"{_REBUILD}, and lengthen the topic's retention.",
        kind="LostRangeError",
    ),
    ErrorEntry(
        "log-replaced", "The topic or the cluster was recreated.",
        f"{_REBUILD}.",
        kind="LogReplacedError",
    ),
    ErrorEntry(
        "silent-change", "Rows changed at the source without events, or will.",
        "Follow [Handle silent changes](../how-to/tables/handle-silent-changes.md).",
        kind="SilentChangeError",
    ),
    ErrorEntry(
        "rejected-record", "A record cannot be merged exactly. The message has the first record's "
        "topic, partition, offset and reason.",
        "Correct the source or the connector, exclude the topic, or set "
        "`bad_records: quarantine`, which has no effect on tables with excluded or masked columns.",
        kind="RejectedRecordError",
    ),
    ErrorEntry(
        "stalled", "A transaction's end did not come within `transactions.wait_minutes`.",
        "Follow [Unblock a waiting table](../how-to/tables/unblock-a-waiting-table.md).",
        kind="StalledError",
    ),
    ErrorEntry(
        "paused", "An operator has paused or dropped the table.",
        "`cdc-assets resume --table TABLE`",
        kind="HeldError",
    ),
    ErrorEntry(
        "source-restarted", "The source's positions went back: it was restored, or upgraded by "
        "dump. "
        "Otherwise two connectors write to one topic.",
        "After a restore: `cdc-assets accept-restart TABLE`, or rebuild the table from a snapshot. "
        "See [Restore, upgrade by dump](sources/postgresql.md#restore-upgrade-by-dump).",
        kind="RestartError",
    ),
    ErrorEntry(
        "renamed-table", "The table was renamed at its source, and cannot be followed.",
        "Follow [Handle renamed or recreated "
        "tables](../how-to/tables/handle-renamed-or-recreated-tables.md).",
        kind="RenamedTableError",
    ),
    ErrorEntry(
        "outcome-unknown", "The catalog's reply to a commit was lost, and the table could not be "
        "read afterwards.",
        "Nothing is removed. Check that the catalog answers: the next run finds out before it "
        "merges.",
        kind="OutcomeUnknownError",
    ),
    ErrorEntry(
        "terminal", "A retry cannot help. The table stops.",
        "Carry out the step after the arrow in the message.",
        kind="TerminalError",
    ),
    ErrorEntry(
        "other", "The command cannot continue.",
        "Carry out the step after the arrow in the message.",
        kind="CdcError",
    ),
    ErrorEntry(
        "unexpected", "An error of another program or of a library. The message has its type and "
        "the line of code, never its text.",
        "See the log of the part. Report it with the message if no part explains it. The table "
        "stops as after a terminal error.",
        kind="Exception",
    ),
)  # fmt: skip
"""All entries: messages first, then classes."""

_BY_CLASS: Final = {each.kind: each for each in ERRORS if each.kind}


def entry_of(error: Exception) -> ErrorEntry:
    """Returns the entry of an error."""
    what = getattr(error, "what", "")
    for each in ERRORS:
        if any(phrase in what for phrase in each.phrases):
            return each
    mine = (each.__name__ for each in type(error).__mro__)
    return next((_BY_CLASS[name] for name in mine if name in _BY_CLASS), _BY_CLASS["Exception"])


def explained(error: Exception) -> str:
    """Returns an error's message, followed by the address of its entry."""
    return f"{message_of(error)}; see {page('reference/errors.md')}#{entry_of(error).id}"
