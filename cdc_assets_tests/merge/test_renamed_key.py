"""A configured key whose column the source renames is still the key, in records of either name."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from cdc_assets.merge.intake.describe import TypeSource
from cdc_assets.schema.described import Described
from cdc_assets.schema.types import Column, Identity, Primitive, TableSchema, Wire
from cdc_assets_tests.configuration import platform, source, write
from cdc_assets_tests.world import entry_of

pytestmark = pytest.mark.unit

RENAMED = Column(
    "ident", Primitive.STRING, Wire.STRING, required=True, identity=Identity(formerly=("id",))
)


class Silent:
    """A database that is not configured, and a source without statements."""

    history = None

    def table(self, *_: object) -> None:
        """It is not known."""

    def facts(self, *_: object) -> None:
        """They are not known."""


@pytest.mark.parametrize("configured", ["id", "ident"])
@pytest.mark.parametrize("sent", ["id", "ident"])
def test_it_is_the_key_by_each_name_that_it_has_had(
    tmp_path: Path, sent: str, configured: str
) -> None:
    tables = {"public.orders": {"primary_key": [configured]}}
    config = write(
        tmp_path / "replication.yaml", platform(sources={"shop": source("shop", tables=tables)})
    )
    unused = cast("Any", None)
    types = TypeSource(config.source("shop"), unused, unused, cast("Any", Silent()))
    text = Column(sent, Primitive.STRING, Wire.STRING, unchanged_marker=True)
    said = Described((text,), (), "the record's schema")
    read = types.of_record(entry_of("orders", config), said, TableSchema((RENAMED,), ("ident",)))
    assert read.key == (sent,)
    assert not read.column(sent).unchanged_marker, "the text of the placeholder is data in a key"
