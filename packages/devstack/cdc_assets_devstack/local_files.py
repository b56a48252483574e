"""Names the file system of the local Spark server; see its source in ``jvm/src``.

A small batch creates some 15 files and as many checksums, and Hadoop starts a process for each of
them to set its permissions. Without these a batch takes a tenth less.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

JAR: Final = Path(__file__).with_name("jvm") / "local-files.jar"
SETTINGS: Final = {"spark.hadoop.fs.file.impl": "cdc_assets.local.LocalFiles"}
