"""A configuration without tables says why it has none."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from cdc_assets.operate.known_tables import why_no_tables
from cdc_assets.operate.services import Services
from cdc_assets_tests.configuration import platform, source, write

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("sources", "topics", "said"),
    [
        ({}, (), "no source is configured"),
        ({"shop": source("shop")}, ("store.public.a", "b"), "none of Kafka's 2 topics matches"),
        ({"shop": source("shop")}, ("shop.public.a", "b"), "1 of Kafka's 2 topics match"),
    ],
    ids=["no source", "nothing matches", "nobody has looked"],
)
def test_why_there_are_none(
    tmp_path: Path, sources: dict[str, object], topics: tuple[str, ...], said: str
) -> None:
    services = Services(write(tmp_path / "replication.yaml", platform(sources=sources)))
    vars(services)["log"] = cast("object", SimpleNamespace(topics=lambda: topics))
    assert said in str(why_no_tables(services))
