"""Decodes a batch's records, each with its own schema.

Records without a schema are decoded by the schema stored with the table. Schemas that give no
column two meanings are read as one, however many there are: a column that a record's own schema
lacks is not in the record.

Adds a table's shard to its decoded changes, as records do not hold it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_assets.changes.mode import Mode
from cdc_assets.changes.names import Shard
from cdc_assets.changes.position import LowWatermarks
from cdc_assets.formats.changes import Reading, decode
from cdc_assets.formats.format import Format
from cdc_assets.formats.order import OrderState
from cdc_assets.formats.spec import Own, ReadSpec
from cdc_assets.formats.writers import SchemaGroup, Writer, read_alike, read_apart, reads_as
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.registry import TableEntry, Taken
from cdc_assets.schema.types import Column, TableSchema


@dataclass(frozen=True, slots=True)
class Doubt:
    """Columns that records lack, though rows may hold values that the source still has.

    Attributes:
        columns: of the lake.
        is_known: whether the source was asked, and still has them.
        are_sent: whether a record has every column that its table has then, unless a statement or
            the catalog tells that it was dropped; else the record's own schema does, or nothing.
    """

    columns: tuple[Column, ...]
    is_known: bool
    are_sent: bool


@dataclass(frozen=True, slots=True)
class BatchDecoder:
    """Decodes the records of one batch.

    Attributes:
        raw: the records.
        plan: of the batch; rows are decoded to its schema.
        format: of the records.
        writers: the known schemas of the records, by number; empty if they carry none.
        may_lack: columns that these records may lack.
        doubt: those of them that records may lack only if no value is lost, which is not known
            yet; None if none is in doubt.
        salts: the salts of digests, by their marks.
    """

    raw: DataFrame
    plan: BatchPlan
    format: Format
    writers: Mapping[int, Writer] = field(default_factory=dict[int, Writer])
    may_lack: frozenset[str] = frozenset()
    doubt: Doubt | None = None
    salts: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    @property
    def omittable(self) -> tuple[str, ...]:
        """Columns that updates may leave out, according to any of the schemas or the format."""
        if self.format.leaves_out:
            return tuple(n for n in self.plan.schema.names if n not in self.plan.schema.key)
        marked = {c.name for c in self.plan.schema.columns if c.unchanged_marker}
        for each in self.writers.values():
            columns = each.schema.columns if each.schema else ()
            marked |= {each.homes.get(c.name, c.name) for c in columns if c.unchanged_marker}
        return tuple(name for name in self.plan.schema.names if name in marked)

    @property
    def tells_key_schema(self) -> bool:
        """Whether the records' keys may hold more than values."""
        return self.format.key_schema(self.plan.layout) is not None

    @property
    def doubtful(self) -> tuple[Column, ...]:
        """Columns in doubt."""
        return self.doubt.columns if self.doubt else ()

    def decode(
        self,
        low_watermarks: LowWatermarks,
        raw: DataFrame | None = None,
        *,
        tombstone_keys: bool = False,
        parse_here: bool = True,
        tells_key_schema: bool = False,
    ) -> DataFrame:
        """Decodes all records; those without a known schema come with a rejection.

        Args:
            low_watermarks: see `cdc_assets.changes.position.low_watermark_at`.
            raw: other records of the table; None for the batch's own.
            tombstone_keys: whether to decode the keys of records without a value too.
            parse_here: see `ReadSpec`; observing the changes has the same effect.
            tells_key_schema: see `ReadSpec`.
        """
        spec = replace(
            self._spec,
            state=OrderState(low_watermarks, self.plan.epochs, self._firsts if raw is None else {}),
            tombstone_keys=tombstone_keys,
            parse_here=parse_here,
            tells_key_schema=tells_key_schema,
        )
        read = decode(self.raw if raw is None else raw, self._reading(spec))
        return in_shard(read, self.plan.entry.shard)

    @property
    def _spec(self) -> ReadSpec:
        """The spec of the table's own columns."""
        plan, table = self.plan, self.plan.schema.of_source
        return ReadSpec(
            schema=_by_any_name(table),
            layout=plan.layout,
            target=table,
            table=plan.entry.table,
            omittable=self.omittable,
            may_lack=self.may_lack,
            records_reads=plan.mode is Mode.CHANGELOG,
            doubtful=frozenset(each.name for each in self.doubtful),
            homes=_differing(table.by_any_name),
            own=_own(plan.entry, self.format),
            salts=self.salts,
        )

    def _reading(self, spec: ReadSpec) -> Reading:
        unreadable = tuple(each.number for each in self.writers.values() if each.schema is None)
        return Reading(self.format, self._specs(spec), unreadable)

    def _specs(self, spec: ReadSpec) -> tuple[ReadSpec, ...]:
        """Returns one spec for each group of schemas, and one for records without a schema.

        Records without a schema are read along with a group that reads the table's own columns
        as the table does, if there is one.
        """
        if not self.format.reads_alike:
            groups = [self._of(group, spec) for group in read_apart(self.writers)]
        else:
            groups = [self._of(group, spec) for group in read_alike(self.writers)]
            same = [group for group in groups if _reads_as(group, spec)]
            if same and not self.format.names_schemas:
                return (*(group for group in groups if group is not same[0]), same[0])
        alone = self.format.names_schemas and bool(groups)
        return (*groups, replace(spec, has_rows=not alone))

    def _of(self, group: SchemaGroup, spec: ReadSpec) -> ReadSpec:
        """Returns the spec for the records of these schemas."""
        key = tuple(n for n in group.schema.names if group.homes.get(n, n) in spec.target.key)
        schema = replace(group.schema, key=key)
        lacks = self._lacks(group, spec)
        has_rows = any(not self.writers[number].is_of_key for number in group.writers)
        return replace(
            spec,
            schema=schema,
            writers=group.writers,
            lacks=lacks,
            has_rows=has_rows,
            homes=group.homes,
        )

    def _lacks(self, group: SchemaGroup, spec: ReadSpec) -> dict[int, tuple[str, ...]]:
        """Returns, by schema, the expected columns that it lacks; empty if none lacks any."""
        found: dict[int, tuple[str, ...]] = {}
        for number in group.writers:
            writer = self.writers[number]
            if not writer.is_of_key and writer.schema is not None:
                there = {c.sent_as for c in spec.target.columns if c.name in writer.column_names}
                gone = {c.sent_as for c in spec.target.columns} - there
                found[number] = tuple(name for name in spec.expected if name in gone)
        return found if any(found.values()) else {}

    @property
    def _firsts(self) -> Mapping[int, int]:
        """First offsets by partition, with the record before each range (`BatchPlan.context`)."""
        return {each.partition: max(each.start - 1, 0) for each in self.plan.ranges}


def _own(entry: TableEntry, fmt: Format) -> Own | None:
    """Returns what tells a table's records; None if all of its topic's are its own."""
    if entry.taken is Taken.ALL or not fmt.names_tables:
        return None
    return Own(entry.at_source, is_named=entry.taken is Taken.NAMED, is_shared=entry.is_shared)


def _by_any_name(table: TableSchema) -> TableSchema:
    """Returns the table as in records without a schema, where renamed columns have either name."""
    sent = table.as_sent
    former = (
        replace(each, name=name, required=False)
        for each in table.columns
        for name in each.identity.formerly
        if name not in sent.names
    )
    return replace(sent, columns=(*sent.columns, *former))


def _reads_as(one: ReadSpec, spec: ReadSpec) -> bool:
    return not spec.present_names and one.homes == spec.homes and reads_as(one.schema, spec.schema)


def _differing(names: Mapping[str, str]) -> dict[str, str]:
    return {sent: name for sent, name in names.items() if sent != name}


def in_shard(decoded: DataFrame, shard: Shard | None) -> DataFrame:
    """Adds the shard to the keys and rows of changes, in first place, as in the lake table.

    Args:
        decoded: of `cdc_assets.formats.changes.decode`, of a table with a key.
        shard: of the table; None if it has a lake table of its own.
    """
    if shard is None:
        return decoded
    value = F.lit(shard.value).alias(shard.column)

    def of_shard(name: str) -> Expression:
        fields = F.struct(value, F.col(f"{name}.*"))
        return F.when(F.col(name).isNotNull(), fields)

    return decoded.withColumns({name: of_shard(name) for name in ("key", "old_key", "row")})
