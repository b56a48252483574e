"""Configures one source: its topics, its database, its target and its promises."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Literal, Self
from zoneinfo import ZoneInfo

from pydantic import BeforeValidator, Field, field_validator, model_validator

from cdc_assets.changes.lake_names import stored_lake_name
from cdc_assets.changes.mode import Mode
from cdc_assets.changes.names import LakeName, Shard, TableName
from cdc_assets.changes.slo import SloTarget
from cdc_assets.config.assess import SourceAssessConfig
from cdc_assets.config.formats import installed
from cdc_assets.config.maintenance import MaintenanceConfig
from cdc_assets.config.resnapshot import ResnapshotConfig
from cdc_assets.config.schema_registry import SchemaRegistryConfig
from cdc_assets.config.secret import Secret, SecretUrl
from cdc_assets.config.shards import TABLE_FIELDS, MergeIntoConfig, fields_of, require_fields
from cdc_assets.config.strict import Strict, as_mapping, did_you_mean, refuse, require_pattern
from cdc_assets.config.verify import VerifyConfig
from cdc_assets.errors import TerminalError
from cdc_assets.schema.described import Described
from cdc_assets.schema.evolution import Policy, Reaction
from cdc_assets.schema.history import OnBreak
from cdc_assets.schema.modes import (
    BinaryMode,
    ConnectorModes,
    DecimalMode,
    IntervalMode,
    TimeMode,
    UnsignedMode,
)
from cdc_assets.schema.overrides import apply_overrides, require_column, with_bounds
from cdc_assets.schema.parse import TypeSpec, parse_spec, parse_type
from cdc_assets.schema.types import ColumnType, Decimal

_KIND_ALIASES = {"postgresql": "postgres"}


def _matches(topic: str, patterns: tuple[str, ...]) -> bool:
    return any(re.fullmatch(pattern, topic) for pattern in patterns)


def _type(text: str) -> ColumnType:
    """Parses a configured column type."""
    try:
        return parse_type(text)
    except TerminalError as error:
        raise refuse(error.what, error.remedy) from error


def _kind(word: object) -> object:
    return _KIND_ALIASES.get(word, word) if isinstance(word, str) else word


DatabaseKind = Annotated[Literal["postgres", "mysql", "mariadb"], BeforeValidator(_kind)]

ReactionName = Literal["evolve", "strict", "ignore"]
ModeName = Literal["mirror", "changelog", "history"]
Patterns = Annotated[tuple[str, ...], Field(strict=False)]
_OFFSET = re.compile(r"[+-](0[0-9]|1[0-4]):[0-5][0-9]")
Names = Annotated[tuple[str, ...], Field(strict=False)]


class TopicsConfig(Strict):
    r"""The source's topics: regular expressions over whole topic names.

    ``prefix`` is the connector's ``topic.prefix``. It is only needed if a schema or table name
    contains a dot; without it, the last two parts of a topic's name are schema and table.
    ``transaction`` is its ``topic.transaction``: the metadata topic's name after the prefix.
    ``schema_changes`` is the topic of its schema changes, if that is not the prefix.
    """

    include: Annotated[tuple[str, ...], Field(strict=False, min_length=1)]
    exclude: Patterns = ()
    prefix: str | None = None
    transaction: str = Field(default="transaction", min_length=1)
    schema_changes: str | None = Field(default=None, min_length=1)

    def matches(self, topic: str) -> bool:
        """Returns whether the whole name matches; ``exclude`` wins."""
        return _matches(topic, self.include) and not _matches(topic, self.exclude)

    @field_validator("include", "exclude")
    @classmethod
    def _compiles(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        for pattern in patterns:
            require_pattern(pattern, r"for a prefix write 'shop\..*'")
        return patterns


class DatabaseConfig(Strict):
    """The source database, for schemas, assessment, snapshots and verification.

    ``mysql`` and ``mariadb`` are read alike. ``publication`` is the PostgreSQL connector's
    ``publication.name``; it is only needed if the database has several that differ.
    """

    kind: DatabaseKind
    dsn: Secret
    publication: str | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _only_postgres_publishes(self) -> Self:
        if self.publication is not None and self.kind != "postgres":
            what = f"database.publication is PostgreSQL's; {self.kind} has none"
            raise refuse(what, "leave it out")
        return self


class TargetConfig(Strict):
    """Templates of the lake's names; fields: ``{source}``, ``{schema}``, ``{table}``."""

    namespace: str = Field(default="{source}_{schema}", min_length=1)
    table: str = Field(default="{table}", min_length=1)

    @field_validator("namespace", "table")
    @classmethod
    def _known_fields(cls, template: str) -> str:
        require_fields(template, TABLE_FIELDS)
        return template


class SloConfig(Strict):
    """``percent`` % of changes visible within ``within_minutes``, over ``over_hours``."""

    percent: float = Field(default=95, gt=0, le=100)
    within_minutes: float = Field(default=5, gt=0, le=7 * 24 * 60)
    over_hours: int = Field(default=24, ge=1, le=7 * 24)

    @property
    def target(self) -> SloTarget:
        """The target as a value of the core."""
        return SloTarget(self.percent, self.within_minutes * 60, self.over_hours)


class ColumnOverrides(Strict):
    """The configuration of one column.

    Attributes:
        type: the type that it is stored as.
        exclude: whether the lake does not get it.
        mask: the digest of its values that the lake gets instead of them.
        rename: its name in the lake.
        existing: its value in rows older than the column, if neither the database nor the records
            show it; null for no value.
        large_values: whether it is accepted that the connector sends NULL for large values that
            an update leaves alone.
    """

    type: str | None = None
    exclude: bool = False
    mask: Literal["sha256"] | None = None
    rename: str | None = Field(default=None, min_length=1)
    existing: str | None = None
    large_values: Literal["fail", "accept"] = "fail"

    @field_validator("type")
    @classmethod
    def _parses(cls, text: str | None) -> str | None:
        if text is not None:
            _type(text)
        return text

    @model_validator(mode="after")
    def _says_one_thing(self) -> ColumnOverrides:
        said = (self.type is not None, self.exclude, self.mask is not None)
        beside = self.rename is not None or self.tells_existing or self.accepts_lost
        if sum(said) > 1 or not (sum(said) or beside) or (self.exclude and beside):
            what = (
                "a column has one of type, exclude and mask, and may have a name (rename), a "
                "value of older rows (existing) and large_values if it is not excluded"
            )
            raise refuse(what, "write a type, {exclude: true}, {mask: sha256} or {rename: name}")
        if self.mask is not None and self.existing is not None:
            what = "of a masked column the configuration is not to hold a value (existing)"
            raise refuse(what, "write existing: null, or leave it out")
        return self

    @property
    def accepts_lost(self) -> bool:
        """Whether NULL is accepted for large values that an update leaves alone."""
        return self.large_values == "accept"

    @property
    def tells_existing(self) -> bool:
        """Whether a value of older rows is configured, even if it is null."""
        return "existing" in self.model_fields_set


class SchemaChanges(Strict):
    """The reactions to changes of the source's columns; ``mode`` decides the ones not named."""

    mode: ReactionName = "evolve"
    add: ReactionName | None = None
    widen: ReactionName | None = None
    rename: ReactionName | None = None
    drop: ReactionName | None = None
    incompatible: ReactionName | None = None

    @property
    def reactions(self) -> dict[str, Reaction]:
        """The reactions by kind of change."""
        kinds = ("add", "widen", "rename", "drop", "incompatible")
        return {each: Reaction(getattr(self, each) or self.mode) for each in kinds}


def _mode_alone(said: object) -> object:
    return {"mode": said} if isinstance(said, str) else said


SchemaChangesOrMode = Annotated[SchemaChanges, BeforeValidator(_mode_alone)]
"""A mode alone is short for ``{mode: …}``."""


class TableOverrides(Strict):
    """The configuration of one table, which overrides its schema.

    ``columns`` are types, or `ColumnOverrides`.
    ``deletes: soft`` keeps deleted rows, marked; it is chosen before the table is made.
    ``mode`` is the lake table's mode, also chosen before that; it overrides the source's.
    ``absent_columns`` may be missing in records, and are then emptied in the rows these change.
    ``row_filter: accept`` accepts a table whose rows the publication filters.
    ``schema_changes``, ``on_incompatible``, ``dropped_columns``, ``dropped_table``,
    ``recreated_table``, ``renamed_table`` and each key of ``maintenance`` override the source's.
    """

    primary_key: Names = ()
    mode: ModeName | None = None
    deletes: Literal["hard", "soft"] = "hard"
    columns: dict[str, ColumnOverrides] = Field(default_factory=dict)
    absent_columns: Names = ()
    row_filter: Literal["fail", "accept"] = "fail"
    schema_changes: SchemaChangesOrMode | None = None
    on_incompatible: Literal["stop", "new_column"] | None = None
    dropped_columns: Literal["keep", "drop"] | None = None
    dropped_table: Literal["keep", "drop"] | None = None
    recreated_table: Literal["stop", "truncate", "keep"] | None = None
    renamed_table: Literal["follow", "new"] | None = None
    maintenance: MaintenanceConfig | None = None

    @field_validator("columns", mode="before")
    @classmethod
    def _types_alone(cls, columns: object) -> object:
        said = as_mapping(columns)
        if not said:
            return columns
        return {n: {"type": each} if isinstance(each, str) else each for n, each in said.items()}

    @model_validator(mode="after")
    def _keeps_its_key(self) -> TableOverrides:
        for name in self.primary_key:
            if name in self.excluded:
                what = f"column {name!r} of the primary key is excluded"
                raise refuse(what, "mask it instead ({mask: sha256}), or choose another key")
        return self

    @model_validator(mode="after")
    def _has_a_name_for_each(self) -> TableOverrides:
        names = [name.casefold() for name in self.renames.values()]
        if len(set(names)) < len(names):
            what = "two columns are to have one name in the lake (rename), whatever its case"
            raise refuse(what, "choose another for one of them")
        return self

    @property
    def column_types(self) -> dict[str, TypeSpec]:
        """The types of ``columns``."""
        return {n: parse_spec(each.type) for n, each in self.columns.items() if each.type}

    @property
    def renames(self) -> dict[str, str]:
        """Configured names of columns in the lake, by names in records."""
        return {name: each.rename for name, each in self.columns.items() if each.rename}

    @property
    def existing(self) -> dict[str, str | None]:
        """Configured values of columns in rows older than the column; None for no value."""
        return {name: each.existing for name, each in self.columns.items() if each.tells_existing}

    @property
    def excluded(self) -> tuple[str, ...]:
        """Columns that the lake does not get."""
        return tuple(name for name, each in self.columns.items() if each.exclude)

    @property
    def masked(self) -> frozenset[str]:
        """Columns of which the lake gets digests only."""
        return frozenset(name for name, each in self.columns.items() if each.mask)

    @property
    def accepted(self) -> frozenset[str]:
        """Columns whose large values may be lost."""
        return frozenset(name for name, each in self.columns.items() if each.accepts_lost)

    @property
    def withholds(self) -> bool:
        """Whether a part of a record must not get into the lake."""
        return bool(self.excluded or self.masked)


class ConnectorConfig(Strict):
    """The connector's settings for values; the defaults are Debezium's own.

    Except for ``include_unknown_datatypes``, the modes are needed only if events carry no schema
    of their own. The default of ``time_precision_mode`` depends on the kind of database.
    ``time_zone`` is the zone of timestamps written as text without one (Canal, TiCDC, GoldenGate),
    or the one that Maxwell runs in: an IANA name, or ``+hh:mm``. ``record_type: full`` means that
    every update contains the whole row, for formats whose records do not show it.
    ``replacement_characters: keep`` means that U+FFFD in the rows of Canal's formats is data, not
    the rest of a character that could not be read. ``flattened`` means that each record is a row,
    whatever it contains; ``added_fields_prefix`` is the
    ``add.fields.prefix`` of the flattening transformation: without a prefix, added fields could not
    be distinguished from columns.
    """

    decimal_handling_mode: Literal["precise", "string", "double"] = "precise"
    time_precision_mode: (
        Literal[
            "adaptive",
            "adaptive_time_microseconds",
            "connect",
            "isostring",
            "microseconds",
            "nanoseconds",
        ]
        | None
    ) = None
    bigint_unsigned_handling_mode: Literal["long", "precise"] = "long"
    binary_handling_mode: Literal["bytes", "base64", "hex"] = "bytes"
    interval_handling_mode: Literal["numeric", "string"] = "numeric"
    include_unknown_datatypes: bool = False
    unavailable_value_placeholder: str = Field(default="__debezium_unavailable_value", min_length=1)
    flattened: bool = False
    added_fields_prefix: str = Field(default="__", min_length=1)
    record_type: Literal["partial", "full"] = "partial"
    replacement_characters: Literal["reject", "keep"] = "reject"
    time_zone: str | None = None

    @field_validator("time_zone")
    @classmethod
    def _exists(cls, zone: str | None) -> str | None:
        if zone is None or _OFFSET.fullmatch(zone):
            return zone
        try:
            ZoneInfo(zone)
        except (ValueError, OSError, LookupError) as error:
            what = f"{zone!r} is no time zone"
            raise refuse(what, "write 'UTC', 'Europe/Zurich' or '+08:00', for example") from error
        return zone

    @property
    def modes(self) -> ConnectorModes:
        """The modes of PostgreSQL's connector, as values of the core."""
        return self.modes_of("postgres")

    def modes_of(self, kind: DatabaseKind | None) -> ConnectorModes:
        """Returns the modes of a kind of database's connector; None counts as PostgreSQL's."""
        usual = "adaptive" if kind in {"postgres", None} else "adaptive_time_microseconds"
        return ConnectorModes(
            DecimalMode(self.decimal_handling_mode),
            TimeMode(self.time_precision_mode or usual),
            BinaryMode(self.binary_handling_mode),
            UnsignedMode(self.bigint_unsigned_handling_mode),
            IntervalMode(self.interval_handling_mode),
            self.include_unknown_datatypes,
        )


class BatchConfig(Strict):
    """The size of one batch, and how long one run goes on taking batches.

    ``statement_seconds`` and ``table_seconds`` end a hanging step of a batch, and a table's hanging
    turn in a run. A record of more than ``max_record_bytes`` (key and value) is refused unread.
    """

    max_records: int = Field(default=1_000_000, ge=1)
    max_record_bytes: int = Field(default=32 << 20, ge=1 << 10, le=1 << 30)
    drain_seconds: float = Field(default=240, gt=0)
    statement_seconds: float = Field(default=900, gt=0)
    table_seconds: float = Field(default=3600, gt=0)


class TransactionsConfig(Strict):
    """The longest time for which a transaction may lack its end, and the reaction to it.

    ``then: stop``: the table stops, whole transactions only. ``publish``: the available part of the
    transaction is published, so that readers may see a part of it.
    """

    wait_minutes: float = Field(default=15, gt=0, le=7 * 24 * 60)
    then: Literal["stop", "publish"] = "stop"


class ConnectConfig(Strict):
    """Kafka Connect's REST interface, asked for the connector's state when a table waits for it.

    ``connector`` names it; without a name, the connectors whose ``topic.prefix`` begins the table's
    topic are asked.
    """

    url: SecretUrl
    connector: str | None = Field(default=None, min_length=1)


class QuarantineConfig(Strict):
    """The largest part of one table in quarantine before the table stops anyway.

    ``max_bytes`` counts keys and values.
    """

    max_records: int = Field(default=1000, gt=0)
    max_bytes: int = Field(default=1 << 30, gt=0)


class SourceConfig(Strict):
    """One stream of change topics with one format and (optionally) one database behind it."""

    format: str
    topics: TopicsConfig
    database: DatabaseConfig | None = None
    target: TargetConfig = TargetConfig()
    merge_into: Annotated[tuple[MergeIntoConfig, ...], Field(strict=False)] = ()
    slo: SloConfig = SloConfig()
    mode: ModeName = "mirror"
    schema_changes: SchemaChangesOrMode = SchemaChanges()
    on_incompatible: Literal["stop", "new_column"] = "stop"
    dropped_columns: Literal["keep", "drop"] = "keep"
    dropped_table: Literal["keep", "drop"] = "keep"
    recreated_table: Literal["stop", "truncate", "keep"] = "stop"
    renamed_table: Literal["follow", "new"] = "follow"
    unbounded_numeric: str | None = None
    bad_records: Literal["fail", "quarantine"] = "fail"
    quarantine: QuarantineConfig = QuarantineConfig()
    lost_start: Literal["fail", "accept"] = "fail"
    tables: dict[str, TableOverrides] = Field(default_factory=dict)
    connector: ConnectorConfig = ConnectorConfig()
    batch: BatchConfig = BatchConfig()
    transactions: TransactionsConfig = TransactionsConfig()
    maintenance: MaintenanceConfig = MaintenanceConfig()
    verify: VerifyConfig = VerifyConfig()
    resnapshot: ResnapshotConfig = ResnapshotConfig()
    connect: ConnectConfig | None = None
    schema_registry: SchemaRegistryConfig | None = None
    assess: SourceAssessConfig = SourceAssessConfig()

    @field_validator("format")
    @classmethod
    def _known_format(cls, name: str) -> str:
        if name not in installed():
            what = "is not an installed format"
            raise refuse(what, did_you_mean(name, installed()))
        return name

    @field_validator("unbounded_numeric")
    @classmethod
    def _is_decimal(cls, text: str | None) -> str | None:
        if text is not None and not isinstance(_type(text), Decimal):
            what = f"{text!r} is no decimal"
            raise refuse(what, "write decimal(38,10), or leave it out")
        return text

    @property
    def unbounded(self) -> Decimal | None:
        """The stored type of decimals without precision; None for text."""
        found = parse_type(self.unbounded_numeric) if self.unbounded_numeric else None
        return found if isinstance(found, Decimal) else None

    @field_validator("tables")
    @classmethod
    def _qualified(cls, tables: dict[str, TableOverrides]) -> dict[str, TableOverrides]:
        for name in tables:
            schema, dot, table = name.partition(".")
            if not (schema and dot and table):
                what = f"{name!r} is not a table name of the form schema.table"
                raise refuse(what, f"write 'public.{name.strip('.')}', for example")
        return tables

    @model_validator(mode="after")
    def _modes_that_the_connector_has(self) -> Self:
        kind = self.database.kind if self.database is not None else None
        if kind in {"mysql", "mariadb"} and self.connector.time_precision_mode == "adaptive":
            what = f"connector.time_precision_mode: {kind}'s connector has no mode adaptive"
            raise refuse(what, "leave it out, or write adaptive_time_microseconds")
        return self

    @model_validator(mode="after")
    def _modes_that_fit(self) -> Self:
        for name, each in self.tables.items():
            if each.deletes == "soft" and (each.mode or self.mode) != "mirror":
                what = f"tables.{name}: deletes: soft is for mode: mirror, others keep deletes"
                raise refuse(what, "leave deletes out, or write mode: mirror")
        if self.merge_into and self.mode != "mirror":
            what = f"tables that are merged into one (merge_into) cannot have mode: {self.mode}"
            raise refuse(what, "name the tables that are to have it under tables, or leave it out")
        return self

    @property
    def modes(self) -> ConnectorModes:
        """The modes in which the connector of this source's database writes values."""
        return self.connector.modes_of(self.database.kind if self.database is not None else None)

    def policy(self, table: TableName) -> Policy:
        """Returns the reactions to changes of a table's columns."""
        own = self.overrides(table)
        changes = own.schema_changes or self.schema_changes
        return Policy(
            **changes.reactions,
            new_column=(own.on_incompatible or self.on_incompatible) == "new_column",
            names=own.renames,
            drops_columns=(own.dropped_columns or self.dropped_columns) == "drop",
        )

    def built_anew_by(self, table: TableName) -> str:
        """Returns the command that rebuilds a table whose log has lost a part, for people."""
        reads = self.database is not None and self.mode_of(table) is Mode.MIRROR
        return f"cdc-assets rebuild {table} {'--from-source, or ' if reads else ''}--from-snapshot"

    def mode_of(self, table: TableName) -> Mode:
        """Returns the mode of a table's lake table."""
        return Mode(self.overrides(table).mode or self.mode)

    def recreated(self, table: TableName) -> OnBreak:
        """Returns the treatment of rows once another table has taken a table's name."""
        return OnBreak(self.overrides(table).recreated_table or self.recreated_table)

    def drops(self, table: TableName) -> bool:
        """Returns whether the lake drops a table that its source has dropped."""
        return (self.overrides(table).dropped_table or self.dropped_table) == "drop"

    def follows_renamed(self, table: TableName) -> bool:
        """Returns whether a table that is renamed at its source keeps its rows in the lake."""
        return (self.overrides(table).renamed_table or self.renamed_table) == "follow"

    def upkeep(self, table: TableName) -> MaintenanceConfig:
        """Returns the upkeep settings of a table's lake table."""
        return self.maintenance.laid_under(self.overrides(table).maintenance)

    def laid_over(
        self,
        table: TableName,
        described: Described,
        key: Sequence[str] = (),
        *,
        whole: bool,
        where: str = "",
    ) -> Described:
        """Applies the configured types, masks and key to a table's columns.

        Args:
            table: the table of the columns.
            described: the columns as their source describes them.
            key: the configured key.
            whole: whether these are all columns, so that any other configured one is mistyped.
            where: coordinates for the error.

        Raises:
            ConfigError: if a name or a type does not fit.
        """
        overrides = self.overrides(table)
        types, masked, accepted = overrides.column_types, overrides.masked, overrides.accepted
        if not whole:
            types = {name: types[name] for name in types if name in described.names}
            masked, accepted = (each & {*described.names} for each in (masked, accepted))
        for name in accepted:
            require_column(name, described, where)
        bounded = with_bounds(described.with_accepted(accepted), self.unbounded)
        return apply_overrides(bounded, types, key, self.modes, masked=masked, where=where)

    def lake_name(self, table: TableName) -> LakeName:
        """Returns the Iceberg table of a source table.

        The first matching entry of ``merge_into`` decides, else ``target``. Names are stored
        according to `cdc_assets.changes.lake_names`, which substitutes odd ones.
        """
        if (merged := self._merged(table)) is not None:
            return merged.lake_name(table)
        fields = fields_of(table)
        return stored_lake_name(
            self.target.namespace.format_map(fields), self.target.table.format_map(fields)
        )

    def shard(self, table: TableName) -> Shard | None:
        """Returns the shard of its rows in a lake table of several source tables, else None."""
        merged = self._merged(table)
        return merged.shard_of(table) if merged is not None else None

    def _merged(self, table: TableName) -> MergeIntoConfig | None:
        return next((each for each in self.merge_into if each.matches(table)), None)

    def overrides(self, table: TableName) -> TableOverrides:
        """Returns the configuration of a table; an empty one if it is not listed."""
        return self.tables.get(table.qualified, TableOverrides())

    @property
    def withholds(self) -> bool:
        """Whether a part of a record of any table must not get into the lake."""
        return any(each.withholds for each in self.tables.values())
