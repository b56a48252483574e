from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from cdc_assets.cli import cli
from cdc_assets.errors import ConfigError
from cdc_assets.orchestration.replay_command import parse_hour
from cdc_assets.registry import RegistryFile
from cdc_assets_tests.command import run_command
from cdc_assets_tests.world import registry_of, write_config

pytestmark = pytest.mark.unit

HEAVY = ("dagster", "pyspark", "pyiceberg", "pyarrow", "confluent_kafka", "pydantic", "rich")


def process(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "cdc_assets.cli", *arguments],
        cwd=folder, env={"PATH": "", "HOME": str(folder)},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def test_help_names_every_command() -> None:
    shown = CliRunner().invoke(cli, ["--help"]).output
    for name in ("accept-restart", "demo", "quarantine", "replay", "replicate", "stack", "status",
                 "verify"):  # fmt: skip
        assert f"\n  {name} " in shown


def test_help_imports_nothing_heavy(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom click.testing import CliRunner\nfrom cdc_assets.cli import cli\n"
        "assert CliRunner().invoke(cli, ['--help']).exit_code == 0\n"
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stdout == "[]\n"


def test_a_missing_configuration_is_bad_usage(tmp_path: Path) -> None:
    done = process(tmp_path, "status")
    assert done.returncode == 2
    assert "replication.yaml" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_quarantine_has_commands_to_list_and_to_replay(tmp_path: Path) -> None:
    shown = CliRunner().invoke(cli, ["quarantine", "--help"]).output
    for name in ("list", "replay"):
        assert f"\n  {name} " in shown
    assert run_command(tmp_path, "quarantine", "list", "--limit", "0").returncode == 2


def test_an_unknown_option_is_bad_usage(tmp_path: Path) -> None:
    assert run_command(tmp_path, "replicate", "--until").returncode == 2


@pytest.mark.usefixtures("impatient")
def test_kafka_that_does_not_answer_is_named_and_is_no_bad_usage(tmp_path: Path) -> None:
    config = write_config(tmp_path)
    RegistryFile(config.registry).add(registry_of(config, "orders"))

    for arguments in (("status",), ("replicate",)):
        done = run_command(tmp_path, *arguments)
        assert done.returncode == 1
        assert "Kafka" in done.stderr
        assert "127.0.0.1:1" in done.stderr
        assert "Traceback" not in done.stderr


def test_a_table_that_is_not_replicated_is_named_with_those_that_are(tmp_path: Path) -> None:
    config = write_config(tmp_path)
    RegistryFile(config.registry).add(registry_of(config, "orders"))

    hours = ("--from", "2026-03-01T07:00", "--to", "2026-03-01T07:00")
    done = run_command(tmp_path, "replay", "--table", "order", *hours)
    assert done.returncode == 1
    assert "shop.public.orders" in done.stderr


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("2026-03-01-07:00", "2026-03-01-07:00"),
        ("2026-03-01T07:45", "2026-03-01-07:00"),
        ("2026-03-01T07:45+02:00", "2026-03-01-05:00"),
    ],
)
def test_hours_are_read_as_keys_or_iso(text: str, key: str) -> None:
    assert parse_hour(text).key == key


def test_an_hour_that_is_none_is_bad_usage() -> None:
    with pytest.raises(ConfigError, match="yesterday"):
        parse_hour("yesterday")
