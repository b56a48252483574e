"""Downloads a manifest's jars with the Ivy that pyspark contains."""

from __future__ import annotations

import os
import re
import subprocess
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

from cdc_assets.errors import TransientError
from cdc_assets_devstack import environment
from cdc_assets_devstack.java import find_java, pyspark_jars
from cdc_assets_devstack.truststore import PASSWORD, write_truststore

REPOSITORY_VARIABLE = "CDC_ASSETS_MAVEN_REPOSITORY"
CACHE_VARIABLE = "CDC_ASSETS_IVY_CACHE"
SETTINGS = Path(__file__).with_name("jvm") / "ivysettings.xml"

_MISSING = re.compile(r"::\s+(?:\^ see[^:]*|(\S+#\S+;[^\s:!]+(?:!\S+)?))")
_REASON = re.compile(r"Server access error at url \S+ \((.+)\)")


def retrieve(
    manifest: Path, into: Path, cache: Path, on_line: Callable[[str], None] = lambda _: None
) -> None:
    """Puts the jars of a manifest, and of its dependencies, into a folder.

    Args:
        manifest: an ``ivy.xml``.
        into: receives ``artifact-revision.jar`` files.
        cache: Ivy's own folder; files in it are not downloaded again.
        on_line: receives every line that Ivy prints, for progress.

    Raises:
        TransientError: names the artifacts that are not available, and says how to retry.
    """
    printed: list[str] = []
    with subprocess.Popen(
        _command(manifest, into, cache),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=environment.chosen(),
    ) as ivy:
        for line in ivy.stdout or ():
            printed.append(line.rstrip())
            on_line(printed[-1])
    if ivy.returncode or _sections(printed):
        raise _failure(manifest.stem, printed)


def missing_artifacts(printed: Iterable[str]) -> tuple[str, ...]:
    """Returns the artifacts that Ivy lists as unresolved or failed, in Ivy's spelling."""
    found = (match.group(1) for line in _sections(printed) if (match := _MISSING.search(line)))
    return tuple(dict.fromkeys(name for name in found if name))


def _sections(printed: Iterable[str]) -> list[str]:
    """Returns the lines under the two headings with which Ivy reports missing artifacts."""
    lines, inside = [], False
    for line in printed:
        if "UNRESOLVED DEPENDENCIES" in line or "FAILED DOWNLOADS" in line:
            inside = True
        elif line.startswith("::::"):
            inside = False
        elif inside:
            lines.append(line)
    return lines


def _failure(part: str, printed: list[str]) -> TransientError:
    missing = ", ".join(missing_artifacts(printed)) or "see below"
    reasons = [match.group(1) for line in printed if (match := _REASON.search(line))]
    why = f" ({reasons[0]})" if reasons else ""
    msg = f"could not download for {part}: {missing}{why}"
    shown = "" if missing != "see below" else "\n" + "\n".join(printed[-15:])
    return TransientError(
        msg,
        where=f"repository={os.environ.get(REPOSITORY_VARIABLE, 'Maven Central')}",
        remedy="check the network, then run `cdc-assets stack install` again (what was "
        f"downloaded is kept); a mirror can be named in {REPOSITORY_VARIABLE}{shown}",
        page="pieces-missing",
    )


def _command(manifest: Path, into: Path, cache: Path) -> list[str]:
    (ivy_jar,) = pyspark_jars().glob("ivy-*.jar")
    return [
        str(find_java().program),
        *("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
        *_network_options(cache),
        *("-jar", str(ivy_jar), "-settings", str(SETTINGS), "-cache", str(cache)),
        *("-ivy", str(manifest), "-confs", "default"),
        *("-retrieve", f"{into}/[artifact]-[revision](-[kind]).[ext]"),
    ]


def _network_options(cache: Path) -> Iterator[str]:
    """Yields Java's options for the environment's mirror, certificate authority and proxy."""
    if repository := os.environ.get(REPOSITORY_VARIABLE):
        yield f"-Dcdc.repository={repository.rstrip('/')}/"
    if bundle := os.environ.get("SSL_CERT_FILE"):
        truststore = cache / "truststore.jks"
        write_truststore(Path(bundle), truststore)
        yield f"-Djavax.net.ssl.trustStore={truststore}"
        yield f"-Djavax.net.ssl.trustStorePassword={PASSWORD}"
    for scheme in ("http", "https"):
        proxy = urlsplit(urllib.request.getproxies().get(scheme, ""))
        if proxy.hostname:
            yield f"-D{scheme}.proxyHost={proxy.hostname}"
            yield f"-D{scheme}.proxyPort={proxy.port or 8080}"
