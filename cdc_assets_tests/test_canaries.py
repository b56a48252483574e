from __future__ import annotations

import gzip
import sqlite3
import subprocess
import sys
import zlib
from pathlib import Path

import dagster as dg
import pytest

from cdc_assets_tests.canaries import shown_by, shown_in

CANARY = "canary-77"


@pytest.mark.unit
def test_a_canary_is_found_in_plain_and_in_compressed_files_and_rows(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text(f"x {CANARY} y")
    (tmp_path / "gzipped").write_bytes(gzip.compress(CANARY.encode()))
    (tmp_path / "clean").write_text("nothing")
    with sqlite3.connect(tmp_path / "rows.db") as database:
        database.execute("CREATE TABLE kept (body BLOB)")
        database.execute("INSERT INTO kept VALUES (?)", (zlib.compress(CANARY.encode()),))
    found = [Path(each).name for each in shown_in(tmp_path, [CANARY])]
    assert found == ["gzipped", "plain", "rows.db: kept"]


@pytest.mark.slow
def test_a_canary_in_a_run_that_dagster_keeps_is_found(tmp_path: Path) -> None:
    @dg.op(description=f"holds {CANARY}")
    def holds() -> None: ...

    @dg.job
    def holding() -> None:
        holds()

    (tmp_path / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        holding.execute_in_process(instance=instance)
    raw = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not any(CANARY.encode() in path.read_bytes() for path in raw), "not compressed any more"
    assert [each for each in shown_in(tmp_path, [CANARY]) if each.endswith(": snapshots")]


@pytest.mark.slow
def test_a_canary_on_a_command_line_is_found() -> None:
    waits = "import sys; sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", waits, CANARY], stdin=subprocess.PIPE) as process:
        assert shown_by([process.pid], [CANARY, "another"]) == [CANARY]
        assert process.stdin is not None
        process.stdin.close()
