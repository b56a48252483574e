"""Plans the changes that a table needs to hold the columns that the source now sends.

An evolution is planned here and executed elsewhere. Only lossless steps exist; every other
difference is refused, and stops the table before anything is written.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from cdc_assets.schema.existing import promoted
from cdc_assets.schema.homes import free_name, home_of, homes, under
from cdc_assets.schema.policy import Policy, Reaction
from cdc_assets.schema.promotions import converts, fits, reads_otherwise, says_more
from cdc_assets.schema.table_changes import (
    Added,
    Change,
    EvolutionPlan,
    KeptType,
    LeftOutColumn,
    Refused,
    RenamedColumn,
    Replaced,
    Widened,
    evolved,
)
from cdc_assets.schema.types import Column, Identity, Primitive, TableSchema, Wire


@dataclass(frozen=True, slots=True)
class _Planning:
    lake: TableSchema
    seen: TableSchema
    policy: Policy
    by_catalog: bool

    def of(self, column: Column) -> Change | Refused | None:
        """Returns a column's needed change, or why it is impossible; None if none is needed."""
        if column.name in self.lake.left_out:
            return None
        home = home_of(self.lake, column, self.seen.names)
        if home is not None and _is_another(home, column):
            return Refused(
                f"column {column.name} was dropped and added again: it is unknown which of the two "
                "columns the lake's values and the records' values belong to",
                page="column-confused",
            )
        renamed = self._renamed(column)
        if renamed is not None or home is None:
            return renamed or self._added(column)
        if self.by_catalog and reads_otherwise(home, column):
            return Refused(
                f"column {home.name}: {_as_sent(home)} has become {_as_sent(column)}, and nothing "
                "tells which records are from before and which from after"
            )
        if home.type is Primitive.STRING and column.wire is Wire.DECIMAL_TEXT:
            return None  # a number as text, stored as such before its type was known
        if fits(column.type, home.type):
            more = self.by_catalog and says_more(home, column)
            return self._widened(home, column) if more else None
        if fits(home.type, column.type):
            return self._widened(home, column)
        return self._replaced(home, column)

    def _renamed(self, column: Column) -> Change | Refused | None:
        """Finds a column's rename by its number in the catalog, which a rename keeps."""
        number = column.identity.number
        mine = (c for c in self.lake.columns if number and c.identity.number == number)
        was = next((c for c in mine if c.sent_as not in self.seen.names), None)
        if was is None:
            return None
        if self.policy.rename is Reaction.STRICT:
            return Refused(f"column {was.sent_as} is called {column.name} now")
        others = [each for each in self._others(was) if each.identity.number != number]
        if any(column.name in each.identity.formerly for each in others):
            return _once_others(column)
        formerly = tuple(n for n in (was.sent_as, *was.identity.formerly) if n != column.name)
        identity = replace(was.identity, name=column.name, formerly=formerly)
        if self.policy.rename is Reaction.IGNORE:
            return RenamedColumn(_sent_as(was, identity), was.name)
        wanted = self.policy.names.get(column.name, column.name)
        if self._is_of_shards(wanted):
            return _called_as_shards(column)
        name = free_name(wanted, _taken(self._others(was)))
        if name == was.name:
            return RenamedColumn(_sent_as(was, identity), was.name)
        turn = 1 + max(each.identity.turn for each in self.lake.columns)
        identity = replace(identity, was=(was.name, *was.identity.was), turn=turn)
        return RenamedColumn(_sent_as(replace(was, name=name), identity), was.name)

    @property
    def _lacked(self) -> Iterable[Column]:
        """Columns of the lake that records should have, but have under no name."""
        numbers = {each.identity.number for each in self.seen.columns} - {0}
        found = map(self.lake.column, lacking(self.lake, self.seen))
        said = self.policy.given_up
        return (c for c in found if c.identity.number not in numbers and c.sent_as not in said)

    def _others(self, column: Column) -> Iterable[Column]:
        return (each for each in self.lake.columns if each is not column)

    def _added(self, column: Column) -> Change | Refused:
        if self.policy.add is Reaction.STRICT:
            return Refused(f"column {column.name} is new")
        if self.policy.add is Reaction.IGNORE:
            return LeftOutColumn(column.name)
        number = column.identity.number
        if any(
            column.name in each.identity.formerly or (number and each.identity.number == number)
            for each in self.lake.columns
        ):
            return _once_others(column)
        if doubtful := [each.sent_as for each in self._lacked if self._may_be_one(each, column)]:
            return Refused(
                f"column {column.name} is new, and {', '.join(doubtful)} is lacking: whether that "
                "is what it was called before the catalog does not tell any more (if it is not: "
                "tables.<schema.table>.absent_columns)",
                page="columns-in-doubt",
            )
        stays_empty = column.existing is not None and column.existing.is_empty
        if column.existing and column.existing.text is None and not stays_empty:
            return Refused(
                f"column {column.name} was added with a value for the rows that are older, "
                "which nothing tells (tables.<schema.table>.columns: {name: {existing: …}})",
                page="older-rows-unknown",
            )
        wanted = self.policy.names.get(column.name, column.name)
        if self._is_of_shards(wanted):
            return _called_as_shards(column)
        name = free_name(wanted, _taken(self.lake.columns))
        added = self._new(column, name)
        return Added(replace(added, existing=None) if stays_empty else added, stays_empty)

    def _may_be_one(self, home: Column, column: Column) -> bool:
        """Whether one without a number was renamed, or dropped, before it was read.

        Without a catalog that numbers columns, none has a number.
        """
        numbers = (home.identity.number, column.identity.number)
        every = (*self.lake.columns, *self.seen.columns)
        return not all(numbers) and any(each.identity.number for each in every)

    def _is_of_shards(self, name: str) -> bool:
        """Whether the lake's shard column has this name."""
        column = self.lake.shard_column
        return column is not None and name.casefold() == column.casefold()

    def _new(self, column: Column, name: str) -> Column:
        """Returns an optional column, of a later turn than columns that once had the name."""
        once = [c.identity.turn for c in self.lake.columns if name in c.identity.was]
        turn = 1 + max(once) if once else 0
        new = under(name, replace(column, required=False))
        return replace(new, identity=replace(new.identity, turn=turn))

    def _widened(self, home: Column, column: Column) -> Change | Refused:
        match self.policy.widen:
            case Reaction.EVOLVE:
                return Widened(_arriving_as(home, column))
            case Reaction.IGNORE if converts(column.type, home.type):
                return KeptType(home.name, home.type, column.type)
            case _:
                return Refused(f"column {home.name}: {home.type} has become {column.type}")

    def _replaced(self, home: Column, column: Column) -> Change | Refused:
        """Plans another column, but never for a key: two columns would be two keys."""
        in_key = home.name in self.lake.key
        if self.policy.incompatible is Reaction.IGNORE and converts(column.type, home.type):
            return KeptType(home.name, home.type, column.type)
        if self.policy.incompatible is Reaction.EVOLVE and self.policy.new_column and not in_key:
            name = _next_version(column.name, self.lake.columns)
            return Replaced(self._new(column, name), home.name)
        return Refused(f"column {home.name}: {home.type} cannot become {column.type} without loss")


def plan_evolution(
    lake: TableSchema,
    seen: TableSchema,
    policy: Policy,
    *,
    by_catalog: bool = False,
) -> EvolutionPlan:
    """Plans the changes that the lake's table needs to hold records of a schema.

    A column that the records lack stays; `cdc_assets.merge.intake.absent` decides what happens to
    its values. A column that is narrower in the records fits as it is, one that the table leaves
    out stays out, and their order does not matter.

    Args:
        lake: the present columns.
        seen: the columns of records, by their names there. If the catalog was asked, with their
            numbers in it, which distinguish a renamed column from a new one.
        policy: the reactions to differences.
        by_catalog: whether ``seen`` is what the database's catalog says of records without a
            schema. The meaning of their values must not have changed then: nothing shows which
            records are older than the change.
    """
    planning = _Planning(lake, seen, policy, by_catalog)
    changes: list[Change] = []
    refused: list[Refused] = []
    waiting = list(reversed(seen.columns))
    while waiting:
        column = waiting.pop()
        match planning.of(column):
            case None:
                pass
            case Refused() as reason:
                refused.append(reason)
            case change:
                changes.append(change)
                planning = replace(planning, lake=evolved(planning.lake, [change]))
                if isinstance(change, RenamedColumn):  # its type may have changed too
                    waiting.append(column)
    return EvolutionPlan(tuple(changes), tuple(refused))


def lacking(table: TableSchema, record: TableSchema) -> tuple[str, ...]:
    """Returns columns that a record should have, by the table's schema, but does not have.

    Of columns that are one column of the source (`Replaced`), it has all or none.
    """
    there = {table.column(name).sent_as for name in homes(table, record).values()}
    return tuple(name for name in table.expected if table.column(name).sent_as not in there)


def _is_another(home: Column, column: Column) -> bool:
    numbers = (home.identity.number, column.identity.number)
    return all(numbers) and numbers[0] != numbers[1]


def _once_others(column: Column) -> Refused:
    return Refused(
        f"column {column.name} has the former name of another column: records of the two cannot be "
        "distinguished",
        page="column-confused",
    )


def _called_as_shards(column: Column) -> Refused:
    return Refused(
        f"column {column.name} is called as the one that tells shards apart "
        "(merge_into.shard_column): exclude it, or give it another name in the lake "
        "(tables.<schema.table>.columns: {name: {rename: …}})"
    )


def _as_sent(column: Column) -> str:
    """Describes the column's type, and the scale of its values if that is another."""
    if column.detail is None or column.detail.scale is None:
        return str(column.type)
    return f"{column.type} of values with {column.detail.scale} digits after the point"


def _sent_as(column: Column, identity: Identity) -> Column:
    name = "" if identity.name == column.name else identity.name
    return replace(column, identity=replace(identity, name=name))


def _arriving_as(home: Column, column: Column) -> Column:
    """Returns the column with a record column's type and encoding."""
    return replace(
        home,
        type=column.type,
        wire=column.wire,
        element_wire=column.element_wire,
        detail=column.detail,
        existing=promoted(home.existing, home.type, column.type),
    )


def _taken(columns: Iterable[Column]) -> tuple[str, ...]:
    """Returns present and former names in the lake, which no other column may take."""
    return tuple(name for each in columns for name in (each.name, *each.identity.was))


def _next_version(name: str, columns: Iterable[Column]) -> str:
    """Returns ``name__v2``, or the next free name of this form."""
    taken, number = _taken(columns), 2
    while free_name(f"{name}__v{number}", taken) != f"{name}__v{number}":
        number += 1
    return f"{name}__v{number}"
