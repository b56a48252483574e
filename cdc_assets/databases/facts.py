"""What a catalog knows of a column beside its type."""

from __future__ import annotations

from dataclasses import dataclass


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
    """

    number: int = 0
    existing: str | None = None
    is_untold: bool = False
    is_implied: bool = False
