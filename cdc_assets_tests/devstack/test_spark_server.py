"""How the local Spark server is started."""

from __future__ import annotations

from pathlib import Path

import pytest
from cdc_assets_devstack.layout import StackLayout
from cdc_assets_devstack.spark_server import SparkServer

pytestmark = pytest.mark.unit


def test_options_for_its_java_come_after_our_own(tmp_path: Path) -> None:
    conf = {"spark.driver.extraJavaOptions": "-XX:ReservedCodeCacheSize=1g '-Dsome=a b'"}
    argv = SparkServer(StackLayout(tmp_path), conf).command().argv
    ours = argv.index("-XX:ReservedCodeCacheSize=512m")
    theirs = argv.index("-XX:ReservedCodeCacheSize=1g")
    assert ours < theirs < argv.index("-Dsome=a b") < argv.index("-cp")


def test_without_any_it_is_started_all_the_same(tmp_path: Path) -> None:
    assert "-cp" in SparkServer(StackLayout(tmp_path)).command().argv
