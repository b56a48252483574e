"""What the images of `deploy/` contain, made by their own scripts in empty folders.

Webserver, daemon, code location and the Spark Connect server run as Compose starts them, and
replicate a database; each is asked by the probe of its container, and replaced under load.
"""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psutil
import psycopg
import pytest
import requests
import yaml
from cdc_assets_devstack.java import pyspark_jars
from cdc_assets_devstack.stack import LocalStack
from psycopg.conninfo import conninfo_to_dict

from cdc_assets.config import ReplicationConfig
from cdc_assets.lake.spark_conf import spark_conf
from cdc_assets_tests.operate.dashboard_picture import Prometheus, draw
from cdc_assets_tests.operate.test_dashboard import DASHBOARD, RULE_FILE
from cdc_assets_tests.orchestration.test_endpoint import free_port
from cdc_assets_tests.stack.replicated import Replicated, new_database, replicated
from cdc_assets_tests.test_deploy import DEPLOY, UV, compose, of_kind, run
from cdc_assets_tests.toy.profiles import in_soak
from cdc_assets_tests.waiting import until

pytestmark = [pytest.mark.stack, in_soak, pytest.mark.timeout(3600)]

TOKEN: Final = "t0ken-of-the-test"
GRACE_SECONDS: Final = 60
"""Of both containers, in Compose and Kubernetes."""

CREATE: Final = (
    "CREATE TABLE t (id int PRIMARY KEY, n int)",
    "INSERT INTO t SELECT i, 0 FROM generate_series(1, 1000) i",
)


@dataclass
class Container:
    """A process with the command of a service; its probe is another one."""

    command: Sequence[str]
    probe: Sequence[str]
    env: Mapping[str, str]
    folder: Path
    process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        # Python ignores SIGTERM, too, where a shell has started it in the background.
        command = ("env", "--default-signal=INT", *self.command)
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(
                command, cwd=self.folder, env=dict(self.env), stdin=subprocess.DEVNULL,
                stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip

    def is_well(self) -> bool:
        return subprocess.run(
            self.probe, env=dict(self.env), capture_output=True, check=False, timeout=60
        ).returncode == 0  # fmt: skip

    def up(self) -> float:
        """Start it; the seconds until its probe succeeds."""
        begun = time.monotonic()
        self.start()
        until(self.is_well, f"{self.command[0]} is well:\n{self.last_words()}", within_seconds=300)
        return time.monotonic() - begun

    def stop(self) -> float:
        """Ask it to end, as a container is; the seconds that it takes."""
        assert self.process is not None
        begun = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(GRACE_SECONDS)
        return time.monotonic() - begun

    def kill(self) -> None:
        if self.process is not None:
            with ExitStack() as stack:
                stack.callback(self.process.wait)
                os.killpg(self.process.pid, signal.SIGKILL)

    def last_words(self) -> str:
        return self.log.read_text(errors="replace")[-3000:] if self.log.exists() else ""


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not UV.exists():
        pytest.skip("uv is not in .uv: make install")
    folder = tmp_path_factory.mktemp("dist")
    run(str(UV), "build", "--quiet", "--all-packages", "--out-dir", str(folder))
    return folder


def as_nobody(folder: Path) -> Sequence[str]:
    """What runs a command without rights, in a folder of its own, if we have any."""
    if os.getuid() or shutil.which("setpriv") is None:
        return ()
    for each in (folder, *folder.parents):
        if each == each.parent or each == Path("/tmp"):  # noqa: S108
            break
        each.chmod(each.stat().st_mode | 0o755)
    user = pwd.getpwnam("nobody")
    os.chown(folder, user.pw_uid, user.pw_gid)
    return ("setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups")


@pytest.fixture(scope="module")
def programs(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of the code location's image; without rights, and with a new home."""
    image = tmp_path_factory.mktemp("code-location")
    shutil.copy(DEPLOY / "install-code-location.sh", image)
    shutil.copytree(dist, image / "dist", copy_function=shutil.copy)
    (image / "dist").chmod(0o755)
    empty = image / "opt"
    empty.mkdir()
    command = (*as_nobody(empty), "sh", str(image / "install-code-location.sh"))
    python = next(each for each in ("/usr/bin/python3", os.path.realpath(sys.executable))
                  if subprocess.run([*command[:-2], each, "-m", "ensurepip", "--version"],
                                    capture_output=True, check=False).returncode == 0)  # fmt: skip
    run(*command, str(empty / "cdc-assets"), "--find-links", str(image / "dist"),
        cwd=empty, HOME=str(empty), PYTHON=python)  # fmt: skip
    return empty / "cdc-assets" / "bin"


@pytest.fixture(scope="module")
def spark_home(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Spark of the image: here that of PyPI, with the jars that the script has brought."""
    home = tmp_path_factory.mktemp("spark")
    (wheel,) = dist.glob("cdc_assets-*.whl")
    empty = home / "brought"
    empty.mkdir()
    shutil.copy(wheel, empty)
    shutil.copytree(DEPLOY, home / "deploy")
    command = (*as_nobody(empty), "sh", str(home / "deploy" / "install-spark-jars.sh"))
    run(*command, str(empty / "jars"), str(empty / wheel.name), cwd=empty, HOME=str(empty))
    of_spark = pyspark_jars()
    (home / "bin").symlink_to(of_spark.parent / "bin")
    (home / "jars").mkdir()
    for each in (*of_spark.glob("*.jar"), *(empty / "jars").glob("*.jar")):
        (home / "jars" / each.name).symlink_to(each)
    return home


@dataclass
class Deployed:
    """The containers, and the database that they replicate."""

    database: Replicated
    spark: Container
    tls: Container
    code_location: Container
    webserver: Container
    daemon: Container
    metrics: Container
    figures: dict[str, float] = field(default_factory=dict)

    def all(self) -> Sequence[Container]:
        return (self.spark, self.tls, self.code_location, self.webserver, self.daemon, self.metrics)

    def weigh(self) -> None:
        """Remember the memory of each, in MiB, with the processes that it has started."""
        for each in self.all():
            if each.process is not None:
                own = psutil.Process(each.process.pid)
                used = sum(one.memory_info().rss for one in (own, *own.children(recursive=True)))
                self.figures[f"{each.folder.name} MiB"] = used >> 20

    def is_equal(self) -> bool:
        self.database.wait_until_delivered()
        return self.database.differences("t") == []

    def until_equal(self, within_seconds: float = 400) -> None:
        words = "\n".join(each.last_words() for each in self.all())
        until(self.is_equal, f"lake and database are equal\n{words}",
              within_seconds=within_seconds, every_seconds=2)  # fmt: skip


def dagster_yaml(server: str) -> str:
    """That of Compose, with the stack's PostgreSQL in place of its own."""
    document = yaml.safe_load((DEPLOY / "compose" / "dagster.yaml").read_text())
    to = conninfo_to_dict(server)
    document["storage"]["postgres"]["postgres_db"].update(
        hostname=to["host"], port=int(to["port"]), username=to["user"], db_name="dagster_storage"
    )
    return yaml.safe_dump(document)


def spark_container(home: Path, config: ReplicationConfig, port: int, folder: Path) -> Container:
    """The server with Compose's settings, and those of this machine."""
    ui = free_port()
    here = {
        "spark.master": "local[2]",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.ui.port": str(ui),
        "spark.local.dir": str(folder / "scratch"),
        "spark.sql.shuffle.partitions": "2",
        **spark_conf(config),
    }
    options = [word for name, value in here.items() for word in ("--conf", f"{name}={value}")]
    return Container(
        [str(DEPLOY / "start-spark-connect.sh"),
         str(DEPLOY / "compose" / "spark-defaults.conf"), *options],
        [str(DEPLOY / "probe-spark-connect.sh"), str(port), str(ui)],
        {**os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1",
         "SPARK_CONNECT_AUTHENTICATE_TOKEN": TOKEN},
        folder / "spark",
    )  # fmt: skip


def tls_container(port: int, tls: int, folder: Path) -> Container:
    """What ends TLS before the server, with the configuration of the manifests."""
    program = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        pytest.skip("nginx is not installed: apt-get install nginx-light")
    folder.mkdir(parents=True)
    run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
        "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
        "-keyout", str(folder / "tls.key"), "-out", str(folder / "tls.crt"))  # fmt: skip
    (config,) = of_kind("ConfigMap", DEPLOY / "kubernetes" / "spark-connect.yaml")
    text = config["data"]["nginx.conf"]
    here = {"/tmp/": f"{folder}/", "/etc/tls/": f"{folder}/", "15002": str(port),  # noqa: S108
            "15003": str(tls)}  # fmt: skip
    for there, mine in here.items():
        assert there in text
        text = text.replace(there, mine)
    (folder / "nginx.conf").write_text(text)
    user = "" if os.getuid() else "user root;"
    return Container(
        [program, "-g", f"daemon off;{user}", "-c", str(folder / "nginx.conf")],
        ["bash", "-c", f"exec 3<>/dev/tcp/127.0.0.1/{tls}"], os.environ, folder,
    )  # fmt: skip


def dagster_containers(
    programs: Path, database: Replicated, folder: Path
) -> tuple[Container, Container, Container, Container]:
    """Code location, webserver, daemon and figures, with Compose's commands."""
    home, port, web = folder / "dagster", free_port(), free_port()
    figures = f"127.0.0.1:{free_port()}"
    home.mkdir(parents=True)
    server = conninfo_to_dict(database.stack.postgres.dsn())
    (home / "dagster.yaml").write_text(dagster_yaml(database.stack.postgres.dsn()))
    workspace = yaml.safe_load((DEPLOY / "compose" / "workspace.yaml").read_text())
    workspace["load_from"][0]["grpc_server"].update(host="127.0.0.1", port=port)
    (home / "workspace.yaml").write_text(yaml.safe_dump(workspace))
    mine = {name: value for name, value in database.env.items() if name != "PYTHONPATH"}
    env = {
        **mine,
        "DAGSTER_HOME": str(home),
        "DAGSTER_PG_PASSWORD": str(server.get("password", "")),
        "CDC_ASSETS_WEBSERVER": f"http://127.0.0.1:{web}",
        "PATH": f"{programs}:{os.environ['PATH']}",
        "HOME": str(home),
        "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(folder / "tls" / "tls.crt"),
        "SPARK_TOKEN": TOKEN,
    }
    here = {"0.0.0.0": "127.0.0.1", "3030": str(port), "3000": str(web),  # noqa: S104
            "0.0.0.0:9464": figures,
            "/opt/dagster/workspace.yaml": str(home / "workspace.yaml")}  # fmt: skip

    def words(said: Sequence[str]) -> list[str]:
        found = [here.get(each, each) for each in said]
        return [str(programs / found[0]), *found[1:]]

    services: dict[str, Any] = compose()["services"]
    probe = words(services["code-location"]["healthcheck"]["test"][1:])
    listens = ["bash", "-c", f"exec 3<>/dev/tcp/127.0.0.1/{web}"]
    scraped = ["curl", "--fail", "--silent", f"http://{figures}/metrics"]
    asked = {"code-location": probe, "webserver": listens, "daemon": ["true"], "metrics": scraped}
    location, webserver, daemon, metrics = (
        Container(words(services[name]["command"]), each, env, folder / name)
        for name, each in asked.items()
    )
    return location, webserver, daemon, metrics


@pytest.fixture(scope="module")
def prometheus(deployed: Deployed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One that scrapes the figures and has the rules; its address."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("Prometheus is not installed: apt-get install prometheus")
    folder, address = tmp_path_factory.mktemp("prometheus"), f"127.0.0.1:{free_port()}"
    target = deployed.metrics.command[-1]
    job = {"job_name": "cdc-assets", "static_configs": [{"targets": [target]}]}
    document = {
        "global": {"scrape_interval": "5s", "evaluation_interval": "5s"},
        "rule_files": [str(RULE_FILE)],
        "scrape_configs": [job],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(document))
    server = Container(
        [program, f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
         f"--web.listen-address={address}"],
        ["curl", "--fail", "--silent", f"http://{address}/-/ready"], os.environ, folder / "server",
    )  # fmt: skip
    try:
        server.up()
        yield f"http://{address}"
    finally:
        server.kill()


@pytest.fixture(scope="module")
def deployed(
    stack: LocalStack,
    stack_config: ReplicationConfig,
    programs: Path,
    spark_home: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Deployed]:
    folder, port, tls = tmp_path_factory.mktemp("deployed"), free_port(), free_port()
    new_database(stack, "dagster_storage")
    remote = f"sc://localhost:{tls}/;use_ssl=true"
    elsewhere = {"remote": remote, "token": {"env": "SPARK_TOKEN"}}
    document = {"spark": elsewhere, "home": str(folder / "home")}
    connect = {"url": f"http://{stack.connect.address}"}
    dsn = new_database(stack, "deployed", *CREATE)
    with replicated(stack, stack_config, "deployed", dsn, document, connect=connect) as database:
        spark = spark_container(spark_home, database.config, port, folder)
        proxy = tls_container(port, tls, folder / "tls")
        made = Deployed(database, spark, proxy, *dagster_containers(programs, database, folder))
        try:
            assert not spark.is_well(), "nothing listens"
            assert not made.code_location.is_well()
            made.figures["Spark"] = spark.up()
            proxy.up()
            made.figures["code location"] = made.code_location.up()
            made.webserver.up()
            made.daemon.up()
            made.metrics.up()
            yield made
            made.weigh()
        finally:
            print({name: round(each, 1) for name, each in made.figures.items()})
            for each in made.all():
                each.kill()


@contextmanager
def loading(database: Replicated) -> Iterator[Callable[[], int]]:
    """Updates rows all the time; what is yielded counts them."""
    stop, done = threading.Event(), [0]

    def load() -> None:
        with psycopg.connect(database.dsn, autocommit=True) as connection:
            while not stop.wait(0.02):  # a pace
                done[0] += 1
                connection.execute("UPDATE t SET n = n + 1 WHERE id = %s", (done[0] % 1000 + 1,))

    thread = threading.Thread(target=load)
    thread.start()
    try:
        yield lambda: done[0]
    finally:
        stop.set()
        thread.join()


def publishes_on(deployed: Deployed) -> None:
    """Until the table has another publish."""
    before = len(deployed.database.publishes("t"))
    until(lambda: len(deployed.database.publishes("t")) > before, "a batch is merged",
          within_seconds=300, every_seconds=1)  # fmt: skip


@pytest.mark.usefixtures("prometheus")
def test_a_new_table_appears_and_is_merged(deployed: Deployed) -> None:
    deployed.until_equal(600)
    deployed.database.require_tiled("t")


def test_the_code_location_is_replaced_while_a_run_merges(deployed: Deployed) -> None:
    with loading(deployed.database):
        publishes_on(deployed)
        deployed.figures["code location ends"] = deployed.code_location.stop()
        assert not deployed.code_location.is_well()
        deployed.figures["code location again"] = deployed.code_location.up()
        publishes_on(deployed)
    deployed.until_equal()
    deployed.database.require_tiled("t")


def test_the_spark_server_is_replaced_while_a_run_merges(deployed: Deployed) -> None:
    with loading(deployed.database):
        publishes_on(deployed)
        deployed.figures["Spark ends"] = deployed.spark.stop()
        assert not deployed.spark.is_well()
        deployed.figures["Spark again"] = deployed.spark.up()
        publishes_on(deployed)
    deployed.until_equal()
    deployed.database.require_tiled("t")


def test_a_server_that_hangs_is_not_well(deployed: Deployed) -> None:
    process = deployed.spark.process
    assert process is not None
    process.send_signal(signal.SIGSTOP)
    try:
        assert not deployed.spark.is_well(), "its port listens, and nobody answers"
    finally:
        process.send_signal(signal.SIGCONT)
    until(deployed.spark.is_well, "it continues")


def test_every_panel_of_the_dashboard_has_data(deployed: Deployed, prometheus: str) -> None:
    """And a picture of it, where one is asked for."""
    deployed.until_equal()
    found = Prometheus(prometheus, minutes=15)
    panels = json.loads(DASHBOARD.read_text())["panels"]

    def empty() -> list[str]:
        return [
            f"{panel['title']}: {target['expr']}"
            for panel in panels
            for target in panel["targets"]
            if not found.ask(target["expr"], over_time=panel["type"] == "timeseries")
        ]

    until(lambda: not empty(), f"each query has an answer; not: {empty()}", within_seconds=120,
          every_seconds=5)  # fmt: skip
    if picture := os.environ.get("CDC_ASSETS_DASHBOARD_PICTURE"):
        draw(prometheus, Path(picture))


def test_a_server_whose_context_has_stopped_listens_and_is_not_well(
    spark_home: Path, tmp_path: Path
) -> None:
    """A cluster's master that removes an application stops its context, not its process."""
    port, ui, master, pages = (free_port() for _ in range(4))
    env = {**os.environ, "SPARK_HOME": str(spark_home), "SPARK_LOCAL_IP": "127.0.0.1"}
    listens = ["bash", "-c", f"exec 3<>/dev/tcp/127.0.0.1/{pages}"]
    where = ("--host", "127.0.0.1", "--port", str(master), "--webui-port", str(pages))
    program = [str(spark_home / "bin" / "spark-class"), "org.apache.spark.deploy.master.Master"]
    cluster = Container([*program, *where], listens, env, tmp_path / "master")
    settings = tmp_path / "spark.conf"
    settings.write_text(
        f"spark.master spark://127.0.0.1:{master}\nspark.driver.host 127.0.0.1\n"
        f"spark.connect.grpc.binding.port {port}\nspark.ui.port {ui}\n"
    )
    server = Container(
        [str(DEPLOY / "start-spark-connect.sh"), str(settings)],
        [str(DEPLOY / "probe-spark-connect.sh"), str(port), str(ui)], env, tmp_path / "server",
    )  # fmt: skip
    try:
        cluster.up()
        server.up()
        page = f"http://127.0.0.1:{pages}"
        (application,) = requests.get(f"{page}/json/", timeout=30).json()["activeapps"]
        killed = {"id": application["id"], "terminate": "true"}
        requests.post(f"{page}/app/kill/", killed, timeout=30).raise_for_status()
        until(lambda: not server.is_well(), "the probe fails", within_seconds=60)
        with socket.create_connection(("127.0.0.1", port), timeout=10):
            assert server.process is not None
            assert server.process.poll() is None, "a probe of its port alone would succeed"
    finally:
        server.kill()
        cluster.kill()
