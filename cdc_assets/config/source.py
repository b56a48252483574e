"""Configures one source: its topics, its database, its target and its promises.

Configures how tables are read again from their source.

Configures the merging of several tables of one shape into one: shards of a database.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, Literal, Self

from pydantic import Field, PrivateAttr, field_validator, model_validator

from cdc_assets.changes.mode import Mode
from cdc_assets.changes.names import LakeName, Shard, TableName, stored_lake_name, stored_value
from cdc_assets.config.assess import SourceAssessConfig
from cdc_assets.config.batch import (
    BatchConfig,
    ConsistentConfig,
    QuarantineConfig,
    SloConfig,
    TransactionsConfig,
)
from cdc_assets.config.column import column_type
from cdc_assets.config.connector import ConnectorConfig
from cdc_assets.config.database import ConnectConfig, DatabaseConfig
from cdc_assets.config.formats import installed
from cdc_assets.config.layout import LayoutConfig
from cdc_assets.config.maintenance import MaintenanceConfig
from cdc_assets.config.schema_changes import (
    OnDropped,
    OnIncompatible,
    OnRecreated,
    OnRenamed,
    SchemaChanges,
    SchemaChangesOrMode,
    SilentChanges,
    SilentChangesOrOne,
)
from cdc_assets.config.schema_registry import SchemaRegistryConfig
from cdc_assets.config.strict import Strict, did_you_mean, refuse, require_pattern
from cdc_assets.config.table import (
    Initial,
    ModeName,
    TableOverrides,
    combined,
    is_pattern,
    matches,
)
from cdc_assets.config.topics import (
    TABLE_FIELDS,
    TargetConfig,
    TopicsConfig,
    fields_of,
    require_fields,
)
from cdc_assets.config.verify import VerifyConfig
from cdc_assets.schema.described import Described
from cdc_assets.schema.history import OnBreak
from cdc_assets.schema.modes import ConnectorModes
from cdc_assets.schema.overrides import apply_overrides, require_column, with_bounds
from cdc_assets.schema.parse import parse_type
from cdc_assets.schema.policy import Policy
from cdc_assets.schema.silent import SilentPolicy
from cdc_assets.schema.types import Decimal


class ResnapshotConfig(Strict):
    """Limits on the load that reading tables again puts on a source's database or connector.

    Attributes:
        chunk_rows: number of rows read with one statement.
        parallel: number of statements that read at once. Times ``chunk_rows``: the rows that Spark
            keeps until compared.
        rows_per_second: maximum rows read per second on average.
        answer_seconds: maximum seconds without a notification about a signalled snapshot, unless
            the connector is paused.
    """

    chunk_rows: int = Field(default=100_000, ge=10)
    parallel: int = Field(default=4, ge=1, le=64)
    rows_per_second: float | None = Field(default=None, gt=0)
    answer_seconds: float = Field(default=300, gt=0)


class MergeIntoConfig(Strict):
    r"""The tables that are merged into one, and the column that distinguishes their rows.

    ``tables`` may have named groups: ``shop_(?P<number>\d+)\..*`` gives ``{number}`` to the
    templates.

    Attributes:
        tables: regular expression that must match a whole ``schema.table``. The first matching rule
            counts.
        namespace: template of the lake table's namespace, from ``{source}``, ``{schema}``,
            ``{table}`` and named groups of ``tables``.
        table: template of the lake table's name; same fields.
        shard: template of the value that distinguishes a table's rows; same fields.
        shard_column: name of the column with the value: first in the table and its key.
    """

    tables: str = Field(min_length=1)
    namespace: str = Field(min_length=1)
    table: str = Field(default="{table}", min_length=1)
    shard: str = Field(default="{source}.{schema}.{table}", min_length=1)
    shard_column: str = Field(default="shard", min_length=1)

    @field_validator("tables")
    @classmethod
    def _compiles(cls, pattern: str) -> str:
        require_pattern(pattern, r"for all tables of shop_1, shop_2, … write 'shop_\d+\..*'")
        return pattern

    @model_validator(mode="after")
    def _known_fields(self) -> MergeIntoConfig:
        known = (*TABLE_FIELDS, *re.compile(self.tables).groupindex)
        for name in ("namespace", "table", "shard"):
            require_fields(getattr(self, name), known, f"merge_into.{name}: ")
        return self

    def matches(self, table: TableName) -> bool:
        """Returns whether a table is one of them."""
        return re.fullmatch(self.tables, table.qualified) is not None

    def lake_name(self, table: TableName) -> LakeName:
        """Returns the lake table that it is merged into."""
        return stored_lake_name(
            self._filled(self.namespace, table), self._filled(self.table, table)
        )

    def shard_of(self, table: TableName) -> Shard:
        """Returns the shard that distinguishes its rows from those of the others.

        A value that cannot name a folder is substituted, see `cdc_assets.changes.names`.
        """
        return Shard(self.shard_column, stored_value(self._filled(self.shard, table)))

    def _filled(self, template: str, table: TableName) -> str:
        """Fills in a template with the fields of a matching table."""
        match = re.fullmatch(self.tables, table.qualified)
        groups = {name: text or "" for name, text in (match.groupdict() if match else {}).items()}
        return template.format_map({**groups, **fields_of(table)})


class SourceConfig(Strict):
    """One stream of change topics with one format and (optionally) one database behind it.

    Attributes:
        format: wire format of the records.
        topics: topics of the source.
        database: database of the source.
        target: names of the lake tables.
        merge_into: rules by which several tables are merged into one.
        slo: promised latency.
        mode: content of the lake tables: current rows, each change, or each version. Fixed at
            creation.
        initial: origin of a new table's rows. ``log``: the connector's snapshot. ``read``: the
            database; needs ``database`` and ``topics.prefix``.
        schema_changes: reactions to changes of the source's columns: one word for all kinds, or one
            each.
        on_incompatible: reaction to a type that does not fit. ``new_column``: values continue in
            ``name__v2``.
        dropped_columns: ``drop``: the lake drops a column that the source has dropped.
        dropped_table: ``drop``: the catalog drops a table that the source dropped, after all
            changes are merged. Files stay.
        recreated_table: reaction to another table of the same name. ``truncate`` deletes older rows
            where statements give the position. ``keep``: one table.
        renamed_table: ``follow``: lake table and asset continue with the new name's topic. ``new``:
            a new table.
        silent_changes: reactions to rows that changed without events; one word for all kinds, or
            one for each.
        unbounded_numeric: stored type of decimals without precision, such as ``decimal(38,10)``.
            Default: as text.
        bad_records: reaction to a record that cannot be merged. ``quarantine``: set it aside and
            merge the others.
        quarantine: size of the quarantine.
        lost_start: reaction to a new table's topic that does not begin at offset 0. ``accept``:
            only if it begins with a whole snapshot.
        tables: settings of single tables, by ``schema.table`` or a pattern with ``*`` and ``?``.
        connector: the connector's settings for values.
        batch: size and time limits of batches.
        transactions: waiting for transactions that have not ended.
        consistent: cuts of all tables of the source.
        maintenance: maintenance of the lake tables.
        verify: comparison with the source.
        resnapshot: reads of the source's rows.
        connect: Kafka Connect.
        schema_registry: registry of Avro schemas.
        assess: accepted findings.
    """

    format: str
    topics: TopicsConfig
    database: DatabaseConfig | None = None
    target: TargetConfig = TargetConfig()
    merge_into: Annotated[tuple[MergeIntoConfig, ...], Field(strict=False)] = ()
    slo: SloConfig = SloConfig()
    mode: ModeName = "mirror"
    initial: Initial = "log"
    schema_changes: SchemaChangesOrMode = SchemaChanges()
    on_incompatible: OnIncompatible = "stop"
    dropped_columns: OnDropped = "keep"
    dropped_table: OnDropped = "keep"
    recreated_table: OnRecreated = "stop"
    renamed_table: OnRenamed = "follow"
    silent_changes: SilentChangesOrOne = SilentChanges()
    unbounded_numeric: str | None = None
    bad_records: Literal["fail", "quarantine"] = "fail"
    quarantine: QuarantineConfig = QuarantineConfig()
    lost_start: Literal["fail", "accept"] = "fail"
    tables: dict[str, TableOverrides] = Field(default_factory=dict)
    connector: ConnectorConfig = ConnectorConfig()
    batch: BatchConfig = BatchConfig()
    transactions: TransactionsConfig = TransactionsConfig()
    consistent: ConsistentConfig | None = None
    maintenance: MaintenanceConfig = MaintenanceConfig()
    verify: VerifyConfig = VerifyConfig()
    resnapshot: ResnapshotConfig = ResnapshotConfig()
    connect: ConnectConfig | None = None
    schema_registry: SchemaRegistryConfig | None = None
    assess: SourceAssessConfig = SourceAssessConfig()

    _laid_over: dict[TableName, TableOverrides] = PrivateAttr(
        default_factory=dict[TableName, TableOverrides]
    )

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
        if text is not None and not isinstance(column_type(text), Decimal):
            what = f"{text!r} is not a decimal"
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

    @model_validator(mode="after")
    def _rows_that_can_be_chosen(self) -> Self:
        for name, each in self.tables.items():
            self._require_choosable(name, each)
            schema, _, table = name.partition(".")
            if each.where is not None and self._merged(TableName("", schema, table)) is not None:
                what = f"tables.{name}.where: the table is merged into one with others (merge_into)"
                raise refuse(what, "leave where out, or give it a lake table of its own")
        return self

    def _require_choosable(self, name: str, each: TableOverrides) -> None:
        """Requires a mode in which rows can be chosen by a condition."""
        if each.where is None:
            return
        if (each.mode or self.mode) != "mirror" or each.deletes == "soft":
            what = f"tables.{name}.where: a row that no longer matches disappears, which only "
            what += "mode: mirror with deletes: hard does"
            raise refuse(what, "leave where out, or choose these")

    @model_validator(mode="after")
    def _one_layout_of_a_shared_table(self) -> Self:
        seen = dict[LakeName, tuple[str, LayoutConfig]]()
        for name, each in self.tables.items():
            schema, _, table = name.partition(".")
            merged = self._merged(TableName("", schema, table))
            if merged is None or each.layout == LayoutConfig():
                continue
            lake = merged.lake_name(TableName("", schema, table))
            other, layout = seen.setdefault(lake, (name, each.layout))
            if layout != each.layout:
                what = f"tables.{name}.layout: {other} is merged into the same table, with another"
                raise refuse(what, "give both the same layout, or only one of them a layout")
        return self

    @model_validator(mode="after")
    def _can_be_read_first(self) -> Self:
        """Refuses reads of first rows that have no database, or give no table of this mode."""
        given = {"": self.initial, **{f"tables.{n}.": t.initial for n, t in self.tables.items()}}
        name = next((name for name, each in given.items() if each == "read"), None)
        if name is None:
            return self
        if self.database is None or self.topics.prefix is None:
            lacks = "database" if self.database is None else "topics.prefix"
            what = f"{name}initial: read needs {lacks}, to find rows and the names of their topics"
            raise refuse(what, f"add {lacks}, or write initial: log")
        if self.merge_into:
            what = f"{name}initial: read makes whole tables, and merge_into merges several into one"
            raise refuse(
                what, "write initial: log, or make the tables of merge_into another source"
            )
        for table, each in {"": TableOverrides(), **self.tables}.items():
            mode = each.mode or self.mode
            if (each.initial or self.initial) == "read" and mode != "mirror":
                where = f"tables.{table}: " if table else ""
                what = f"{where}mode: {mode} is made of changes, which initial: read has not"
                raise refuse(what, "write initial: log there, which an entry under tables may do")
        return self

    @cached_property
    def _patterns(self) -> tuple[str, ...]:
        return tuple(name for name in self.tables if is_pattern(name))

    @property
    def modes(self) -> ConnectorModes:
        """The modes in which the connector of this source's database writes values."""
        return self.connector.modes_of(self.database.kind if self.database is not None else None)

    @property
    def publication(self) -> str | None:
        """The connector's publication, if it is configured."""
        return self.database.publication if self.database is not None else None

    def policy(self, table: TableName) -> Policy:
        """Returns the reactions to changes of a table's columns."""
        own = self.overrides(table)
        changes = own.schema_changes or self.schema_changes
        return Policy(
            **changes.reactions,
            new_column=(own.on_incompatible or self.on_incompatible) == "new_column",
            names=own.renames,
            given_up=frozenset(own.absent_columns),
            drops_columns=(own.dropped_columns or self.dropped_columns) == "drop",
        )

    def rebuild_command(self, table: TableName) -> str:
        """Returns the command that rebuilds a table whose log has lost a part, for people."""
        reads = self.database is not None and self.mode_of(table) is Mode.MIRROR
        return f"cdc-assets rebuild {table} {'--from-source, or ' if reads else ''}--from-snapshot"

    def mode_of(self, table: TableName) -> Mode:
        """Returns the mode of a table's lake table."""
        return Mode(self.overrides(table).mode or self.mode)

    def reads_first(self, table: TableName) -> bool:
        """Returns whether a new table's first rows are read from the database."""
        return (self.overrides(table).initial or self.initial) == "read"

    @property
    def reads_some_first(self) -> bool:
        """Whether the first rows of any table are read from the database."""
        return "read" in {self.initial, *(each.initial for each in self.tables.values())}

    def recreated(self, table: TableName) -> OnBreak:
        """Returns the treatment of rows once another table has taken a table's name."""
        return OnBreak(self.overrides(table).recreated_table or self.recreated_table)

    def silent(self, table: TableName) -> SilentPolicy:
        """Returns the treatment of a table whose rows changed at the source without events."""
        return (self.overrides(table).silent_changes or self.silent_changes).policy

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
        according to `cdc_assets.changes.names`, which substitutes odd ones.
        """
        if (merged := self._merged(table)) is not None:
            return merged.lake_name(table)
        return self.target.lake_name(table)

    def shard(self, table: TableName) -> Shard | None:
        """Returns the shard of its rows in a lake table of several source tables, else None."""
        merged = self._merged(table)
        return merged.shard_of(table) if merged is not None else None

    def _merged(self, table: TableName) -> MergeIntoConfig | None:
        return next((each for each in self.merge_into if each.matches(table)), None)

    def overrides(self, table: TableName) -> TableOverrides:
        """Returns the configuration of a table; an empty one if it is not listed.

        The settings of its own name are laid over those of the patterns that match the name.

        Raises:
            ConfigError: if two patterns contradict each other, or their settings do not fit.
        """
        known = self._laid_over.get(table)
        if known is None:
            known = self._laid_over[table] = self._overrides(table)
        return known

    def _overrides(self, table: TableName) -> TableOverrides:
        own = self.tables.get(table.qualified)
        found = {name: self.tables[name] for name in self._patterns if matches(name, table)}
        if not found:
            return own or TableOverrides()
        return combined(found, own, f"table={table}", self._require_choosable)

    @property
    def withholds(self) -> bool:
        """Whether a part of a record of any table must not get into the lake."""
        return any(each.withholds for each in self.tables.values())
