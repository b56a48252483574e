"""The registry: merged, locked, replaced atomically, refused when two tables collide."""

import multiprocessing
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import fsspec
import pytest

from cdc_assets.changes.names import LakeName, Shard, TableName
from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.changes.renamed import RenamedTable
from cdc_assets.errors import TerminalError, UnreachableError
from cdc_assets.files import take_lock
from cdc_assets.operate.failure_book import FailureBook
from cdc_assets.operate.failures import FailureKind
from cdc_assets.registry import HOURS_START, Beginning, Dropped, Registry, RegistryFile, TableEntry
from cdc_assets.registry.document import from_document, to_document

THEN = datetime(2026, 11, 20, 12, tzinfo=UTC)


def entry(name, schema="public", target=None):
    target = target or LakeName(f"shop_{schema}", name)
    return TableEntry(TableName("shop", schema, name), f"shop.{schema}.{name}", target, THEN)


def add_many(url, worker):
    for number in range(10):
        RegistryFile(url).add([entry(f"t_{worker}_{number}")])


@pytest.mark.unit
def test_a_registry_that_is_not_there_is_empty(tmp_path):
    assert RegistryFile(str(tmp_path / "none" / "registry.json")).load() == Registry()


@pytest.mark.unit
@pytest.mark.parametrize("scheme", ["", "file://", "memory://"])
def test_what_is_added_is_found_again(tmp_path, scheme):
    file = RegistryFile(f"{scheme}{tmp_path}/deep/registry.json")
    file.add([entry("b"), entry("a")])
    file.add([entry("c")])
    assert RegistryFile(file.url).load().entries == (entry("a"), entry("b"), entry("c"))


@pytest.mark.unit
def test_a_known_table_keeps_its_entry(tmp_path):
    file = RegistryFile(str(tmp_path / "registry.json"))
    file.add([entry("a")])
    later = TableEntry(TableName("shop", "public", "a"), "other", LakeName("x", "y"), THEN)
    assert file.add([later]).entries == (entry("a"),)


@pytest.mark.unit
def test_where_a_table_begins_is_kept(tmp_path):
    file = RegistryFile(str(tmp_path / "registry.json"))
    file.add([entry("a"), entry("b")])
    begins = Beginning(OffsetVector.of({0: 7, 1: 0}), "topic")
    file.begin(entry("a").table, begins)
    again = RegistryFile(file.url).load()
    assert again.entries == (replace(entry("a"), begins=begins), entry("b"))
    assert file.add([entry("a")]).entries == again.entries
    assert begins.at_in("another") == OffsetVector()


@pytest.mark.unit
def test_the_hours_of_all_tables_begin_where_those_of_the_first_ones_do(tmp_path):
    file = RegistryFile(str(tmp_path / "registry.json"))
    assert file.load().hours_from is None
    first = datetime(2026, 11, 20, 9, tzinfo=UTC)
    file.add([replace(entry("a"), hours_from=first)])
    for hours in (-3, 5):
        file.add([replace(entry(f"b{hours}"), hours_from=first + timedelta(hours=hours))])
    again = RegistryFile(file.url).load()
    assert {each.hours_from for each in again} == {first}
    assert (again.hours_from, len(again)) == (first, 3)
    file.remove([entry("a").table])
    file.add([replace(entry("a"), hours_from=THEN)])
    assert {each.hours_from for each in file.load()} == {first}


@pytest.mark.unit
def test_hours_of_tables_that_were_registered_without_a_begin_begin_with_2026(tmp_path):
    path = tmp_path / "registry.json"
    file = RegistryFile(str(path))
    file.add([entry("a")])
    assert "hours_from" not in path.read_text(), "an earlier version wrote it so"
    file.add([replace(entry("b"), hours_from=THEN)])
    assert {each.hours_from for each in RegistryFile(file.url).load()} == {HOURS_START}


@pytest.mark.unit
@pytest.mark.parametrize("text", ["2026-11-20T09:30:00+00:00", "2020-01-01T00:00:00Z", "soon"])
def test_a_begin_that_is_no_hour_is_refused(tmp_path, text):
    path = tmp_path / "registry.json"
    file = RegistryFile(str(path))
    file.add([replace(entry("a"), hours_from=THEN)])
    path.write_text(
        path.read_text().replace(f'hours_from": "{THEN.isoformat()}', f'hours_from": "{text}')
    )
    with pytest.raises(TerminalError, match="not readable"):
        RegistryFile(file.url).load()


@pytest.mark.unit
def test_removed_tables_are_forgotten(tmp_path):
    file = RegistryFile(str(tmp_path / "registry.json"))
    file.add([entry("a"), entry("b")])
    assert file.remove([TableName("shop", "public", "a")]).entries == (entry("b"),)
    assert file.load().get(TableName("shop", "public", "a")) is None


@pytest.mark.unit
@pytest.mark.parametrize("name", ["orders", "ORDERS", "Orders"])
def test_two_tables_of_one_lake_name_are_refused_and_nothing_is_stored(tmp_path, name):
    file = RegistryFile(str(tmp_path / "registry.json"))
    file.add([entry("orders", target=LakeName("lake", "orders"))])
    with pytest.raises(TerminalError) as caught:
        file.add([entry(name, schema="other", target=LakeName("lake", name))])
    assert "shop.public.orders" in str(caught.value)
    assert f"shop.other.{name}" in str(caught.value)
    assert len(file.load()) == 1


def shard_of(name: str, value: str, column: str = "shard") -> TableEntry:
    return replace(entry(name, target=LakeName("lake", "all")), shard=Shard(column, value))


@pytest.mark.unit
def test_shards_share_a_lake_table_and_are_read_back(tmp_path):
    file = RegistryFile(str(tmp_path / "registry.json"))
    both = [shard_of("a", "1"), shard_of("b", "2")]
    file.add(both)
    assert list(file.load()) == both
    assert len({each.stem for each in both}) == 2
    assert entry("a").stem == entry("a").target


@pytest.mark.unit
@pytest.mark.parametrize(
    ("other", "words"),
    [
        (shard_of("b", "1"), "the same shard"),
        (shard_of("b", "2", column="other"), "would both be written"),
        (entry("b", target=LakeName("lake", "all")), "would both be written"),
        (replace(shard_of("b", "2"), target=LakeName("lake", "ALL")), "would both be written"),
    ],
    ids=["value", "column", "no shard", "case"],
)
def test_what_is_no_other_shard_of_it_is_refused(other, words):
    with pytest.raises(TerminalError, match=words) as refused:
        Registry.of([shard_of("a", "1"), other])
    assert "merge_into" in refused.value.remedy


@pytest.mark.unit
def test_no_table_is_called_as_what_lies_beside_a_shard():
    beside = entry("b", target=shard_of("a", "1").stem)
    with pytest.raises(TerminalError, match="cannot be distinguished"):
        Registry.of([shard_of("a", "1"), beside])


@pytest.mark.unit
def test_adding_nothing_new_does_not_write(tmp_path):
    file = RegistryFile(str(tmp_path / "registry.json"))
    file.add([entry("a")])
    before = (tmp_path / "registry.json").stat().st_mtime_ns
    file.add([entry("a")])
    assert (tmp_path / "registry.json").stat().st_mtime_ns == before


@pytest.mark.unit
@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"version": 1}', '{"version":1,"tables":[{}]}']
)
def test_a_damaged_registry_stops_with_a_remedy(tmp_path, content):
    (tmp_path / "registry.json").write_text(content)
    with pytest.raises(TerminalError, match="restore it from a copy"):
        RegistryFile(str(tmp_path / "registry.json")).load()


@pytest.mark.unit
def test_a_newer_registry_is_not_guessed_at(tmp_path):
    (tmp_path / "registry.json").write_text('{"version": 2, "tables": []}')
    with pytest.raises(TerminalError, match="version 2"):
        RegistryFile(str(tmp_path / "registry.json")).load()


@pytest.mark.unit
def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    file = RegistryFile(str(tmp_path / "file" / "registry.json"))
    with pytest.raises(UnreachableError, match="cannot be"):
        file.add([entry("a")])


@pytest.mark.slow
def test_concurrent_writers_lose_nothing_and_leave_no_rubbish(tmp_path):
    url = str(tmp_path / "registry.json")
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=add_many, args=(url, number)) for number in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(RegistryFile(url).load()) == 30
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "registry.json",
        "registry.json.lock",
    ]


@pytest.mark.slow
def test_a_reader_never_sees_half_a_document(tmp_path):
    url = f"memory://{tmp_path}/registry.json"
    RegistryFile(url).add([entry(f"t{number}") for number in range(1000)])
    files, path = fsspec.core.url_to_fs(url)
    assert from_document(files.cat_file(path).decode()) == RegistryFile(url).load()


@pytest.mark.slow
def test_the_registry_needs_neither_spark_nor_dagster():
    code = (
        "import sys, cdc_assets.registry, cdc_assets.config\n"
        "heavy = {'pyspark', 'dagster', 'pyiceberg', 'confluent_kafka'} & set(sys.modules)\n"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.unit
def test_a_lock_that_nobody_lets_go_is_given_up_and_named(tmp_path, monkeypatch):
    monkeypatch.setattr("cdc_assets.registry.file.LOCK_SECONDS", 0.2)
    file = RegistryFile(str(tmp_path / "registry.json"))
    with (tmp_path / "registry.json.lock").open("w") as held:
        assert take_lock(held, 0)
        with pytest.raises(UnreachableError, match=r"lock was not had within 0\.2 s.*json\.lock"):
            file.remove([])
    assert file.remove([]) == Registry()


@pytest.mark.unit
def test_what_nobody_finds_out_again_is_in_the_document():
    end = OffsetVector.of({0: 7})
    renamed = RenamedTable("public", "b", "s.public.b", "s.public.a", end, "former topic")
    undelivered = Dropped(THEN, place="0/16B3748", waits_for="slot s has confirmed 0/16B3748")
    made = Registry.of([
        replace(entry("a"), renamed=renamed),
        replace(entry("c"), dropped=undelivered),
        replace(entry("d"), dropped=Dropped(THEN, end, "topic")),
        replace(entry("e"), comment="It's\n\"odd\" ä"),
    ])  # fmt: skip
    assert from_document(to_document(made)) == made


@pytest.mark.unit
def test_documents_of_an_earlier_version_are_read():
    end = OffsetVector.of({0: 7})
    renamed = RenamedTable("public", "b", "s.public.b", "s.public.a", end)
    assert "topic_id" not in renamed.to_dict()
    assert RenamedTable.of_dict(renamed.to_dict()) == renamed


@pytest.mark.unit
def test_documents_and_their_folders_are_for_their_owner_alone(tmp_path):
    file = RegistryFile(str(tmp_path / "state" / "registry.json"))
    file.add([entry("orders")])
    assert (tmp_path / "state" / "registry.json").stat().st_mode & 0o777 == 0o600
    book = FailureBook.of_registry(file.url)
    book.record(TableName("shop", "public", "orders"), FailureKind.TERMINAL, "x", THEN)
    folder = tmp_path / "state" / "registry.failures"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [each.stat().st_mode & 0o777 for each in folder.iterdir()] == [0o600]
