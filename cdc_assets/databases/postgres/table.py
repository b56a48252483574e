"""A table as PostgreSQL's catalog has it: its columns, how its changes are logged and published.

Some rows change without an event in the log. Under the root's name of a partitioned table there is
no event for partitions that are detached, dropped, attached or truncated (CREATE PUBLICATION,
``publish_via_partition_root``). A statement that rewrites a table has none for its rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from cdc_assets.databases.catalog import ColumnFacts
from cdc_assets.databases.postgres.columns import PostgresColumn, toast_warning
from cdc_assets.databases.postgres.types import describe_table, without_lost
from cdc_assets.errors import TerminalError
from cdc_assets.schema.described import Described
from cdc_assets.schema.modes import ConnectorModes
from cdc_assets.schema.silent import CatalogLook, SilentChange, SilentKind

_NAMED: Final = 5
_NO_FILES: Final = "0"
"""The file number of what holds no rows of its own."""

_REWRITTEN, _PARTITIONS = SilentKind.REWRITTEN, SilentKind.PARTITIONS


class ReplicaIdentity(StrEnum):
    """The logged part of the old row (``pg_class.relreplident``); CHANGE is YugabyteDB's."""

    DEFAULT = "d"
    NOTHING = "n"
    FULL = "f"
    INDEX = "i"
    CHANGE = "c"


@dataclass(frozen=True, slots=True)
class RowIdentity:
    """A replica identity.

    Attributes:
        kind: which one.
        key: columns of the index that it is; () if it is none.
    """

    kind: ReplicaIdentity
    key: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Publication:
    """A publication of a table.

    Attributes:
        columns: the published columns; None on a server without column lists (before 15).
        filters_rows: whether it has a ``WHERE`` for the table.
        number: of the table's entry in it, which differs once the table was taken out meanwhile.
        lacks: operations on rows that it does not publish.
    """

    name: str
    columns: frozenset[str] | None = None
    filters_rows: bool = False
    number: str = ""
    lacks: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class PostgresTable:
    """A table as the catalog has it; generated columns included, dropped ones not.

    Attributes:
        replica_identity: its own; see `row_identities`.
        identity_key: columns of the index that is the replica identity; () without one.
        deferrable_key: whether the primary key is checked at the end of a statement or transaction.
        publications: publications of changes under the table's own name.
        root: ``(schema, name)`` of the partitioned table that it is a partition of.
        partitions: ``(schema, name)`` of its own partitions, those that hold rows.
        by_partition: publications that send its changes under the partitions' names.
        facts: of its columns.
        identity: its ``oid``, which a table that is recreated, or restored from a dump, does not
            keep.
        is_unlogged: whether changes of it, or of one of its partitions, are in no WAL.
        partition_identities: replica identities that its partitions have, each once.
        look: what the next look at it is compared with.
        attached: numbers of partitions that have rows and were attached after they were made.
        heirs: tables that inherit from it, though it is not partitioned.
    """

    columns: tuple[PostgresColumn, ...]
    primary_key: tuple[str, ...]
    replica_identity: ReplicaIdentity
    comment: str
    identity_key: tuple[str, ...] = ()
    deferrable_key: bool = False
    publications: tuple[Publication, ...] = ()
    root: tuple[str, str] | None = None
    partitions: tuple[tuple[str, str], ...] = ()
    by_partition: tuple[str, ...] = ()
    facts: Mapping[str, ColumnFacts] = field(default_factory=dict[str, ColumnFacts])
    identity: str = ""
    is_unlogged: bool = False
    partition_identities: tuple[RowIdentity, ...] = ()
    look: CatalogLook = field(default_factory=CatalogLook)
    attached: tuple[str, ...] = ()
    heirs: tuple[str, ...] = ()

    @property
    def row_identities(self) -> tuple[RowIdentity, ...]:
        """The replica identities by which its changes are logged.

        Changes of a partitioned table are logged by those of its partitions: its own decides
        nothing, and ``ALTER TABLE … REPLICA IDENTITY`` does not pass it on to them.
        """
        own = RowIdentity(self.replica_identity, self.identity_key)
        return self.partition_identities or (own,)

    @property
    def logs_whole_rows(self) -> bool:
        """Whether a replica identity is FULL."""
        return any(each.kind is ReplicaIdentity.FULL for each in self.row_identities)

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in order."""
        return tuple(column.name for column in self.columns)

    @property
    def of_each_partition(self) -> str:
        """What follows a statement about replica identities, for people."""
        return " (of each partition, new ones too)" if self.partitions else ""

    def silent_since(
        self, before: CatalogLook | None, publication: str | None
    ) -> tuple[SilentChange, ...]:
        """Returns changes of its rows without events, see `SourceTable.silent_since`."""
        since = changes(before, self.look, self.attached) if before is not None else ()
        was_published = before is not None and bool(before.published)
        standing = self._unsent(publication, was_published=was_published)
        unsent = (SilentChange(SilentKind.UNLOGGED, why, is_standing=True) for why in standing)
        return (*unsent, *since)

    def unsent_by(self, publication: str | None) -> tuple[str, ...]:
        """Returns why changes of its rows are not sent, see `SourceTable.unsent_by`."""
        return tuple(self._unsent(publication, was_published=True))

    def _unsent(self, publication: str | None, *, was_published: bool) -> Iterator[str]:
        """Yields why changes of its rows are not sent, for as long as it is like this."""
        mine = self._of(self.publications, publication)
        if self.is_unlogged:
            yield "it is UNLOGGED, or a partition of it: such changes are in no WAL"
        if self.heirs:
            heirs = ", ".join(self.heirs[:_NAMED])
            yield f"tables inherit from it ({heirs}): only a snapshot of it has their rows"
        if mine and (lacks := frozenset.intersection(*(each.lacks for each in mine))):
            names = ", ".join(each.name for each in mine)
            yield f"publication {names} does not publish {', '.join(sorted(lacks))}"
        is_wanted = was_published or publication is not None
        if not mine and is_wanted and self.root is None and not self.by_partition:
            which = f"publication {publication}" if publication else "any publication"
            yield f"it is not in {which}"

    def unpublished(self, publication: str | None) -> dict[str, str]:
        """Returns columns whose changes no event holds, each with the reason.

        Args:
            publication: the connector's; None takes all that the table has.
        """
        mine = self._of(self.publications, publication)
        names = ", ".join(each.name for each in mine)
        found: dict[str, str] = {}
        for column in self.columns:
            if any(each.columns and column.name in each.columns for each in mine):
                continue
            if column.is_generated:
                found[column.name] = "the database generates it and does not publish it"
            elif mine and all(each.columns is not None for each in mine):
                found[column.name] = f"it is not in the column list of publication {names}"
        return found

    def filters_rows(self, publication: str | None) -> bool:
        """Returns whether every publication of the table leaves rows out."""
        mine = self._of(self.publications, publication)
        return bool(mine) and all(each.filters_rows for each in mine)

    @staticmethod
    def _of(given: tuple[Publication, ...], name: str | None) -> tuple[Publication, ...]:
        return tuple(each for each in given if name in (None, each.name))

    def sent_by_partition(self, publication: str | None) -> bool:
        """Returns whether this partitioned table's changes come under its partitions' names."""
        return any(publication in (None, each) for each in self.by_partition) and not self._of(
            self.publications, publication
        )

    def require_whole(self, where: str) -> None:
        """Refuses nothing: what the server logs of a row is the table's affair, not a setting."""
        del where

    def identifies(self, key: Collection[str]) -> bool:
        """Returns whether they are the primary key, or the index that is the replica identity."""
        indexes = [{*each.key} for each in self.row_identities]
        return {*key} == {*self.primary_key} or (bool(key) and all(i == {*key} for i in indexes))

    def require_key_logged(self, key: tuple[str, ...], where: str) -> None:
        """Refuses a table whose events do not identify their row.

        Raises:
            TerminalError: if it is one.
        """
        for identity in self.row_identities:
            if identity.kind is ReplicaIdentity.INDEX and not set(key) <= set(identity.key):
                index, of = ", ".join(identity.key), "a partition's" if self.partitions else "its"
                what = f"{of} replica identity is an index of ({index}), not of its key"
                remedy = (
                    f"ALTER TABLE … REPLICA IDENTITY DEFAULT or FULL{self.of_each_partition}, or "
                    "make these columns the record's key (message.key.columns)"
                )
                raise TerminalError(what, where=where, remedy=remedy)
        if self.deferrable_key and set(key) == set(self.primary_key):
            what = (
                "its primary key is deferrable: two rows may have one key inside a transaction, "
                "and nothing tells which of them a delete means"
            )
            remedy = "make the key NOT DEFERRABLE, or another unique key the record's"
            raise TerminalError(what, where=where, remedy=remedy)

    def described(self, modes: ConnectorModes) -> Described:
        """Describes all columns, as a connector with these modes writes them."""
        found = describe_table(self.columns, self.primary_key, modes, comment=self.comment)
        return replace(found, warnings=(*found.warnings, *toast_warning(self.columns, modes)))

    def corrected(
        self, described: Described, names: Collection[str], modes: ConnectorModes
    ) -> Described:
        """Refuses columns that arrive without their values, see `without_lost`."""
        mine = [each for each in self.columns if each.name in names]
        described = replace(
            described, warnings=(*described.warnings, *toast_warning(mine, modes, described))
        )
        return without_lost(described, mine, modes)


# ── changes without events ────────────────────────────────────────────────────────────────


def changes(
    before: CatalogLook, now: CatalogLook, attached: Sequence[str]
) -> Iterator[SilentChange]:
    """Yields the changes between two looks at a table.

    Args:
        before: the look before.
        now: this one.
        attached: numbers of partitions that have rows and were attached after they were made.
    """
    gone = [
        n for key, (n, files) in before.parts.items() if files != _NO_FILES and key not in now.parts
    ]
    came = [now.parts[key][0] for key in attached if key in now.parts and key not in before.parts]
    if gone:
        yield SilentChange(_PARTITIONS, f"{_some(gone, 'partition')} detached or dropped")
    if came:
        yield SilentChange(_PARTITIONS, f"{_some(came, 'partition')} attached with rows")
    yield from _rewritten(before, now)
    yield from _relabelled(before, now)
    if now.published and set(before.published) - set(now.published):
        why = "it was taken out of a publication and may have been put in again"
        yield SilentChange(SilentKind.UNLOGGED, f"{why}: changes in between were not sent")


def _rewritten(before: CatalogLook, now: CatalogLook) -> Iterator[SilentChange]:
    """Yields rows that have other files, and why if a column's definition changed with them.

    ``ALTER TABLE … TYPE … USING`` and a default that differs by row do so; VACUUM FULL, CLUSTER and
    TRUNCATE leave definitions alone.
    """
    parts = [
        name
        for key, (name, files) in now.parts.items()
        if files != _NO_FILES and key in before.parts and before.parts[key][1] != files
    ]
    if before.files == now.files and not parts:
        return
    altered = tuple(
        of[0] for key, of in now.columns.items() if before.columns.get(key, of[:1])[1:] != of[1:]
    )
    if altered:
        why = f"{_some(altered, 'column')} altered or added while the table was rewritten"
        yield SilentChange(_REWRITTEN, f"{why}: older rows may have other values", altered)
    elif parts:
        why = f"{_some(parts, 'partition')} truncated, or rewritten (VACUUM FULL, CLUSTER)"
        yield SilentChange(_REWRITTEN, f"{why}: a partition's TRUNCATE has no event")
    else:
        why = "the table was rewritten (VACUUM FULL, CLUSTER), or truncated without an event"
        yield SilentChange(_REWRITTEN, why, is_over_with_truncate=True)


def _relabelled(before: CatalogLook, now: CatalogLook) -> Iterator[SilentChange]:
    labels = [
        f"'{before.labels[key]}' is '{label}'"
        for key, label in now.labels.items()
        if before.labels.get(key, label) != label
    ]
    if labels:
        more = f" and {len(labels) - _NAMED} more" if len(labels) > _NAMED else ""
        why = f"labels of an enumeration were renamed: {', '.join(labels[:_NAMED])}{more} now"
        yield SilentChange(_REWRITTEN, f"{why}, in older rows too")


def _some(names: Sequence[str], what: str) -> str:
    """Returns some names with what they are and a verb."""
    shown = ", ".join(names[:_NAMED])
    if len(names) == 1:
        return f"{what} {shown} was"
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{what}s {shown}{more} were"
