import os
import shutil
from pathlib import Path

import pytest
from cdc_assets_devstack import jars
from cdc_assets_devstack.ivy import CACHE_VARIABLE, REPOSITORY_VARIABLE
from cdc_assets_devstack.layout import JARS_VARIABLE, StackLayout

from cdc_assets.errors import TerminalError
from cdc_assets_tests.conftest import CHECKOUT_JARS

pytestmark = pytest.mark.slow

JAR = "slf4j-simple-1.7.36.jar"


@pytest.fixture
def layout(tmp_path) -> StackLayout:
    """The checkout's jars of one part, as links, in a home of their own."""
    installed = Path(os.environ.get(JARS_VARIABLE, CHECKOUT_JARS))
    if not (installed / "kafka.lock.json").exists():
        pytest.skip("the JVM pieces are not installed: make install")
    copied = tmp_path / "jars"
    shutil.copytree(installed / "kafka", copied / "kafka", copy_function=os.link)
    shutil.copy(installed / "kafka.lock.json", copied)
    return StackLayout(tmp_path, jars=copied)


def replace(jar: Path, content: bytes) -> None:
    jar.unlink()
    jar.write_bytes(content)


def test_what_is_in_place_is_not_resolved_again(layout):
    assert jars.install(layout, ["kafka"], verify=True) == ()


def test_a_jar_of_another_size_is_noticed(layout):
    replace(layout.jars_of("kafka") / JAR, b"short")
    assert not jars.is_installed(layout, "kafka")


def test_a_changed_jar_of_the_same_size_is_noticed_by_verify(layout):
    jar = layout.jars_of("kafka") / JAR
    replace(jar, bytes(jar.stat().st_size))
    assert jars.is_installed(layout, "kafka")
    assert not jars.is_installed(layout, "kafka", verify=True)


def test_a_missing_jar_is_resolved_again_from_the_cache(layout, monkeypatch):
    cache = CHECKOUT_JARS.with_name("ivy")
    if not (cache / "kafka").exists():
        pytest.skip("this checkout has no Ivy cache")
    monkeypatch.setenv(CACHE_VARIABLE, str(cache))
    monkeypatch.setenv(REPOSITORY_VARIABLE, "http://127.0.0.1:9/never-asked")
    (layout.jars_of("kafka") / JAR).unlink()
    assert jars.install(layout, ["kafka"]) == ("kafka",)
    assert jars.is_installed(layout, "kafka", verify=True)


def test_a_part_without_its_jars_is_refused_with_the_command_that_installs_them(tmp_path):
    with pytest.raises(TerminalError, match="cdc-assets stack install"):
        jars.require_installed(StackLayout(tmp_path, jars=tmp_path / "none"), "kafka")


def test_an_unexpected_checksum_names_the_jar():
    with pytest.raises(TerminalError, match=JAR):
        jars.require_expected("kafka", {JAR: "00", "b.jar": "11"}, {JAR: "ff", "b.jar": "11"})
