"""A classic session has our jar beside whatever jars the configuration names."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc_assets import decode
from cdc_assets.orchestration.resources import spark_resource
from cdc_assets_tests.world import write_config

pytestmark = pytest.mark.unit

OURS = str(decode.JAR)


@pytest.mark.parametrize(
    ("conf", "expected"),
    [
        ({}, "{home}/jars/spark/a.jar,{home}/jars/spark/b.jar," + OURS),
        ({"spark.jars": "/x.jar,/y.jar"}, f"/x.jar,/y.jar,{OURS}"),
        ({"spark.jars.packages": "a:b:1"}, OURS),
        ({"spark.jars": "/x.jar", "spark.jars.packages": "a:b:1"}, f"/x.jar,{OURS}"),
    ],
    ids=["installed", "jars", "packages", "both"],
)
def test_our_jar_is_appended(tmp_path: Path, conf: dict[str, str], expected: str) -> None:
    config = write_config(tmp_path, spark={"master": "local[2]", "conf": conf})
    folder = config.home / "jars" / "spark"
    folder.mkdir(parents=True)
    for name in ("a.jar", "b.jar"):
        (folder / name).touch()
    settings = spark_resource(config).late_config()
    assert settings["spark.jars"] == expected.format(home=config.home)
    packages = "spark.jars.packages"
    assert settings.get(packages) == conf.get(packages)
