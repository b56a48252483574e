"""Makes the package's jars of their sources: ``make jars``; a JDK of 17 or later.

The jars are part of the package, since nobody who installs that needs a compiler. Each names the
sources that it was made of, which a test compares.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from cdc_assets_devstack import local_files
from cdc_assets_devstack.jars import require_installed
from cdc_assets_devstack.java import pyspark_jars
from cdc_assets_devstack.layout import StackLayout

from cdc_assets import decode

DECODE_TESTS: Final = Path(__file__).parent / "decode" / "jvm" / "tests.jar"
JARS: Final = (local_files.JAR, decode.JAR, DECODE_TESTS)
"""Their sources lie in ``src`` beside each."""
_BEGINNING = (1980, 1, 1, 0, 0, 0)


def junit() -> Path:
    """The folder of the one jar that runs tests in Java."""
    return _installed("junit")


def _installed(part: str) -> Path:
    layout = StackLayout(Path(__file__).parents[1] / ".cdc")
    require_installed(layout, part)
    return layout.jars_of(part)


def sources(jar: Path) -> list[Path]:
    """Of a jar, in order."""
    return sorted((jar.parent / "src").rglob("*.java"))


def digest(jar: Path) -> str:
    """Of all its sources and their names."""
    found = hashlib.sha256()
    for file in sources(jar):
        found.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return found.hexdigest()


def entry(jar: Path) -> str:
    """Where a jar names its sources: in a place of its own, as class paths have several jars."""
    return f"META-INF/{jar.stem}.sha256"


def recorded(jar: Path) -> str:
    """Of the sources that it was made of."""
    with zipfile.ZipFile(jar) as file:
        return file.read(entry(jar)).decode()


def make(jar: Path) -> None:
    """Compile, and write it: the same bytes of the same classes."""
    with tempfile.TemporaryDirectory() as folder:
        classes = Path(folder)
        command = [
            "javac",
            "--release",
            "17",
            "-Werror",
            "-Xlint:all,-classfile,-path",
            "-proc:none",
        ]
        path = [f"{pyspark_jars()}/*", f"{_installed('spark')}/*"]
        if jar == DECODE_TESTS:
            path += [str(decode.JAR), f"{junit()}/*"]
        given = ["-cp", os.pathsep.join(path), "-d", folder, *map(str, sources(jar))]
        subprocess.run([*command, *given], check=True)
        found = {
            str(file.relative_to(classes)): file.read_bytes() for file in classes.rglob("*.class")
        }
    write(jar, {**found, entry(jar): digest(jar).encode()})


def write(jar: Path, files: Mapping[str, bytes]) -> None:
    """Of entries by their names."""
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in sorted(files.items()):
            file.writestr(zipfile.ZipInfo(name, _BEGINNING), content, zipfile.ZIP_DEFLATED)


if __name__ == "__main__":
    for each in JARS:
        make(each)
