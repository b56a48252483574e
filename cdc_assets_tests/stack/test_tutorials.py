"""Each tutorial does what it says: its commands are taken from the page and run.

`make test` runs PostgreSQL's with the packages of this environment; a soak installs them by uv, and
runs the other pages too. A tutorial starts a stack of its own, on the ports that it names.
"""

from __future__ import annotations

import os
import re
import shlex
import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
from cdc_assets_devstack.layout import HOST, JARS_VARIABLE, Ports, StackLayout
from cdc_assets_devstack.postgres import bin_folder
from cdc_assets_devstack.stack import LocalStack
from psycopg.conninfo import conninfo_to_dict

from cdc_assets.changes.names import LakeName
from cdc_assets.config import ReplicationConfig
from cdc_assets_tests.conftest import CHECKOUT_JARS
from cdc_assets_tests.pipeline import Session
from cdc_assets_tests.stack.other_tools import (
    CONNECT_SINK,
    DEBEZIUM_SERVER,
    MERGE_JOB,
    Tool,
    delete_by_equality,
    make_ledger,
)
from cdc_assets_tests.stack.test_adopt import spoil, world
from cdc_assets_tests.test_packages import UV, built
from cdc_assets_tests.toy import profiles
from cdc_assets_tests.toy.profiles import in_soak
from cdc_assets_tests.tutorials import YOURS, Step, shell, steps_of

pytestmark = [pytest.mark.stack, pytest.mark.timeout(3600)]

PAGES = Path(__file__).parents[2] / "docs" / "tutorials"
NETWORK = re.compile("(?i)(uv|ssl|pip)_|.*(proxy|cert)")
"""Variables with which an index is reached here."""
INSTALLED = """\
#!/bin/bash
# What uv does in a project, with the packages that are installed here.
case $1 in
  init) mkdir -p "$2" ;;
  run) shift; while [ "$1" = --with ]; do shift 2; done; exec "$@" ;;
esac
"""


def steps(page: str, yours: str = "") -> list[Step]:
    """A page's steps, with other values in place of the reader's own."""
    found = steps_of((PAGES / f"{page}.md").read_text())
    return [Step(each.line, yours) if each.mark == YOURS else each for each in found]


def exports(values: Mapping[str, str]) -> str:
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in values.items())


@pytest.fixture
def variables(tmp_path: Path) -> Mapping[str, str]:
    """The environment of a reader; in a soak with uv and this checkout's packages."""
    ports = Ports().as_dict().values()
    taken = [port for port in ports if socket.socket().connect_ex((HOST, port)) == 0]
    if taken:
        pytest.skip(f"the ports of the tutorials are taken: {taken}")
    programs = tmp_path / "programs"
    programs.mkdir()
    more: dict[str, str] = {}
    path = [programs, bin_folder(), Path(sys.executable).parent, Path("/usr/bin"), Path("/bin")]
    if profiles.is_soak():
        if not Path(UV).exists():
            pytest.skip("uv is not in .uv: make install")
        path = [programs, Path(UV).parent, bin_folder(), Path("/usr/bin"), Path("/bin")]
        more = {
            **{name: each for name, each in os.environ.items() if NETWORK.match(name)},
            "UV_FIND_LINKS": str(built(tmp_path / "dist")), "UV_PYTHON": sys.executable,
            "UV_TOOL_DIR": str(tmp_path / "tools"), "UV_TOOL_BIN_DIR": str(programs),
        }  # fmt: skip
    else:
        (programs / "uv").write_text(INSTALLED)
        (programs / "uv").chmod(0o755)
        more = {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    return {
        "PATH": ":".join(map(str, path)),
        "HOME": os.environ["HOME"],
        JARS_VARIABLE: os.environ.get(JARS_VARIABLE, str(CHECKOUT_JARS)),
        **more,
    }


def follow(folder: Path, variables: Mapping[str, str], page: list[Step]) -> None:
    """Run a page to its end; stop the stack that it has started, whatever happens."""
    place = folder / "place"
    place.mkdir()
    with shell(place, variables) as reader:
        try:
            for step in page:
                reader.take(step)
        finally:
            with suppress(BrokenPipeError):  # a step that failed has ended the shell
                reader.interrupt()
            for home in place.rglob(".cdc"):
                LocalStack(StackLayout(home)).down()


def test_your_postgresql(
    stack_parts: Callable[..., LocalStack], variables: Mapping[str, str], tmp_path: Path
) -> None:
    """The reader's server is elsewhere than the tutorial's stack."""
    dsn = stack_parts("postgres").postgres.dsn()
    of = conninfo_to_dict(dsn)
    login = f"{of['user']}:{of['password']}@{HOST}:{of['port']}"
    yours = exports({
        "ADMIN_DSN": f"postgresql://{login}/store",
        "DB_HOST": HOST, "DB_PORT": str(of["port"]), "DB_NAME": "store",
    })  # fmt: skip
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute("CREATE DATABASE store")
        follow(tmp_path, variables, steps("your-postgresql", yours))
        admin.execute("DROP DATABASE store WITH (FORCE)")


@in_soak
def test_your_mysql(
    stack_parts: Callable[..., LocalStack], variables: Mapping[str, str], tmp_path: Path
) -> None:
    server = stack_parts("mariadb").mariadb
    _, port = server.address.split(":")
    client = f"mariadb --no-defaults --skip-ssl -h {HOST} -P {port} -u root -p{server.password}"
    yours = exports({"DB_HOST": HOST, "DB_PORT": port}) + f'admin() {{ {client} "$@"; }}\n'
    path = f"{server.programs / 'bin'}:{variables['PATH']}"
    follow(tmp_path, {**variables, "PATH": path}, steps("your-mysql", yours))


@in_soak
def test_demo(variables: Mapping[str, str], tmp_path: Path) -> None:
    follow(tmp_path, variables, steps("demo"))


@in_soak
@pytest.mark.parametrize(
    ("page", "tool"),
    [
        ("from-debezium-server-iceberg", DEBEZIUM_SERVER),
        ("from-the-kafka-connect-sink", CONNECT_SINK),
        ("from-a-merge-job", MERGE_JOB),
    ],
)
def test_moving(
    page: str, tool: Tool, stack: LocalStack, stack_config: ReplicationConfig, spark: Session,
    tmp_path: Path,
) -> None:  # fmt: skip
    """From a table as the tool makes it, which is not quite like its source."""
    name, existing = page.replace("-", ""), LakeName("raw", "ledger")
    with world(stack, stack_config, name) as database:
        make_ledger(spark, existing, tool, 1_200)
        spoil(spark, existing)
        if tool is DEBEZIUM_SERVER:
            delete_by_equality(database.config, existing, "id", range(50, 60))
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        with shell(tmp_path, {**database.env, "PATH": path}) as reader:
            for step in steps(page, exports({"SOURCE": name})):
                reader.take(step)
        assert database.differences("ledger", ignoring=[*tool.extra]) == []
