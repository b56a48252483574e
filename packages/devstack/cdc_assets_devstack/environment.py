"""Builds the environment of the local stack's programs from a list, never the user's whole one.

A user's shell may point to another Spark, PostgreSQL, Kafka or Dagster, or set options of another
JVM: ``SPARK_REMOTE``, ``JAVA_TOOL_OPTIONS``, ``CLASSPATH``, ``PGHOST``, ``KAFKA_OPTS``,
``DAGSTER_HOME``. None of that is meant for the parts of the stack. They get only variables on a
list, and the locale is always UTF-8 without a language.

Each program's environment also names its stack and its part, so that its owner can be identified
if its pidfile is lost.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

import yaml

from cdc_assets_devstack.layout import HOST

PART_VARIABLE = "CDC_ASSETS_STACK_PART"
HOME_VARIABLE = "CDC_ASSETS_STACK_HOME"

SYSTEM = ("HOME", "LOGNAME", "PATH", "TMPDIR", "USER")
PYTHON = ("LD_LIBRARY_PATH", "PYTHONDONTWRITEBYTECODE", "PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV")
NETWORK = (
    *("CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "SSL_CERT_DIR", "SSL_CERT_FILE"),
    *("ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"),
    *("all_proxy", "https_proxy", "http_proxy", "no_proxy"),
)
CLOUD = ("AWS_*", "AZURE_*", "GOOGLE_*")
OWN = ("CDC_ASSETS_*", "JAVA_HOME")

_LOCALE = {"LANG": "C.UTF-8"}
_DIRECT = (HOST, "localhost", "::1")


def chosen(*names: str) -> dict[str, str]:
    """Returns a program's environment: the system's variables, and those that match ``names``.

    Args:
        names: names or shell patterns (``AWS_*``) in addition to `SYSTEM`.
    """
    wanted = (*SYSTEM, *names)
    taken = {
        name: value
        for name, value in os.environ.items()
        if any(fnmatchcase(name, pattern) for pattern in wanted)
    }
    return {**taken, **_direct(taken), **_LOCALE}


def of_part(home: Path, part: str, names: Iterable[str] = ()) -> dict[str, str]:
    """Returns the environment of one part of the stack in ``home``, with home and part in it."""
    return {**chosen(*names), HOME_VARIABLE: str(home.resolve()), PART_VARIABLE: part}


def named_in(file: Path) -> dict[str, str]:
    """Returns the variables that a YAML file references as ``{env: NAME}``, if they are set."""
    names = set(_names(yaml.safe_load(file.read_text(encoding="utf-8"))))
    return {name: os.environ[name] for name in sorted(names) if name in os.environ}


def _names(node: object) -> Iterator[str]:
    if isinstance(node, dict):
        found = node.get("env")
        if isinstance(found, str):
            yield found
        for each in node.values():
            yield from _names(each)
    if isinstance(node, list):
        for each in node:
            yield from _names(each)


def forget_other_databases() -> None:
    """Removes libpq's variables from this process, for commands about the local stack only.

    ``PGSERVICE`` and ``PGHOSTADDR`` take effect even if a DSN names its host.
    """
    for name in [each for each in os.environ if each.startswith("PG")]:
        del os.environ[name]


def without_proxy_to_this_machine() -> None:
    """Makes this process's clients reach the parts of the stack directly."""
    os.environ.update(_direct(os.environ))


def _direct(taken: Mapping[str, str]) -> dict[str, str]:
    """Returns variables that exclude this machine from a proxy; none without a proxy."""
    if not any(name.lower().endswith("_proxy") for name in taken):
        return {}
    given = f"{taken.get('no_proxy', '')},{taken.get('NO_PROXY', '')}".split(",")
    hosts = ",".join(dict.fromkeys([*filter(None, given), *_DIRECT]))
    return {"no_proxy": hosts, "NO_PROXY": hosts}
