"""A table as PostgreSQL's catalog has it: its columns, how its changes are logged and published."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from cdc_assets.databases.facts import Facts
from cdc_assets.databases.postgres.columns import PostgresColumn
from cdc_assets.databases.postgres.large_values import toast_warning
from cdc_assets.databases.postgres.types import describe_table, without_lost
from cdc_assets.errors import TerminalError
from cdc_assets.schema.described import Described
from cdc_assets.schema.modes import ConnectorModes
from cdc_assets.schema.silent import Look, SilentChange


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
    """

    name: str
    columns: frozenset[str] | None = None
    filters_rows: bool = False


@dataclass(frozen=True, slots=True)
class CatalogTable:
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
    facts: Mapping[str, Facts] = field(default_factory=dict[str, Facts])
    identity: str = ""
    is_unlogged: bool = False
    partition_identities: tuple[RowIdentity, ...] = ()
    look: Look = field(default_factory=Look)

    @property
    def row_identities(self) -> tuple[RowIdentity, ...]:
        """The replica identities by which its changes are logged.

        Changes of a partitioned table are logged by those of its partitions: its own decides
        nothing, and ``ALTER TABLE … REPLICA IDENTITY`` does not pass it on to them.
        """
        own = RowIdentity(self.replica_identity, self.identity_key)
        return self.partition_identities or (own,)

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in order."""
        return tuple(column.name for column in self.columns)

    @property
    def of_each_partition(self) -> str:
        """What follows a statement about replica identities, for people."""
        return " (of each partition, new ones too)" if self.partitions else ""

    def silent_since(
        self, before: Look | None, publication: str | None
    ) -> tuple[SilentChange, ...]:
        """Returns changes of its rows without events, see `SourceTable.silent_since`."""
        del before, publication
        return ()

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

    def require_told(self, key: tuple[str, ...], where: str) -> None:
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
        told = describe_table(self.columns, self.primary_key, modes, comment=self.comment)
        return replace(told, warnings=(*told.warnings, *toast_warning(self.columns, modes)))

    def corrected(
        self, told: Described, names: Collection[str], modes: ConnectorModes
    ) -> Described:
        """Refuses columns that arrive without their values, see `without_lost`."""
        mine = [each for each in self.columns if each.name in names]
        told = replace(told, warnings=(*told.warnings, *toast_warning(mine, modes, told)))
        return without_lost(told, mine, modes)
