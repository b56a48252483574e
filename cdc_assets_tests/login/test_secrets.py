"""Secrets that a command or a function gives are kept for a while, and never shown."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cdc_assets.config import load
from cdc_assets.config.secret import FETCHED, Secret
from cdc_assets.errors import (
    ConfigError,
    LoginRefusedError,
    UnreachableError,
    UnsetVariableError,
)

pytestmark = pytest.mark.unit

SECRET = "hunter2:%/ü"


@pytest.fixture(autouse=True)
def _forgotten() -> None:
    FETCHED.forget()


@pytest.fixture
def counted(tmp_path: Path) -> tuple[list[str], Path]:
    """A command that prints how often it was run, and the file that counts."""
    count = tmp_path / "count"
    script = tmp_path / "fetch"
    script.write_text(f"#!/bin/sh\necho x >> {count}\necho ' {SECRET}'-$(wc -l < {count})\n")
    script.chmod(0o755)
    return [str(script), "--role=etl"], count


def refused() -> LoginRefusedError:
    return LoginRefusedError("no")


def test_a_command_is_run_once_until_a_login_is_refused(counted, monkeypatch):
    command, count = counted
    secret = Secret.model_validate({"command": command})
    assert [secret.reveal(), secret.reveal()] == [f"{SECRET}-1"] * 2
    refused()
    assert secret.reveal() == f"{SECRET}-1", "a login that stays refused runs no command each time"
    monkeypatch.setattr("cdc_assets.config.secret.LEAST_SECONDS", 0)
    refused()
    assert [secret.reveal(), secret.reveal()] == [f"{SECRET}-2"] * 2
    assert len(count.read_text().splitlines()) == 2


def test_a_command_is_run_each_time_if_nothing_is_kept(counted):
    command, count = counted
    secret = Secret.model_validate({"command": command, "keep_seconds": 0})
    assert [secret.reveal(), secret.reveal()] == [f"{SECRET}-1", f"{SECRET}-2"]
    assert len(count.read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("script", "kind", "words"),
    [
        (f"echo {SECRET}; echo {SECRET} >&2; exit 3", UnreachableError, "exit code 3"),
        ("true", UnreachableError, "printed nothing"),
        (r"printf '\377'", UnreachableError, "printed no text"),
        ("sleep 9", UnreachableError, "took longer than 0.1 s"),
        (None, UnsetVariableError, "cannot be run (FileNotFoundError)"),
    ],
)
def test_a_command_that_fails_is_named_without_its_output(
    tmp_path, monkeypatch, script, kind, words
):
    monkeypatch.setattr(
        "cdc_assets.config.secret.COMMAND_SECONDS", 0.1 if "9" in f"{script}" else 9
    )
    file = tmp_path / "fetch"
    if script is not None:
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)
    with pytest.raises(kind) as caught:
        Secret.model_validate({"command": [str(file), f"--key={SECRET}"]}).reveal()
    assert words in str(caught.value)
    assert str(file) in str(caught.value)
    assert SECRET not in str(caught.value)


def given() -> str:
    return SECRET


def broken() -> str:
    raise ValueError(SECRET)


def test_a_function_gives_a_secret():
    secret = Secret.model_validate({"hook": f"{__name__}:given"})
    assert secret.reveal() == SECRET
    assert SECRET not in f"{secret!r}{secret}{secret.model_dump()}{FETCHED!r}"


@pytest.mark.parametrize(
    ("hook", "kind", "words"),
    [
        (f"{__name__}:broken", UnreachableError, "failed (ValueError)"),
        (f"{__name__}:absent", UnsetVariableError, "cannot be imported (AttributeError)"),
        ("no_such_module:f", UnsetVariableError, "cannot be imported (ModuleNotFoundError)"),
        ("os:getpid", UnreachableError, "returned no text"),
    ],
)
def test_a_function_that_fails_is_named_without_its_words(hook, kind, words):
    with pytest.raises(kind) as caught:
        Secret.model_validate({"hook": hook}).reveal()
    assert words in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "form",
    [
        {"command": []},
        {"command": SECRET},
        {"command": [SECRET, 1]},
        {"command": [SECRET], "env": "A"},
        {"hook": SECRET},
        {"hook": 1},
        {"env": "A", "keep_seconds": 3},
        {"file": "/a", "keep_seconds": 3},
        {"keep_seconds": 3},
    ],
)
def test_a_place_of_another_form_is_refused(form):
    document = {
        "kafka": {"bootstrap_servers": "x:1", "properties": {"sasl.password": form}},
        "lake": {"catalog": {"type": "rest", "uri": "http://x"}, "warehouse": "s3://x"},
        "sources": {},
    }
    with pytest.raises(ConfigError, match=r"command: \[PROGRAM") as caught:
        load.read_config(document, Path(os.sep), "test")
    assert SECRET not in str(caught.value)
