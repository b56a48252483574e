"""Makes the jar of ``canal-protobuf`` of its sources: ``make canal-jar``; a JDK of 17 or later.

The jar is part of the package, since nobody who installs that needs a compiler. It names the
sources that it was made of, which a test compares.
"""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from cdc_assets.devstack.java import pyspark_jars
from cdc_assets.formats.canal import packets

SOURCES = packets.JAR.parent / "src"
DIGEST = "META-INF/sources.sha256"
_BEGINNING = (1980, 1, 1, 0, 0, 0)


def digest() -> str:
    """Of all sources and their names."""
    found = hashlib.sha256()
    for file in sorted(SOURCES.rglob("*.java")):
        found.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return found.hexdigest()


def recorded() -> str:
    """Of the sources that the jar was made of."""
    with zipfile.ZipFile(packets.JAR) as jar:
        return jar.read(DIGEST).decode()


def make() -> None:
    """Compile, and write the jar: the same bytes of the same classes."""
    with tempfile.TemporaryDirectory() as folder:
        classes = Path(folder)
        sources = [str(file) for file in sorted(SOURCES.rglob("*.java"))]
        command = ["javac", "--release", "17", "-Werror", "-Xlint:all,-classfile,-path"]
        subprocess.run([*command, "-cp", f"{pyspark_jars()}/*", "-d", folder, *sources], check=True)
        found = {
            str(file.relative_to(classes)): file.read_bytes() for file in classes.rglob("*.class")
        }
    _write({**found, DIGEST: digest().encode()})


def _write(files: Mapping[str, bytes]) -> None:
    with zipfile.ZipFile(packets.JAR, "w", zipfile.ZIP_DEFLATED) as jar:
        for name, content in sorted(files.items()):
            jar.writestr(zipfile.ZipInfo(name, _BEGINNING), content, zipfile.ZIP_DEFLATED)


if __name__ == "__main__":
    make()
