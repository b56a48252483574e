"""What a source says of columns: which are dropped, and which have other values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest

from cdc_assets.changes.names import LakeName, TableName
from cdc_assets.changes.offsets import Coordinate
from cdc_assets.config import SourceConfig
from cdc_assets.databases.catalog import ColumnFacts
from cdc_assets.formats.ddl import read_statement
from cdc_assets.lake.at_source import AtSource
from cdc_assets.merge.intake.source_facts import SourceAnswers
from cdc_assets.merge.intake.unlogged_changes import by_statements
from cdc_assets.registry import TableEntry
from cdc_assets.schema.ddl import Ddl, Relation
from cdc_assets.schema.history import StatementHistory
from cdc_assets.schema.silent import CatalogLook
from cdc_assets.schema.types import Column, Decimal, Identity, Primitive, TableSchema, Wire
from cdc_assets_tests.configuration import source

pytestmark = pytest.mark.unit

NOW = datetime(2026, 3, 4, 12, tzinfo=UTC)
ENTRY = TableEntry(TableName("s", "shop", "t"), "s.shop.t", LakeName("n", "t"), NOW)


@dataclass
class Numbering:
    """Of a PostgreSQL with one table: its columns, by their numbers."""

    columns: dict[str, int]
    facts: dict[str, ColumnFacts] = field(init=False)

    def __post_init__(self) -> None:
        self.facts = {name: ColumnFacts(number) for name, number in self.columns.items()}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.columns)

    def unpublished(self, publication: str | None) -> dict[str, str]:
        return {}

    def read(self, tables: Iterable[TableName]) -> dict[TableName, Numbering]:
        return dict.fromkeys(tables, self)


def asked(monkeypatch: pytest.MonkeyPatch, **columns: int) -> SourceAnswers:
    catalog = Numbering(columns)
    monkeypatch.setattr("cdc_assets.merge.intake.source_facts.catalog_of", lambda _: catalog)
    said = {**source("s"), "database": {"kind": "postgres", "dsn": {"env": "SHOP_DSN"}}}
    return SourceAnswers(SourceConfig.model_validate(said))


def test_a_column_that_was_renamed_is_not_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records from before it was added lack it under either name."""
    answers = asked(monkeypatch, id=1, remark=3)
    assert answers.absence(ENTRY, {"note": 3}).dropped == ()
    assert answers.absence(ENTRY, {"note": 2}).dropped == ("note",)
    assert answers.absence(ENTRY, {"note": 0}).dropped == ("note",), "unknown numbers are none"
    assert answers.absence(ENTRY, {"id": 1}).dropped == ()


def told(*texts: str) -> StatementHistory:
    history = StatementHistory(topic="t", numbers={"id": 1, "price": 2}, last=2)
    for offset, text in enumerate(texts):
        parsed = read_statement(text, "mysql", "shop")
        ddl = Ddl(text, parsed, "", None, Coordinate("s", 0, offset), tells_tables=True)
        history = history.after(ddl, Relation("shop", "t"))
    return history


def test_statements_tell_which_column_is_dropped_or_renamed() -> None:
    history = told("ALTER TABLE t CHANGE price cost int", "ALTER TABLE t DROP id")
    answers = SourceAnswers(SourceConfig.model_validate(source("s")), history)
    for number in (0, 1):
        assert answers.absence(ENTRY, {"id": number}).dropped == ("id",)
    for number in (0, 2):
        assert answers.absence(ENTRY, {"price": number}).dropped == ()
    reused = told("ALTER TABLE t CHANGE price cost int", "ALTER TABLE t ADD price int",
                  "ALTER TABLE t DROP price")  # fmt: skip
    answers = SourceAnswers(SourceConfig.model_validate(source("s")), reused)
    assert answers.absence(ENTRY, {"price": 2}).dropped == ()
    assert answers.absence(ENTRY, {"price": 3}).dropped == ("price",)


@pytest.mark.parametrize("is_looked_at", [False, True])
@pytest.mark.parametrize(
    ("statements", "columns"),
    [
        (["CHANGE price cost decimal(9,1)"], ("cost",)),
        (["RENAME COLUMN price TO cost", "MODIFY cost decimal(9,1)"], ("cost",)),
        (["CHANGE price cost decimal(12,2)"], ()),
        (["MODIFY price decimal(9,1)", "CHANGE price cost decimal(9,1)"], ("price", "cost")),
        (["MODIFY unknown decimal(9,1)"], ()),
    ],
)
def test_a_column_that_is_renamed_and_narrowed_has_other_values(
    statements: list[str], columns: tuple[str, ...], *, is_looked_at: bool
) -> None:
    price = Column("price", Decimal(9, 2), Wire.DECIMAL_BYTES)
    table = TableSchema((Column("id", Primitive.INT, Wire.INT), price), ("id",))
    look = CatalogLook({"price": ("price", "decimal(9,2)", "", "")}) if is_looked_at else None
    history = told(*(f"ALTER TABLE t {each}" for each in statements))
    found = by_statements(history, AtSource(look=look), table)
    assert tuple(name for each in found for name in each.columns) == columns


def test_a_name_that_passes_on_is_that_of_the_column_before() -> None:
    price = Column("price", Decimal(9, 2), Wire.DECIMAL_BYTES, identity=Identity(number=2))
    id_ = Column("id", Primitive.INT, Wire.INT, identity=Identity(number=1))
    history = told("ALTER TABLE t CHANGE price cost decimal(9,1), CHANGE id price bigint")
    (found,) = by_statements(history, AtSource(), TableSchema((id_, price), ("id",)))
    assert found.columns == ("cost",)
