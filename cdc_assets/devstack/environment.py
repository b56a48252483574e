"""The environment of the programs that the local stack starts: chosen, never the user's own.

A user's shell may say where another Spark, PostgreSQL, Kafka or Dagster is, and how another JVM
is to be started: ``SPARK_REMOTE``, ``JAVA_TOOL_OPTIONS``, ``CLASSPATH``, ``PGHOST``,
``KAFKA_OPTS``, ``DAGSTER_HOME``. None of that is meant for the parts of the stack. What they
get is on a list, and the locale is always that of UTF-8 without a language.

Each program also carries the name of its stack and its part, so that it can be told whose it is
when its pidfile is lost.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

import yaml

from cdc_assets.devstack.layout import HOST

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
    """What a program gets: the system's variables, and those that match ``names``.

    Args:
        names: names or shell patterns (``AWS_*``) beside `SYSTEM`.
    """
    wanted = (*SYSTEM, *names)
    taken = {
        name: value
        for name, value in os.environ.items()
        if any(fnmatchcase(name, pattern) for pattern in wanted)
    }
    return {**taken, **_direct(taken), **_LOCALE}


def of_part(home: Path, part: str, names: Iterable[str] = ()) -> dict[str, str]:
    """The environment of one part of the stack in ``home``, which it names."""
    return {**chosen(*names), HOME_VARIABLE: str(home.resolve()), PART_VARIABLE: part}


def named_in(file: Path) -> dict[str, str]:
    """The variables that a YAML file asks for by ``{env: NAME}``, as far as they are set."""
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
    """Take libpq's variables out of this process, for commands about the local stack only.

    ``PGSERVICE`` and ``PGHOSTADDR`` have a say even where a DSN names its host.
    """
    for name in [each for each in os.environ if each.startswith("PG")]:
        del os.environ[name]


def without_proxy_to_this_machine() -> None:
    """Have the clients of this process reach the parts of the stack directly."""
    os.environ.update(_direct(os.environ))


def _direct(taken: Mapping[str, str]) -> dict[str, str]:
    """Where there is a proxy: never for this machine."""
    if not any(name.lower().endswith("_proxy") for name in taken):
        return {}
    given = f"{taken.get('no_proxy', '')},{taken.get('NO_PROXY', '')}".split(",")
    hosts = ",".join(dict.fromkeys([*filter(None, given), *_DIRECT]))
    return {"no_proxy": hosts, "NO_PROXY": hosts}
