"""The address and the login with which Spark opens the catalog that PyIceberg opens."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc_assets.lake import spark_conf
from cdc_assets_tests.configuration import platform, write

pytestmark = pytest.mark.unit

PREFIX = "spark.sql.catalog.lake."
PASSWORD = "p@s/s:%"


def opened(
    folder: Path, monkeypatch: pytest.MonkeyPatch, uri: str, **properties: str
) -> dict[str, str]:
    """What Spark is told of where the catalog is, and who asks."""
    monkeypatch.setenv("CATALOG_URI", uri)
    catalog = {"type": "sql", "uri": {"env": "CATALOG_URI"}, "properties": properties}
    lake = {"catalog": catalog, "warehouse": folder.as_uri()}
    config = write(folder / "replication.yaml", platform(lake=lake, sources={}))
    said = {name.removeprefix(PREFIX): text for name, text in spark_conf(config).items()}
    return {name: said[name] for name in ("uri", "jdbc.user", "jdbc.password") if name in said}


@pytest.mark.parametrize(
    ("uri", "jdbc", "login"),
    [
        ("postgresql+psycopg://lake:p%40s%2Fs%3A%25@db:5433/lake?sslmode=require",
         "jdbc:postgresql://db:5433/lake?sslmode=require", ("lake", PASSWORD)),
        ("mysql+pymysql://lake@db/lake", "jdbc:mysql://db/lake", ("lake", None)),
        ("postgresql://db/lake", "jdbc:postgresql://db/lake", (None, None)),
        ("sqlite:////a@b/catalog.db", "jdbc:sqlite:/a@b/catalog.db", (None, None)),
    ],
    ids=["with a password", "with a name", "without a login", "of a file"],
)  # fmt: skip
def test_a_login_is_no_part_of_the_address(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    uri: str,
    jdbc: str,
    login: tuple[str | None, str | None],
) -> None:
    """PostgreSQL's driver takes ``user:password@host`` for the host."""
    named = zip(("jdbc.user", "jdbc.password"), login, strict=True)
    expected = {"uri": jdbc} | {name: said for name, said in named if said}
    assert opened(tmp_path, monkeypatch, uri) == expected


def test_a_login_of_sparks_own_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = {"jdbc.user": "spark"}
    said = opened(tmp_path, monkeypatch, "postgresql://lake:theirs@db/lake", **own)
    assert said["jdbc.user"] == "spark"
