"""Runs the commands of how-to/run/run-dbt-models.md: PostgreSQL → Kafka → Spark → Iceberg → dbt.

dbt has an environment of its own. What a model holds is compared with the same question put to
PostgreSQL.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import dagster as dg
import psycopg
import pytest
import yaml
from cdc_assets_devstack.ports import pick_free_ports
from cdc_assets_devstack.stack import LocalStack

from cdc_assets.config import ReplicationConfig
from cdc_assets_tests.orchestration.deployment import dagster_running
from cdc_assets_tests.stack.replicated import CHECKOUT, Replicated, new_database, replicated
from cdc_assets_tests.test_packages import UV, built, uv
from cdc_assets_tests.toy.profiles import in_soak
from cdc_assets_tests.waiting import until

PAGE = (CHECKOUT / "docs/how-to/run/run-dbt-models.md").read_text()
EXAMPLE = CHECKOUT / "examples" / "dbt"
CONFIG = "src/shop_models/defs/shop/replication.yaml"
MODELS = ("customer_revenue", "revenue")
NAME = "dbtshop"
INDEX = ("Name or service not known", "Failed to fetch", "Could not connect", "Connection refused")

pytestmark = pytest.mark.timeout(2400)


class Block(NamedTuple):
    """A fenced block of the page."""

    language: str
    text: str


def blocks() -> Sequence[Block]:
    return [Block(*each) for each in re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.M | re.S)]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with this checkout, dbt and Dagster's webserver."""
    if not Path(UV).exists():
        pytest.skip("uv is not in .uv: make install")
    folder = tmp_path_factory.mktemp("dbt")
    try:
        dist = built(folder / "dist")
        uv("venv", str(folder / "env"), "--python", sys.executable)
        needed = yaml_list(EXAMPLE / "pyproject.toml")
        uv(
            *("pip", "install", "--python", str(folder / "env" / "bin" / "python")),
            *("--find-links", str(dist), *needed, "dbt-core<1.12"),
        )
    except AssertionError as error:
        if any(each in str(error) for each in INDEX):
            pytest.skip("there is no index that has dbt")
        raise
    return folder / "env" / "bin"


def yaml_list(pyproject: Path) -> Sequence[str]:
    import tomllib

    return tomllib.loads(pyproject.read_text())["project"]["dependencies"]


@pytest.fixture
def shop(stack: LocalStack, stack_config: ReplicationConfig) -> Iterator[Replicated]:
    stack.up(["spark"])
    dsn = new_database(stack, NAME, *(each for each in statements(0)))
    with replicated(stack, stack_config, NAME, dsn) as made:
        made.wait_until_delivered()
        yield made


def statements(n: int) -> Sequence[str]:
    """The statements of the page's block of SQL."""
    said = [each.text for each in blocks() if each.language == "sql"][n]
    return [each.strip() for each in said.split(";") if each.strip()]


@pytest.fixture
def project(shop: Replicated, stack: LocalStack, tmp_path: Path) -> Path:
    """The example, on the tests' stack; only where things are differs."""
    made = Path(shutil.copytree(EXAMPLE, tmp_path / "project"))
    (made / "dbt" / "models" / "sources.yml").unlink()
    assert shop.config.path is not None
    theirs = yaml.safe_load((made / CONFIG).read_text())
    ours = yaml.safe_load(shop.config.path.read_text())
    theirs["kafka"] = ours["kafka"]
    remote = f"sc://localhost:{stack.spark.endpoint.port}"
    theirs["spark"] = {"remote": remote, "token": {"env": "SPARK_TOKEN"}}
    theirs["sources"]["shop"]["topics"]["include"] = [rf"{NAME}\.public\..*"]
    (made / CONFIG).write_text(yaml.safe_dump(theirs))
    # A server that has a catalog of this name keeps it, so that the example's lake is the stack's.
    (made / ".cdc").mkdir()
    (made / ".cdc" / "lake").symlink_to(shop.config.path.parent / "lake")
    return made


class Shell:
    """A person's shell in the project's folder."""

    def __init__(self, project: Path, programs: Path, variables: Mapping[str, str]) -> None:
        left_out = {"PYTHONPATH", "CDC_ASSETS_CONFIG", "DAGSTER_HOME", "VIRTUAL_ENV"}
        kept = {name: each for name, each in os.environ.items() if name not in left_out}
        path = {"PATH": f"{programs}:{kept['PATH']}", "PYTHONPATH": str(project / "src")}
        patient = {"DAGSTER_GRPC_TIMEOUT_SECONDS": "600"}  # a busy machine starts runs slowly
        self.folder, self.environment = project, {**kept, **path, **patient, **variables}

    def run(self, command: str) -> str:
        if command.startswith("export "):
            said = (each.partition("=") for each in shlex.split(command)[1:])
            for name, _, value in said:
                self.environment[name] = value.replace("$PWD", str(self.folder))
            return ""
        done = subprocess.run(
            ["bash", "-c", command], cwd=self.folder, env=self.environment,
            capture_output=True, text=True, check=False, timeout=900,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout

    @contextmanager
    def running(self, command: str) -> Iterator[dg.DagsterInstance]:
        """A Dagster that is stopped again, and its instance."""
        port, path = pick_free_ports().connect, self.environment["PATH"]
        self.environment["CDC_ASSETS_WEBSERVER"] = f"http://127.0.0.1:{port}"
        words = [*shlex.split(command), "-h", "127.0.0.1", "-p", str(port)]
        words[0] = shutil.which("dagster", path=path) or "dagster"
        with dagster_running(words, self.folder, self.folder, self.environment) as instance:
            yield instance


def at_source(shop: Replicated) -> dict[str, object]:
    """What the model `revenue` is to say, asked of PostgreSQL."""
    with psycopg.connect(shop.dsn) as connection:
        found = connection.execute(
            "SELECT count(DISTINCT customer_id), sum(amount) FROM orders"
        ).fetchone()
    assert found is not None
    return {"customers": float(found[0]), "revenue": float(Decimal(found[1]))}


def built_by(instance: dg.DagsterInstance) -> dict[str, set[str]]:
    """The models by the runs that materialized them."""
    runs = dict[str, set[str]]()
    for model in MODELS:
        found = instance.fetch_materializations(dg.AssetKey(model), limit=100).records
        for each in found:
            runs.setdefault(each.run_id, set()).add(model)
    return runs


@in_soak
@pytest.mark.stack
def test_models_are_built_when_their_tables_have_changed(
    shop: Replicated, project: Path, programs: Path, stack: LocalStack
) -> None:
    token = stack.layout.secret("spark").read_text().strip()
    shell = Shell(project, programs, {"SPARK_TOKEN": token})
    commands = [
        line for each in blocks() if each.language == "sh" for line in each.text.splitlines()
    ]
    printed = [each.text for each in blocks() if each.language == "json"]
    (show,) = (each for each in commands if each.startswith("dbt show"))
    said = ""
    for command in commands[: commands.index("dagster dev")]:
        print(f"$ {command}")
        print(said := shell.run(command))
    (sources,) = (each.text for each in blocks() if each.text.startswith("# Written by"))
    assert (project / "dbt" / "models" / "sources.yml").read_text() == sources
    assert json.loads(said) == json.loads(printed[0]) == {"show": [at_source(shop)]}

    def shown() -> object:
        try:
            return json.loads(shell.run(show))["show"]
        except AssertionError:  # a run holds the file
            return None

    try:
        with shell.running("dagster dev") as instance:
            until(lambda: loaded(project), "the definitions are loaded", within_seconds=600)
            shop.execute(*statements(1))
            until(lambda: shown() == [at_source(shop)], "they follow", within_seconds=900)
            until(lambda: not busy(instance), "the models are at rest", within_seconds=300)
            found = built_by(instance)
            print(f"runs of models: {[sorted(each) for each in found.values()]}")
            assert all(each == {*MODELS} for each in found.values())
            last = shown()
        assert {"show": last} == json.loads(printed[1])
    except AssertionError:
        print((project / "dagster.log").read_text()[-20_000:])
        raise


def loaded(project: Path) -> bool:
    return "Serving dagster-webserver" in (project / "dagster.log").read_text()


def busy(instance: dg.DagsterInstance) -> bool:
    from cdc_assets.orchestration.keys import UNFINISHED

    unfinished = instance.get_runs(dg.RunsFilter(statuses=[*UNFINISHED]))
    return any({dg.AssetKey(each) for each in MODELS} & {*(run.asset_selection or ())}
               for run in unfinished)  # fmt: skip
