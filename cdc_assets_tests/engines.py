"""Reads an Iceberg table with another engine: ``python -m … ENGINE METADATA_FILE``.

Prints the engine's version and the table's ids and names, in JSON. Each engine runs in a process of
its own, with its own packages (`run`): they need other versions of Arrow.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

FOLDERS: Final = "CDC_ASSETS_ENGINES"
"""Variable with a folder that has one of the name of each engine, with its packages:
``uv pip install --target FOLDER/duckdb duckdb-extension-iceberg``."""

Rows = Iterable[tuple[int, str]]


def _pyiceberg(metadata: str) -> Rows:
    from pyiceberg.table import StaticTable

    found = StaticTable.from_metadata(metadata).scan().to_arrow()
    return zip(found["id"].to_pylist(), found["name"].to_pylist(), strict=True)


def _duckdb(metadata: str) -> Rows:
    of = find_spec("duckdb_extension_iceberg")
    assert of is not None
    assert of.origin is not None
    connection = import_module("duckdb").connect(config={"allow_unsigned_extensions": "true"})
    for name in ("parquet", "avro", "iceberg"):
        for file in (
            Path(of.origin).parents[1].glob(f"duckdb_extension_*/**/{name}.duckdb_extension")
        ):
            connection.execute(f"LOAD '{file}'")
    return connection.execute("SELECT id, name FROM iceberg_scan(?)", [metadata]).fetchall()


def _polars(metadata: str) -> Rows:
    return (
        import_module("polars")
        .scan_iceberg(metadata, reader_override="native")
        .select("id", "name")
        .collect()
        .rows()
    )


def _daft(metadata: str) -> Rows:
    from pyiceberg.table import StaticTable

    found = (
        import_module("daft")
        .read_iceberg(StaticTable.from_metadata(metadata))
        .select("id", "name")
        .to_pydict()
    )
    return zip(found["id"], found["name"], strict=True)


def _clickhouse(metadata: str) -> Rows:
    os.chdir("/")  # it reads below the working directory only
    path = Path(urlsplit(metadata).path).parents[1].relative_to("/")
    text = import_module("chdb").query(
        f"SELECT id, name FROM icebergLocal('{path}')", "JSONCompactEachRow"
    )
    return [tuple(json.loads(line)) for line in str(text).splitlines() if line.strip()]


ENGINES: Final[Mapping[str, tuple[Callable[[str], Rows], tuple[str, ...]]]] = {
    "pyiceberg": (_pyiceberg, ("pyiceberg",)),
    "duckdb": (_duckdb, ("duckdb", "duckdb_extension_iceberg")),
    "polars": (_polars, ("polars",)),
    "daft": (_daft, ("daft",)),
    "clickhouse": (_clickhouse, ("chdb",)),
}
"""For each engine: reads a table's ids and names; the packages that it needs."""


def run(engine: str, metadata: str) -> dict[str, Any] | None:
    """Returns what an engine has read; ``{"error": …}`` if it refused; None if it is not there."""
    folder = os.environ.get(FOLDERS)
    paths = [*([str(Path(folder) / engine)] if folder else []), *sys.path]
    process = subprocess.run(
        [sys.executable, "-m", "cdc_assets_tests.engines", engine, metadata],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    if process.returncode == _ABSENT:
        return None
    if process.returncode:
        return {
            "error": (process.stderr.strip().splitlines() or [f"ends with {process.returncode}"])[
                -1
            ]
        }
    return dict(json.loads(process.stdout.splitlines()[-1]))


_ABSENT: Final = 3


def _main(engine: str, metadata: str) -> None:
    read, packages = ENGINES[engine]
    if any(find_spec(each) is None for each in packages):
        sys.exit(_ABSENT)
    rows = sorted((int(id_), str(name)) for id_, name in read(metadata))
    print(json.dumps({"versions": {each: version(each) for each in packages}, "rows": rows}))


if __name__ == "__main__":
    _main(*sys.argv[1:])
