"""Files that the local Spark server writes: their permissions, and what these cost."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
from cdc_assets_devstack.stack import LocalStack

from cdc_assets_tests.pipeline import Session
from cdc_assets_tests.toy.profiles import in_soak

pytestmark = [pytest.mark.stack, in_soak]

FILES = 8
MAX_MODE = {False: 0o666, True: 0o777}
"""Before the umask, of a file and of a folder."""


def test_files_have_the_servers_umask_and_no_process_is_started_for_each(
    stack: LocalStack, spark: Session, tmp_path: Path
) -> None:
    """A server has other reasons to start a process, now and then: fewer than files are written."""
    server = next(each.pid for each in stack.status().parts if each.name == "spark")
    spark().range(0, FILES, 1, FILES).write.parquet(str(tmp_path / "warm"))
    before = faults_of_children(server)
    spark().range(0, FILES, 1, FILES).write.parquet(str(tmp_path / "written"))
    assert faults_of_children(server) - before < FILES * faults_of_a_process()
    written = [*(tmp_path / "written").iterdir()]
    data = [each for each in written if each.suffix == ".parquet"]
    assert len(data) == FILES
    assert all((each.parent / f".{each.name}.crc").exists() for each in data)
    mask = umask(server)
    for each in (tmp_path / "written", *written):
        assert each.stat().st_mode & 0o7777 == MAX_MODE[each.is_dir()] & ~mask, each.name


def faults_of_children(pid: int | None) -> int:
    """Page faults of all its children that have ended: each process that is started has some."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[8])


def faults_of_a_process() -> int:
    """Page faults of about the smallest program that there is."""
    program = shutil.which("true")
    assert program
    _, code, usage = os.wait4(os.posix_spawn(program, [program], {}), 0)
    assert code == 0
    return usage.ru_minflt


def umask(pid: int | None) -> int:
    found = re.search(r"^Umask:\s*(\d+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert found
    return int(found.group(1), 8)
