"""``cdc-assets`` as a person calls it, in this process: a new one imports for seconds."""

from __future__ import annotations

import io
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from cdc_assets.cli import CONFIG_VARIABLE, main


def run_command(
    folder: Path, *arguments: str, config: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run it without a Dagster instance of its own.

    Args:
        folder: where it is called; ``replication.yaml`` may lie there.
        arguments: of the command.
        config: a configuration elsewhere, named by the environment.
    """
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.chdir(folder)
        if config is None:
            patch.delenv(CONFIG_VARIABLE, raising=False)
        else:
            patch.setenv(CONFIG_VARIABLE, str(config))
        patch.delenv("DAGSTER_HOME", raising=False)
        patch.setattr(sys, "argv", ["cdc-assets", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
    code = ended.value.code
    assert isinstance(code, int)
    return subprocess.CompletedProcess(sys.argv, code, out.getvalue(), err.getvalue())
