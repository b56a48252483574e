"""What a catalog knows of a column beside its type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from cdc_assets.schema.existing import UNTOLD, implied, of_text
from cdc_assets.schema.types import Column, Existing


@dataclass(frozen=True, slots=True)
class Facts:
    """Of one column.

    Attributes:
        number: which a rename keeps, and no other column of the table ever gets; 0 of databases
            that have none.
        existing: what rows have that are older than the column, as the database writes it; None if
            they have none, or nothing tells it.
        is_untold: older rows may have a value, and nothing tells which.
        is_implied: older rows have the value that the type implies.
        tells_rows: something of this is known; false where there is only the number.
    """

    number: int = 0
    existing: str | None = None
    is_untold: bool = False
    is_implied: bool = False
    tells_rows: bool = True


def with_number(column: Column, facts: Facts | None) -> Column:
    """With its number in the database's catalog."""
    number = facts.number if facts is not None else 0
    return replace(column, identity=replace(column.identity, number=number))


def numbered(facts: Mapping[str, Facts], numbers: Mapping[str, int]) -> dict[str, Facts]:
    """With the numbers of columns, by all names that they ever had."""
    nothing = Facts(tells_rows=False)
    more = {name: replace(facts.get(name, nothing), number=n) for name, n in numbers.items()}
    return {**facts, **more}


def told(
    column: Column,
    facts: Facts | None,
    texts: Mapping[str, str | None],
    *,
    is_merged: bool,
    implies: bool,
) -> Column:
    """A new column, with its number and what older rows have in it.

    Args:
        column: by its name in records; its ``existing`` is what a record's schema tells.
        facts: of the catalog; None without one.
        texts: what a person says that older rows have, by the name; None for nothing.
        is_merged: its table is merged with others into one, in whose rows a value would be put too.
        implies: the database is one that gives a column without a default a value of its own.
    """
    column = with_number(column, facts)
    if column.name in texts:
        text = texts[column.name]
        return replace(column, existing=None if text is None else of_text(text, column))
    existing = column.existing
    if facts is not None and facts.tells_rows:
        existing = _existing(facts, column)
    elif existing is None and column.required and implies:
        existing = UNTOLD  # it may have a default, which records do not always tell
    return replace(column, existing=UNTOLD if existing and is_merged else existing)


def _existing(facts: Facts, column: Column) -> Existing | None:
    if facts.is_untold:
        return UNTOLD
    if facts.existing is not None:
        return of_text(facts.existing, column)
    return implied(column) if facts.is_implied else None
