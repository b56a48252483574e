"""What is in `deploy/` is what its tools accept: Dockerfiles, Compose, Kubernetes, Dagster's chart.

The tools are installed next to the stack's jars, once. What the images contain is tried by
`stack/test_deployed.py`.
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
from pathlib import Path
from typing import Any, Final

import jsonschema.validators
import pytest
import yaml
from cdc_assets_devstack.jars import CHECKSUMS
from cdc_assets_devstack.java import pyspark_jars

from cdc_assets.config import load_config
from cdc_assets.operate.jars_command import JarRequirements, packages

CHECKOUT: Final = Path(__file__).parents[1]
DEPLOY: Final = CHECKOUT / "deploy"
TOOLS: Final = CHECKOUT / ".cdc" / "deploy-tools"
UV: Final = CHECKOUT / ".uv" / "bin" / "uv"

KUBERNETES: Final = "1.35"
"""The oldest that Kubernetes itself still supported when the manifests were written is 1.34."""

HELM: Final = ("helm.sh/helm/v3/cmd/helm", "v3.22.0")
"""Of 3, for which Dagster's chart is written."""

COMPOSE_GO: Final = "github.com/compose-spec/compose-go/v2@v2.16.2"
DOCKERFILE_UTILS: Final = "dockerfile-utils@0.16.3"
CHART_VARIABLE: Final = "CDC_ASSETS_DAGSTER_CHART"

DOCKERFILES: Final = sorted(DEPLOY.glob("Dockerfile.*"))
SCRIPTS: Final = sorted(DEPLOY.glob("*.sh"))
MANIFESTS: Final = sorted((DEPLOY / "kubernetes").glob("*.yaml"))


def run(*command: str, cwd: Path = CHECKOUT, **variables: str) -> str:
    done = subprocess.run(
        command, cwd=cwd, env={**os.environ, **variables}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return done.stdout


def go() -> str:
    found = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if found is None:
        pytest.skip("Go is not installed")
    return found


def go_program(module: str, version: str) -> str:
    """A program of a Go module, built once."""
    folder = TOOLS / f"{module.rpartition('/')[2]}-{version}"
    program = folder / module.rpartition("/")[2]
    if not program.exists():
        run(go(), "install", f"{module}@{version}", cwd=Path("/"), GOBIN=str(folder))
    return str(program)


@pytest.fixture(scope="session")
def validator() -> Path:
    """The folder of ``kubernetes-validate``, which brings Kubernetes' schemas."""
    folder = TOOLS / "kubernetes-validate"
    if folder.exists():
        return folder
    if not UV.exists():
        pytest.skip("uv is not in .uv: make install")
    partial = folder.with_suffix(".partial")
    run(str(UV), "pip", "install", "--quiet", "--no-deps", "--python", sys.executable,
        "--target", str(partial), "kubernetes-validate==1.37.0", "importlib-resources")  # fmt: skip
    return partial.rename(folder)


def conforming(validator: Path, *files: str) -> str:
    """Fails at an unknown field, too."""
    return run(sys.executable, "-m", "kubernetes_validate", "--strict", "-k", KUBERNETES, *files,
               PYTHONPATH=str(validator))  # fmt: skip


def documents(*files: Path) -> Iterator[dict[str, Any]]:
    for file in files:
        yield from yaml.safe_load_all(file.read_text())


def settings(text: str) -> Mapping[str, str]:
    """Spark's settings, as Spark reads them."""
    stripped = (line.strip() for line in text.splitlines())
    lines = (line for line in stripped if line and not line.startswith("#"))
    return dict(line.split(maxsplit=1) for line in lines)


def of_kind(kind: str, *files: Path) -> list[dict[str, Any]]:
    return [each for each in documents(*files) if each["kind"] == kind]


# ── images ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.unit
@pytest.mark.parametrize("file", DOCKERFILES, ids=lambda each: each.name)
def test_an_image_copies_only_what_is_there_and_ends_as_no_root(file: Path) -> None:
    text = file.read_text().replace("\\\n", " ")
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE)
    sources = [each for line in copied for each in line.split()]
    assert sources
    missing = [each for each in sources if not each.startswith("dist/")]
    assert [each for each in missing if not (CHECKOUT / each).exists()] == []
    assert re.findall(r"^USER (\S+)", text, re.MULTILINE)[-1] not in {"root", "0"}


@pytest.mark.slow
def test_dockerfiles_are_valid(tmp_path: Path) -> None:
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    folder = TOOLS / DOCKERFILE_UTILS
    if not folder.exists():
        run("npm", "install", "--silent", "--prefix", str(folder), DOCKERFILE_UTILS)
    bad = tmp_path / "Dockerfile"
    bad.write_text("FROM x\nCOPYY a b\n")
    program = (
        "const {validate} = require('dockerfile-utils'), {readFileSync} = require('fs');"
        "for (const f of process.argv.slice(1)) for (const e of validate(readFileSync(f, 'utf8')))"
        "  console.log(`${f}:${e.range.start.line + 1}: ${e.message}`)"
    )
    said = run("node", "-e", program, *map(str, DOCKERFILES), str(bad), cwd=folder)
    assert said == f"{bad}:2: Unknown instruction: COPYY\n"


@pytest.mark.unit
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda each: each.name)
def test_a_script_is_run_by_the_shell_that_it_names(script: Path) -> None:
    assert os.access(script, os.X_OK)
    shell = script.read_text().splitlines()[0].removeprefix("#!")
    run(shell, "-n", str(script))


def listed() -> Mapping[str, str]:
    """Checksums of the jars that are installed, by name."""
    lines = (DEPLOY / "spark-jars.txt").read_text().splitlines()
    found = (line.split() for line in lines if not line.startswith("#"))
    return {path.rpartition("/")[2]: checksum for checksum, path in found}


@pytest.mark.unit
def test_the_jars_are_those_with_which_the_tests_run() -> None:
    known = json.loads(CHECKSUMS.read_text())
    expected = {**known["spark"], **known["spark-s3"]}
    of_spark = {each.name for each in pyspark_jars().glob("*.jar")}
    assert listed() == {name: each for name, each in expected.items() if name not in of_spark}
    for artifact in packages(JarRequirements(frozenset(), is_in_s3=True)):
        _, name, version = artifact.split(":")
        assert f"{name}-{version}.jar" in listed()


# ── settings of Spark ─────────────────────────────────────────────────────────────────────


def spark_settings() -> Mapping[str, Mapping[str, str]]:
    (config,) = of_kind("ConfigMap", DEPLOY / "kubernetes" / "spark-connect.yaml")
    return {
        "compose": settings((DEPLOY / "compose" / "spark-defaults.conf").read_text()),
        "kubernetes": settings(config["data"]["spark-defaults.conf"]),
    }


@pytest.mark.unit
@pytest.mark.parametrize("where", ["compose", "kubernetes"])
def test_the_server_has_what_merges_need(where: str) -> None:
    found = spark_settings()[where]
    recommended = (CHECKOUT / "docs/how-to/run/run-a-spark-server.md").read_text()
    blocks = re.findall(r"```properties\n(.+?)```", recommended, re.DOTALL)
    assert blocks
    for block in blocks:
        for name, value in settings(block).items():
            if name.startswith(("spark.executorEnv", "spark.authenticate", "spark.network")):
                continue  # of clusters, and of one region
            assert value in found[name], name
    assert found["spark.ui.enabled"] == "true", "the probe asks it"


# ── Compose ───────────────────────────────────────────────────────────────────────────────


def compose() -> dict[str, Any]:
    return yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text())


@pytest.mark.slow
def test_the_compose_file_is_one() -> None:
    described = json.loads(run(go(), "mod", "download", "-json", COMPOSE_GO, cwd=Path("/")))
    schema = json.loads((Path(described["Dir"]) / "schema" / "compose-spec.json").read_text())
    check = jsonschema.validators.validator_for(schema)(schema)
    assert [each.message for each in check.iter_errors(compose())] == []
    wrong = {**compose(), "services": {"x": {"helthcheck": {}}}}
    assert [*check.iter_errors(wrong)], "the schema knows its keys"


@pytest.mark.unit
def test_what_the_compose_file_names_is_there() -> None:
    found = compose()
    folder = DEPLOY / "compose"
    for name, service in found["services"].items():
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            there = (
                (folder / source).exists() if source.startswith(".") else source in found["volumes"]
            )
            assert there, f"{name}: {volume}"
        if "build" in service:
            assert (CHECKOUT / service["build"]["dockerfile"]).exists()
        assert set(service.get("depends_on", ())) <= set(found["services"])
        published = [each for each in service.get("ports", ()) if not each.startswith("127.0.0.1:")]
        assert published == [], f"{name} is reached from elsewhere"


@pytest.mark.unit
def test_the_configurations_are_valid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (config,) = of_kind("ConfigMap", DEPLOY / "kubernetes" / "cdc-assets.yaml")
    for text in (
        (DEPLOY / "compose" / "replication.yaml").read_text(),
        config["data"]["replication.yaml"],
    ):
        file = tmp_path / "replication.yaml"
        file.write_text(text)
        monkeypatch.setenv("CDC_ASSETS_CONFIG", str(file))
        assert [*load_config().sources] == ["shop"]


# ── Kubernetes ────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_the_manifests_conform_and_a_wrong_field_would_not(validator: Path, tmp_path: Path) -> None:
    found = conforming(validator, *map(str, MANIFESTS))
    assert found.count(f" against version {KUBERNETES}") == len([*documents(*MANIFESTS)])
    bad = tmp_path / "bad.yaml"
    text = (DEPLOY / "kubernetes" / "spark-connect.yaml").read_text()
    bad.write_text(text.replace("readinessProbe:", "readynessProbe:", 1))
    with pytest.raises(AssertionError, match="readynessProbe"):
        conforming(validator, str(bad))


def pod_of(name: str) -> dict[str, Any]:
    (found,) = (e for e in of_kind("Deployment", *MANIFESTS) if e["metadata"]["name"] == name)
    return found["spec"]["template"]["spec"]


@pytest.mark.unit
def test_one_server_runs_and_its_probes_are_the_script_of_its_image() -> None:
    (deployment,) = of_kind("Deployment", DEPLOY / "kubernetes" / "spark-connect.yaml")
    assert deployment["spec"]["replicas"] == 1
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}
    server, _ = pod_of("spark-connect")["containers"]
    image = (DEPLOY / "Dockerfile.spark-connect").read_text()
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        (program,) = server[probe]["exec"]["command"]
        assert f"deploy/{Path(program).name}" in image
    assert f"deploy/{Path(server['command'][0]).name}" in image


@pytest.mark.unit
def test_every_pod_is_without_rights_and_has_limits() -> None:
    for name in ("spark-connect", "cdc-assets-metrics"):
        pod = pod_of(name)
        assert pod["securityContext"]["runAsNonRoot"]
        for each in pod["containers"]:
            assert each["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            assert "memory" in each["resources"]["limits"]
            mounted = {mount["name"] for mount in each["volumeMounts"]}
            assert mounted <= {volume["name"] for volume in pod["volumes"]}


@pytest.mark.unit
def test_names_that_refer_to_each_other_agree() -> None:
    found = spark_settings()["kubernetes"]
    services = {each["metadata"]["name"]: each["spec"] for each in of_kind("Service", *MANIFESTS)}
    host = found["spark.driver.host"].partition(".")[0]
    assert {each["port"] for each in services[host]["ports"]} == {
        int(found["spark.driver.port"]), int(found["spark.blockManager.port"]),
    }  # fmt: skip
    (budget,) = of_kind("PodDisruptionBudget", *MANIFESTS)
    label = found["spark.kubernetes.executor.label.app"]
    assert budget["spec"]["selector"]["matchLabels"] == {"app": label}
    (account,) = of_kind("ServiceAccount", *MANIFESTS)
    assert account["metadata"]["name"] == pod_of("spark-connect")["serviceAccountName"]
    policy, _ = of_kind("NetworkPolicy", *MANIFESTS)
    client = policy["spec"]["ingress"][0]["from"][0]["podSelector"]["matchLabels"]
    values = yaml.safe_load((DEPLOY / "helm" / "dagster-values.yaml").read_text())
    (location,) = values["dagster-user-deployments"]["deployments"]
    launched = values["runLauncher"]["config"]["k8sRunLauncher"]["labels"]
    assert location["labels"] == launched == client


# ── Dagster's chart ───────────────────────────────────────────────────────────────────────


def with_schemas_here(chart: Path, validator: Path, folder: Path) -> Path:
    """A copy of a chart whose schema looks for Kubernetes' types here, and not on the web."""
    copy = folder / "chart"
    shutil.copytree(chart, copy)
    place = f"kubernetes_validate/kubernetes-json-schema/v{KUBERNETES}.0-local-strict"
    found = json.loads((validator / place / "_definitions.json").read_text())
    found.pop("$id", None)  # a web address, at which references would be looked for
    types = json.dumps(found).replace('"$defs"', '"definitions"')
    here = folder / "types.json"
    types = types.replace('"additionalProperties": false', '"additionalProperties": true')
    here.write_text(types.replace("#/$defs/", "#/definitions/"))  # the chart adds to them
    for file in copy.rglob("values.schema.json"):
        web = r"https://[^\"#]+/_definitions\.json"
        file.write_text(re.sub(web, here.as_uri(), file.read_text()))
    return copy


def rendered(validator: Path, folder: Path, chart: Path) -> Sequence[dict[str, Any]]:
    values, out = DEPLOY / "helm" / "dagster-values.yaml", folder / "all.yaml"
    text = run(go_program(*HELM), "template", "dagster",
               str(with_schemas_here(chart, validator, folder)), "--namespace", "data",
               "--values", str(values))  # fmt: skip
    out.write_text(text)
    found = [each for each in documents(out) if each]
    out.write_text(yaml.safe_dump_all(found))
    conforming(validator, str(out))
    return found


@pytest.mark.slow
def test_dagsters_chart_accepts_the_values(validator: Path, tmp_path: Path) -> None:
    """The chart is in no registry of packages: its folder is named by a variable."""
    chart = os.environ.get(CHART_VARIABLE)
    if not chart:
        pytest.skip(f"{CHART_VARIABLE} names no folder of Dagster's chart (helm pull --untar)")
    found = rendered(validator, tmp_path, Path(chart))
    deployments = {e["metadata"]["name"]: e for e in found if e["kind"] == "Deployment"}
    (location,) = (each for name, each in deployments.items() if "cdc-assets" in name)
    (container,) = location["spec"]["template"]["spec"]["containers"]
    started = " ".join(container.get("command", []) + container.get("args", []))
    assert "code-server start" in started
    assert "-m cdc_assets.definitions" in started
    probe = ["dagster", "api", "grpc-health-check", "-p", "3030"]
    assert container["readinessProbe"]["exec"]["command"] == probe
    assert container["startupProbe"]["exec"]["command"] == probe
    images = {
        c["image"] for each in deployments.values()
        for c in each["spec"]["template"]["spec"]["containers"]
    }  # fmt: skip
    assert images == {"cdc-assets:1.0.0"}, shlex.join(sorted(images))
    (instance,) = (
        each["data"]["dagster.yaml"] for each in found
        if each["kind"] == "ConfigMap" and "dagster.yaml" in (each.get("data") or {})
    )  # fmt: skip
    dagster = yaml.safe_load(instance)
    assert dagster["run_launcher"]["class"] == "K8sRunLauncher"
    assert dagster["run_monitoring"]["enabled"] is True
    assert [each for each in found if each["kind"] == "Secret"] == [], "no password of the chart's"
    (web,) = (each for each in found if each["kind"] == "Service"
              and each["metadata"]["name"].endswith("webserver"))  # fmt: skip
    env = {each["name"]: each.get("value") for each in container["env"]}
    assert env["CDC_ASSETS_WEBSERVER"] == f"http://{web['metadata']['name']}"
