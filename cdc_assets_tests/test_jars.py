"""The package's own jars."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc_assets_tests import jars

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("jar", jars.JARS, ids=lambda jar: jar.stem)
def test_a_jar_is_made_of_its_sources(jar: Path) -> None:
    """After a change of these: ``make jars``."""
    assert jars.recorded(jar) == jars.digest(jar)
