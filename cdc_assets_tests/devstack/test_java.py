"""The machine's Java is taken if it is one of ours; otherwise the next one is looked at."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from cdc_assets_devstack import java

from cdc_assets.errors import TerminalError

pytestmark = pytest.mark.unit


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Java of the machine, which is the only one, and what it prints."""
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(java, "package_folder", lambda _: None)
    return program


def find() -> java.Java:
    return java.find_java.__wrapped__()


def prints(program: Path, *lines: str) -> None:
    told = "".join(f"echo '{line}' >&2\n" for line in lines)
    program.write_text(f"#!/bin/sh\n{told}")
    program.chmod(0o755)


def test_a_supported_one_is_taken(machine: Path) -> None:
    prints(machine, "Picked up JAVA_TOOL_OPTIONS: -Dx=y", 'openjdk version "17.0.2"')
    assert find() == java.Java(machine, 17)


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.2", "25"])
def test_one_of_another_version_is_refused(machine: Path, version: str) -> None:
    prints(machine, f'openjdk version "{version}"')
    with pytest.raises(TerminalError, match="no Java 17 to 21 found"):
        find()


def test_one_that_hangs_is_passed_over(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(*_: Any, timeout: float, **__: Any) -> None:
        raise subprocess.TimeoutExpired(machine, timeout)

    monkeypatch.setattr(subprocess, "run", hang)
    with pytest.raises(TerminalError, match="no Java 17 to 21 found"):
        find()
