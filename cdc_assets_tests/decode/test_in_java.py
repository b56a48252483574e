"""The tests in Java of the functions for Spark: their units, against Java's own for the same."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from cdc_assets_devstack.java import find_java, pyspark_jars

from cdc_assets import decode
from cdc_assets_tests.jars import DECODE_TESTS, junit, sources

pytestmark = pytest.mark.spark


def test_all_of_them_pass(tmp_path: Path) -> None:
    """Without a compiler: the tests are a jar beside their sources; ``make jars`` makes it."""
    [runner] = junit().glob("*.jar")
    path = [str(each) for each in (DECODE_TESTS, decode.JAR, *Path(pyspark_jars()).glob("*.jar"))]
    command = [str(find_java().program), "-jar", str(runner), "execute", "--disable-banner"]
    shown = ["--disable-ansi-colors", "--details=tree", "--details-theme=ascii"]
    taken = ["--class-path", os.pathsep.join(path), "--scan-class-path", str(DECODE_TESTS)]
    done = subprocess.run(
        [*command, *shown, *taken], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for source in sources(DECODE_TESTS):
        assert f"{source.stem} [OK]" in done.stdout, f"{source.name} did not run"
