from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from cdc_assets.cli import cli
from cdc_assets.errors import ConfigError
from cdc_assets.orchestration.merge_commands import parse_hour
from cdc_assets.registry import RegistryFile
from cdc_assets_tests.command import run_command
from cdc_assets_tests.world import registry_of, write_config

HEAVY = ("dagster", "pyspark", "pyiceberg", "pyarrow", "confluent_kafka", "pydantic", "rich")


def process(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "cdc_assets.cli", *arguments],
        cwd=folder, env={"PATH": "", "HOME": str(folder)},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


@pytest.mark.unit
def test_help_names_every_command() -> None:
    shown = CliRunner().invoke(cli, ["--help"]).output
    for name in ("accept-restart", "demo", "quarantine", "replay", "replicate", "stack", "status",
                 "verify"):  # fmt: skip
        assert f"\n  {name} " in shown


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_missing_configuration_is_bad_usage(tmp_path: Path) -> None:
    done = process(tmp_path, "status")
    assert done.returncode == 2
    assert "replication.yaml" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.unit
def test_the_quarantine_has_commands_to_list_and_to_replay(tmp_path: Path) -> None:
    shown = CliRunner().invoke(cli, ["quarantine", "--help"]).output
    for name in ("list", "replay"):
        assert f"\n  {name} " in shown
    assert run_command(tmp_path, "quarantine", "list", "--limit", "0").returncode == 2


@pytest.mark.unit
def test_an_unknown_option_is_bad_usage(tmp_path: Path) -> None:
    assert run_command(tmp_path, "replicate", "--until").returncode == 2


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
def test_kafka_that_does_not_answer_is_named_and_is_no_bad_usage(tmp_path: Path) -> None:
    config = write_config(tmp_path)
    RegistryFile(config.registry).add(registry_of(config, "orders", "items"))

    for arguments in (("status",), ("replicate",), ("plan",)):
        done = run_command(tmp_path, *arguments)
        assert done.returncode == 1
        assert done.stderr.count("Kafka does not answer") == 1
        assert "127.0.0.1:1" in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.unit
def test_a_table_that_is_not_replicated_is_named_with_those_that_are(tmp_path: Path) -> None:
    config = write_config(tmp_path)
    RegistryFile(config.registry).add(registry_of(config, "orders"))

    hours = ("--from", "2026-03-01T07:00", "--to", "2026-03-01T07:00")
    done = run_command(tmp_path, "replay", "--table", "order", *hours)
    assert done.returncode == 2
    assert "shop.public.orders" in done.stderr


@pytest.mark.unit
def test_of_many_tables_the_nearest_names_are_named(tmp_path: Path) -> None:
    config = write_config(tmp_path)
    RegistryFile(config.registry).add(registry_of(config, *(f"t{n}" for n in range(99)), "orders"))

    done = run_command(tmp_path, "schema", "diff", "public.ordres")
    assert done.returncode == 2
    assert "one of: shop.public.orders, " in done.stderr
    assert "and 90 more" in done.stderr


@pytest.mark.unit
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("command", ["status", "plan"])
def test_without_tables_kafka_is_asked_whether_there_might_be_some(
    tmp_path: Path, command: str
) -> None:
    write_config(tmp_path)

    done = run_command(tmp_path, command)
    assert done.returncode == 1
    assert "Kafka does not answer" in done.stderr


@pytest.mark.unit
def test_a_source_that_is_none_is_bad_usage_before_kafka_is_asked(tmp_path: Path) -> None:
    write_config(tmp_path)
    done = run_command(tmp_path, "replicate", "--source", "shp")
    assert done.returncode == 2
    assert "shp" in done.stderr


def failing_with(error: Exception, patch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise error

    patch.setattr("cdc_assets.cli._config", fail)


@pytest.mark.unit
def test_a_file_of_another_user_is_named_without_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing_with(PermissionError(13, "Permission denied", "/srv/.cdc/secrets"), monkeypatch)
    done = run_command(tmp_path, "status")
    assert done.returncode == 1
    assert done.stderr == (
        "error: Permission denied [/srv/.cdc/secrets] "
        "→ work as the user that owns it, or set another `home`\n"
    )


@pytest.mark.unit
@pytest.mark.parametrize("kind", [ValueError, ConnectionError], ids=["foreign", "of a client"])
def test_an_unexpected_error_shows_lines_of_code_and_not_its_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[Exception]
) -> None:
    failing_with(kind("postgresql://shop:geheim@db/shop"), monkeypatch)
    done = run_command(tmp_path, "status")
    assert done.returncode == 1
    assert f"unexpected {kind.__name__}" in done.stderr
    assert "geheim" not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_terminal_without_the_letters_gets_their_numbers(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom cdc_assets import cli\n"
        "@cli.cli.command('say')\ndef say(): print('Größe 订单')\n"
        "sys.argv = ['cdc-assets', 'say']\ncli.main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONIOENCODING": "ascii"},
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "Gr\\xf6\\xdfe \\u8ba2\\u5355\n")


@pytest.mark.unit
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


@pytest.mark.unit
def test_an_hour_that_is_none_is_bad_usage() -> None:
    with pytest.raises(ConfigError, match="yesterday"):
        parse_hour("yesterday")
