"""A table that has another primary key by now stops, unless the lake still tells rows apart."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from cdc_assets.databases.catalog import ColumnFacts
from cdc_assets.errors import TerminalError
from cdc_assets.merge.intake.describe import TypeSource
from cdc_assets.schema.types import Column, Identity, Primitive, TableSchema, Wire
from cdc_assets_tests.configuration import platform, source, write
from cdc_assets_tests.world import entry_of

pytestmark = pytest.mark.unit


@dataclass
class There:
    """The table as its catalog has it, whose columns are numbered from 1 on."""

    primary_key: tuple[str, ...]
    names: tuple[str, ...] = ("id", "region", "code")
    unique: tuple[str, ...] = ()
    history: None = field(default=None, init=False)

    def identifies(self, key: list[str]) -> bool:
        return {*key} in ({*self.primary_key}, {*self.unique})

    def known_table(self, _: object) -> There | None:
        return self if self.names else None

    def facts(self, _: object) -> dict[str, ColumnFacts]:
        return {name: ColumnFacts(number) for number, name in enumerate(self.names, 1)}


def lake(*names: str, key: tuple[str, ...] = ("id",), numbered: bool = True) -> TableSchema:
    columns = (
        Column(name, Primitive.STRING, Wire.STRING, identity=Identity(number=numbered * number))
        for number, name in enumerate(names, 1)
    )
    return TableSchema(tuple(columns), key)


ALL = ("id", "region", "code")


@pytest.mark.parametrize("numbered", [False, True])
@pytest.mark.parametrize(
    ("there", "columns", "key", "stops"),
    [
        pytest.param(There(("id",)), ALL, ("id",), False, id="the same"),
        pytest.param(There(("id", "region")), ALL, ("id",), True, id="longer"),
        pytest.param(There(("code",)), ALL, ("id",), True, id="another"),
        pytest.param(There(("id",)), ALL, ("region", "id"), False, id="shorter"),
        pytest.param(There(()), ALL, ("id",), False, id="none any more"),
        pytest.param(There(("id", "region")), ("id",), ("id",), False, id="of a column to come"),
        pytest.param(There(("code",), unique=("id",)), ALL, ("id",), False, id="unique as well"),
        pytest.param(There(("id",)), ALL, (), False, id="a keyless table"),
        pytest.param(There((), ()), ALL, ("id",), False, id="not asked"),
    ],
)
def test_a_table_stops_if_its_key_no_longer_tells_rows_apart(
    tmp_path: Path,
    there: There,
    columns: tuple[str, ...],
    key: tuple[str, ...],
    *,
    stops: bool,
    numbered: bool,
) -> None:
    table = lake(*columns, key=key, numbered=numbered)
    for configured in ([], ["id"]):
        tables = {"public.orders": {"primary_key": configured}} if configured else {}
        shop = source("shop", tables=tables)
        config = write(tmp_path / "replication.yaml", platform(sources={"shop": shop}))
        unused = cast("Any", None)
        types = TypeSource(config.source("shop"), unused, unused, cast("Any", there))
        if stops and not configured:
            with pytest.raises(TerminalError, match="rows is id: rows that differ"):
                types.require_same_key(entry_of("orders", config), table)
        else:
            types.require_same_key(entry_of("orders", config), table)


def test_a_configured_key_counts_only_if_it_is_the_lakes(tmp_path: Path) -> None:
    """The key is fixed at creation: naming the new primary key gives the lake's rows no other."""
    named = Column("region", Primitive.STRING, Wire.STRING, identity=Identity(formerly=("area",)))
    was_area = TableSchema((lake("id").column("id"), named), ("id", "region"))
    there, unused = There(("code",)), cast("Any", None)
    for key, table, stops in (
        (["id"], lake(*ALL), False),
        (["code"], lake(*ALL), True),
        (["id", "code"], lake(*ALL), True),
        (["id"], lake(*ALL, key=("id", "region")), True),
        (["region", "id"], lake(*ALL, key=("id", "region")), False),
        (["area", "id"], was_area, False),
    ):
        shop = source("shop", tables={"public.orders": {"primary_key": key}})
        config = write(tmp_path / "replication.yaml", platform(sources={"shop": shop}))
        at_source = replace(there, names=table.names) if table is was_area else there
        types = TypeSource(config.source("shop"), unused, unused, cast("Any", at_source))
        if stops:
            with pytest.raises(TerminalError, match="rows that differ"):
                types.require_same_key(entry_of("orders", config), table)
        else:
            types.require_same_key(entry_of("orders", config), table)


def test_a_renamed_key_is_the_same_one(tmp_path: Path) -> None:
    """No record has the new name yet."""
    config = write(tmp_path / "replication.yaml", platform(sources={"shop": source("shop")}))
    there, unused = There(("ident",), ("ident", "region")), cast("Any", None)
    types = TypeSource(config.source("shop"), unused, unused, cast("Any", there))
    types.require_same_key(entry_of("orders", config), lake("id", "region"))
    types.require_same_key(entry_of("orders", config), lake("id", "region", numbered=False))
