"""``cdc-assets`` as a person calls it, in this process: a new one imports for seconds."""

from __future__ import annotations

import io
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from cdc_assets.cli import CONFIG_VARIABLE, main


def run_command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run it where ``replication.yaml`` may lie, without a Dagster instance of its own."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.chdir(folder)
        patch.delenv(CONFIG_VARIABLE, raising=False)
        patch.delenv("DAGSTER_HOME", raising=False)
        patch.setattr(sys, "argv", ["cdc-assets", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
    code = ended.value.code
    assert isinstance(code, int)
    return subprocess.CompletedProcess(sys.argv, code, out.getvalue(), err.getvalue())
