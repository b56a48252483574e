"""Dagster's own processes, as a deployment has them, and questions to their webserver."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
import requests
from cdc_assets_devstack.ports import pick_free_ports

ENTRIES = """{ workspaceOrError { ... on Workspace { locationEntries {
  loadStatus locationOrLoadError { __typename ... on PythonError { message } }
} } } }"""


@contextmanager
def interrupted(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """A process that SIGINT stops when the block ends; what it prints is added to ``log``."""
    # What a worker ignores, its programs ignore too, and these are to stop by SIGINT.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    with log.open("ab") as file:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=file, stderr=file, start_new_session=True
        )
    signal.signal(signal.SIGINT, before)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(30)


@contextmanager
def dagster_running(
    command: Sequence[str], home: Path, folder: Path, environment: Mapping[str, str]
) -> Iterator[dg.DagsterInstance]:
    """A Dagster with ``home`` until the block ends, and its instance."""
    # Two processes that make Dagster's database at once spoil it, and this one looks into it too.
    with dg.DagsterInstance.from_config(str(home)) as instance:
        instance.get_runs_count()
        with interrupted(command, folder, environment, home / "dagster.log"):
            yield instance


class Deployment:
    """The processes of a folder with ``dagster.yaml``, and free ports for two of them."""

    def __init__(self, folder: Path, variables: Mapping[str, str], without: set[str]) -> None:
        ports = pick_free_ports()
        self.folder, self.port, self.web = folder, ports.connect, ports.spark
        kept = {name: each for name, each in os.environ.items() if name not in without}
        self.environment = {**kept, "DAGSTER_HOME": str(folder), **variables}

    @contextmanager
    def started(self, *command: str) -> Iterator[subprocess.Popen[bytes]]:
        """``python -m COMMAND`` until the block ends; what it prints is in ``log``."""
        words, log = [sys.executable, "-m", *command], self.folder / "log"
        with interrupted(words, self.folder, self.environment, log) as process:
            yield process

    def asked(self, query: str, **variables: object) -> dict[str, Any]:
        """The answer of the webserver."""
        url = f"http://127.0.0.1:{self.web}/graphql"
        answer = requests.post(url, json={"query": query, "variables": variables}, timeout=180)
        said = answer.json()
        assert "errors" not in said, said["errors"]
        return said["data"]

    def is_loaded(self) -> bool:
        """Whether the one code location is there."""
        try:
            (entry,) = self.asked(ENTRIES)["workspaceOrError"]["locationEntries"]
        except (requests.RequestException, ValueError, KeyError):
            return False
        loaded = entry["locationOrLoadError"] or {}
        if loaded.get("__typename") == "PythonError":
            print(loaded["message"])
        return loaded.get("__typename") == "RepositoryLocation"
