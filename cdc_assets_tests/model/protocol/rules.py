"""The rules that the life of a batch rests on, each a switch: without it some life goes wrong."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Protocol:
    """The rules of merging. The defaults are right; tests prove that each alternative is not.

    Attributes:
        side_as_published: the side table is read as of the snapshot that the published state
            names, and set back to it before it is written; otherwise its head counts.
        side_set_back: leftovers of failed attempts are removed before the append.
        side_conflicts: an attempt whose entries are on top of another attempt's is a conflict.
        ledger_as_published: counted events are read like `side_as_published`; otherwise an entry
            counts if its coordinate is below the committed offsets.
        repeats_by_event: whether a batch may contain a redelivery is decided without the Kafka
            offset, which differs each time that an event is sent.
        whole_moves: a batch never ends inside a changed key, and one that the log's end has cut is
            refused.
        looks_after_lost_reply: a lost reply is checked; otherwise the same writes are made again on
            the new head.
        looks_before_publish: the branch is checked before ``main`` is moved to it.
        commits_on_planned_head: a batch of one write is committed only while ``main`` is where the
            plan saw it; otherwise wherever ``main`` is.
        moves_main_forward_only: otherwise ``main`` is set to the branch, wherever ``main`` is.
        offsets_with_rows: offsets are in the snapshot that completes their rows; otherwise they are
            stored after it.
        compares_with_table: columns to add are those that the table lacks, not those that
            the stored description lacks.
        completes_half_made: each part of a table is created if it does not exist; otherwise only
            with the table.
        heeds_early_partitions: partitions that were added before the first batch count as
            added: the first batch takes everything; otherwise only those added after it do.
        publish_names_missing: each publish tells which quarantined records the table lacks, and
            only those are merged; otherwise all that are there below the offsets, which are
            removed after the publish.
    """

    side_as_published: bool = True
    side_set_back: bool = True
    side_conflicts: bool = True
    ledger_as_published: bool = True
    repeats_by_event: bool = True
    whole_moves: bool = True
    looks_after_lost_reply: bool = True
    looks_before_publish: bool = True
    commits_on_planned_head: bool = True
    moves_main_forward_only: bool = True
    offsets_with_rows: bool = True
    compares_with_table: bool = True
    completes_half_made: bool = True
    heeds_early_partitions: bool = True
    publish_names_missing: bool = True


RIGHT = Protocol()
