"""Digests with a salt: nobody who lacks the salt can compare a guess with them."""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest

from cdc_assets.errors import ConfigError, TerminalError
from cdc_assets_tests.lake_view import read_table
from cdc_assets_tests.merge.events import event
from cdc_assets_tests.merge.one_table import TABLE, Make, start
from cdc_assets_tests.pipeline import Message, Pipeline

pytestmark = pytest.mark.stack

SALT = "pepper and salt, and 32 letters…"


def configured(**column: Any) -> dict[str, Any]:
    columns = {"email": {"mask": "sha256", **column}, "note": {"mask": "sha256"}}
    return {"tables": {TABLE: {"columns": columns}}}


def created(id_: int, lsn: int) -> Message:
    return event("c", {"id": id_, "email": f"a{id_}@b.c", "note": f"n{id_}"}, lsn, commit=lsn - 1)


def test_a_digest_is_made_with_its_salt_and_the_salt_is_nowhere(
    pipeline: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EMAIL_SALT", SALT)
    salted = configured(salt={"env": "EMAIL_SALT"})
    made = start(pipeline, created(1, 10), **salted)
    made.produce(TABLE, [created(2, 20)])
    made.merge(TABLE)
    for id_, row in made.by_key(TABLE).items():
        expected = hmac.new(SALT.encode(), f"a{id_}@b.c".encode(), "sha256").hexdigest()
        assert row["email"] == expected
        assert row["note"] == hashlib.sha256(f"n{id_}".encode()).hexdigest()
    table = read_table(made.config, made.entry(TABLE).target)
    assert table is not None
    metadata = Path(urlparse(table.metadata_location).path).read_text()
    assert "cdc-assets" in metadata
    assert SALT[:8] not in metadata

    def again(said: dict[str, Any]) -> Pipeline:
        other = Pipeline(made.base, made.spark, made.folder, said, prefix=made.prefix)
        other.produce(TABLE, [created(3, 30)])
        return other

    with pytest.raises(TerminalError, match="another salt, or none, of: email"):
        again(configured()).merge(TABLE)
    monkeypatch.setenv("EMAIL_SALT", "another salt of more than 16")
    with pytest.raises(TerminalError, match="another salt, or none, of: email"):
        again(salted).merge(TABLE)
    monkeypatch.setenv("EMAIL_SALT", "short")
    with pytest.raises(ConfigError, match="has fewer than 16 characters"):
        again(salted).merge(TABLE)
