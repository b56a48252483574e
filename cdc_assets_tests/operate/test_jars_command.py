"""What a Spark server of one's own needs: the versions that the tests run with, and our jar."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cdc_assets_devstack.jars import CHECKSUMS
from click.testing import CliRunner

from cdc_assets import decode
from cdc_assets.cli import cli
from cdc_assets.operate.assess.parts import EXTENSIONS
from cdc_assets.operate.jars_command import needed_by, packages
from cdc_assets_tests.configuration import platform, source, write

pytestmark = pytest.mark.unit

ALWAYS = {"iceberg-spark-runtime-4.1_2.13", "spark-sql-kafka-0-10_2.13"}
POSTGRES, MARIADB = "postgresql", "mariadb-java-client"
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "compatibility.md"


def names(coordinates: tuple[str, ...]) -> set[str]:
    return {each.split(":")[1] for each in coordinates}


@pytest.fixture
def printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """What the command prints in a folder without a configuration."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CDC_ASSETS_CONFIG", raising=False)
    done = CliRunner().invoke(cli, ["jars"])
    assert done.exit_code == 0, done.output
    return done.output


def test_every_coordinate_is_in_the_local_servers_manifest_and_on_the_page() -> None:
    """By its checksum: the jar that the tests run with is named for name and version."""
    installed = json.loads(CHECKSUMS.read_text())["spark"]
    for each in packages(needed_by(None)):
        _, name, version = each.split(":")
        assert f"{name}-{version}.jar" in installed
        assert f"`{each}`" in PAGE.read_text() or f"`{name}:{version}`" in PAGE.read_text()


def test_without_a_configuration_the_drivers_of_all_databases_are_named(printed: str) -> None:
    assert names(packages(needed_by(None))) == {*ALWAYS, POSTGRES, MARIADB}
    assert all(each in printed for each in packages(needed_by(None)))


def test_the_line_that_starts_a_server_has_our_jar_and_setting(printed: str) -> None:
    assert f"--packages {','.join(packages(needed_by(None)))} \\\n" in printed
    assert f"--jars {decode.JAR} \\\n" in printed
    assert f"--conf spark.sql.extensions={EXTENSIONS}\n" in printed
    assert f"build {decode.digest()}\n" in printed


@pytest.mark.parametrize(
    ("kind", "driver"), [("postgres", POSTGRES), ("mysql", MARIADB), ("mariadb", MARIADB)]
)
def test_a_configuration_names_the_drivers_of_its_databases(
    tmp_path: Path, kind: str, driver: str
) -> None:
    database = {"kind": kind, "dsn": {"env": "NOT_SET"}}
    sources = {"shop": source("shop", database=database), "other": source("other")}
    config = write(tmp_path / "replication.yaml", platform(sources=sources))
    assert names(packages(needed_by(config))) == {*ALWAYS, driver}


def test_a_lake_in_s3_needs_its_client(tmp_path: Path) -> None:
    lake = {"catalog": {"type": "rest", "uri": "http://127.0.0.1:1"}, "warehouse": "s3://a/b"}
    document = platform(sources={"shop": source("shop")}, lake=lake)
    config = write(tmp_path / "replication.yaml", document)
    assert names(packages(needed_by(config))) == {*ALWAYS, "iceberg-aws-bundle"}


def test_a_broken_configuration_is_told_and_not_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "replication.yaml"
    file.write_text("kafka: {}\n")
    done = CliRunner().invoke(cli, ["--config", str(file), "jars"])
    assert done.exit_code != 0
    assert "replication.yaml" in str(done.exception)


def test_the_path_alone_is_printed_for_scripts() -> None:
    done = CliRunner().invoke(cli, ["jars", "--path"])
    assert done.output == f"{decode.JAR}\n"
    assert decode.JAR.is_file()
