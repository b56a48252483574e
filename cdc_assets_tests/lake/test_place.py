"""Other tables whose files are below a table's location are found by their metadata."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import Table

from cdc_assets.changes.names import LakeName
from cdc_assets.lake.place import TablePlace, place_of
from cdc_assets_tests.configuration import NOWHERE
from cdc_assets_tests.lake_view import open_catalog
from cdc_assets_tests.world import World

pytestmark = pytest.mark.unit

ORDERS = LakeName("shop", "orders")


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path, NOWHERE)
    for n in range(3):
        made.publish(ORDERS, {0: n}, {0: n + 1})
    return made


def table(world: World, name: LakeName = ORDERS) -> Table:
    return open_catalog(world.config).load_table((name.namespace, name.name))


def metadata(world: World) -> Path:
    return Path(table(world).metadata_location.removeprefix("file://")).parent


def forget_and_make_anew(world: World) -> Table:
    """Another table at the place of one that was dropped; returns that one."""
    before = table(world)
    world.services.lake.drop(ORDERS)
    world.publish(ORDERS, {0: 0}, {0: 1})
    return before


def test_a_table_alone_has_its_place_to_itself(world: World) -> None:
    of_a_dead_writer = metadata(world) / "00009-left.metadata.json"
    newest = Path(table(world).metadata_location.removeprefix("file://"))
    of_a_dead_writer.write_bytes(newest.read_bytes())
    assert place_of(table(world)) == TablePlace(table(world).location(), ())


@pytest.mark.parametrize("through", ["fsspec", "pyarrow"])
def test_a_table_at_the_same_place_is_found(world: World, through: str) -> None:
    before = forget_and_make_anew(world)
    now = table(world)
    assert now.location() == before.location()
    if through == "pyarrow":
        now.io = PyArrowFileIO(now.io.properties)
    found = place_of(now).foreign
    assert before.metadata_location in found
    assert len(found) == 3, "one for each publish, and none without rows"
    assert now.metadata_location not in found


def test_a_table_in_a_folder_of_another_is_found(world: World) -> None:
    outer = table(world)
    inner = open_catalog(world.config).create_table(
        ("shop", "inner"), outer.schema(), location=f"{outer.location()}/inner"
    )
    assert place_of(outer).foreign == ()
    inner.append(outer.scan().to_arrow())
    assert place_of(outer).foreign == (inner.metadata_location,)


def test_metadata_that_is_compressed_is_read(world: World) -> None:
    before = forget_and_make_anew(world)
    own, newest = metadata(world), Path(before.metadata_location.removeprefix("file://"))
    packed = own / "00003-x.gz.metadata.json"
    packed.write_bytes(gzip.compress(newest.read_bytes()))
    assert f"{before.location()}/metadata/{packed.name}" in place_of(table(world)).foreign


@pytest.mark.parametrize(
    ("location", "expected"),
    [("file:///w/t", False), ("hdfs://n/w/t", False), ("/w/t", False), ("s3://b/w/t", True),
     ("gs://b/w/t", True), ("abfss://c@a/w/t", True)],
)  # fmt: skip
def test_stores_are_listed_by_prefix(location: str, expected: bool) -> None:
    assert TablePlace(location, ()).is_listed_by_prefix is expected


def test_half_a_file_of_a_dead_writer_is_no_table(world: World) -> None:
    (metadata(world) / "00009-left.metadata.json").write_bytes(b'{"format-version":')
    (metadata(world) / "00009-left.gz.metadata.json").write_bytes(gzip.compress(b"{}")[:12])
    assert place_of(table(world)).foreign == ()


def test_what_cannot_be_read_is_not_taken_for_nothing(world: World) -> None:
    (metadata(world) / "00009-no-file.metadata.json").mkdir()
    with pytest.raises(OSError, match="directory"):
        place_of(table(world))
