"""A start after anything: folders that were never finished, damaged ones, moved settings."""

import os
import pwd
import shutil
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from cdc_assets_devstack import demo, demo_parts, jars
from cdc_assets_devstack.layout import StackLayout
from cdc_assets_devstack.ports import pick_free_ports
from cdc_assets_devstack.postgres import Postgres
from cdc_assets_devstack.process import strays

from cdc_assets.errors import TerminalError
from cdc_assets_tests.devstack.test_process import gone
from cdc_assets_tests.waiting import until

CHECKOUT = Path(__file__).parents[2]


@pytest.fixture
def postgres(tmp_path_factory):
    """A server of this test only; no other part is needed, and no JVM."""
    part = Postgres(StackLayout(tmp_path_factory.mktemp("home"), pick_free_ports()))
    yield part
    part.stop()


def start(part: Postgres) -> None:
    part.bring_up(lambda _: None)


def execute(part: Postgres, statement: str) -> object:
    with psycopg.connect(part.dsn(), autocommit=True) as connection:
        found = connection.execute(statement.encode())
        return found.fetchone() if found.description else None


@pytest.mark.stack
@pytest.mark.parametrize("folder", ["postgres", "postgres.partial"])
def test_a_cluster_that_was_never_finished_is_made_anew(postgres, folder):
    half = postgres.layout.home / folder
    (half / "global").mkdir(parents=True)
    (half / "PG_VERSION").write_text("18\n")
    start(postgres)
    assert execute(postgres, "SELECT 1") == (1,)


@pytest.mark.stack
def test_an_initdb_that_outlived_a_killed_start_does_not_meddle_with_the_next(postgres, tmp_path):
    code = (
        "import sys\nfrom pathlib import Path\n"
        "from cdc_assets_devstack.layout import Ports, StackLayout\n"
        "from cdc_assets_devstack.postgres import Postgres\n"
        "layout = StackLayout(Path(sys.argv[1]), Ports(postgres=int(sys.argv[2])))\n"
        "Postgres(layout).bring_up(lambda _: None)"
    )
    home, port = postgres.layout.home, postgres.port
    with subprocess.Popen([sys.executable, "-c", code, str(home), str(port)]) as killed:
        until(lambda: strays(home, "postgres"), "initdb runs")
        killed.kill()
    orphans = strays(home, "postgres")
    start(postgres)
    assert execute(postgres, "SELECT 1") == (1,)
    assert all(gone(each.pid) for each in orphans)


@pytest.mark.stack
def test_a_damaged_cluster_is_never_replaced_by_an_empty_one(postgres):
    start(postgres)
    postgres.stop()
    (postgres.data / "global" / "pg_control").unlink()
    with pytest.raises(TerminalError, match=r"damaged.*postgres.*cdc-assets stack down"):
        start(postgres)
    assert any((postgres.data / "base").iterdir())


@pytest.mark.stack
def test_settings_that_a_person_moved_do_not_move_the_server(postgres):
    start(postgres)
    port = postgres.port
    for name, value in (("port", "1"), ("wal_level", "minimal"), ("listen_addresses", "''")):
        execute(postgres, f"ALTER SYSTEM SET {name} = {value}")
    postgres.stop()
    start(postgres)
    assert execute(postgres, "SHOW wal_level") == ("logical",)
    assert execute(postgres, "SHOW port") == (str(port),)


@pytest.mark.stack
def test_a_password_that_is_not_taken_is_said_at_once(postgres):
    start(postgres)
    execute(postgres, "ALTER USER postgres PASSWORD 'other'")
    postgres.stop()
    with pytest.raises(TerminalError, match=r"does not take the password.*secrets/postgres"):
        start(postgres)


@pytest.mark.stack
def test_a_killed_server_whose_process_id_another_program_has_is_started_again(postgres):
    start(postgres)
    postgres.stop()
    user = pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else None
    other = subprocess.Popen(["sleep", "600"], user=user, cwd="/")
    try:
        lock = postgres.data / "postmaster.pid"
        lock.write_text(f"{other.pid}\n{postgres.data}\n0\n{postgres.port}\n\n\n0 0\n")
        start(postgres)
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


@pytest.mark.unit
@pytest.mark.parametrize("damage", ["", "{", "[]", "null"])
def test_a_damaged_record_of_jars_means_that_they_are_resolved_again(tmp_path, damage):
    layout = StackLayout(tmp_path, jars=tmp_path)
    layout.jars_of("kafka").mkdir()
    (tmp_path / "kafka.lock.json").write_text(damage)
    assert not jars.is_installed(layout, "kafka")


@pytest.mark.unit
def test_an_instance_without_a_file_of_its_own_is_like_that_of_the_project(tmp_path):
    part = demo_parts.Dagster(StackLayout(tmp_path), 3000, tmp_path / "missing.yaml", {})
    part.prepare()
    made = (tmp_path / "dagster" / "dagster.yaml").read_text()
    assert made == (CHECKOUT / "dagster.yaml").read_text()
    assert shutil.which("dagster", path=part.command().env["PATH"])


@pytest.mark.unit
@pytest.mark.parametrize("file", demo.FILES.values(), ids=str)
def test_a_folder_without_a_configuration_gets_that_of_the_project(tmp_path, monkeypatch, file):
    monkeypatch.chdir(tmp_path)
    assert demo.written(file).read_text() == (CHECKOUT / file).read_text()
    file.write_text("of a person")
    assert demo.written(file).read_text() == "of a person"
