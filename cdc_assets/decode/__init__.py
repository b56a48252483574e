"""Functions of our own for Spark, which lie in the package as a jar (``jvm``)."""

from cdc_assets.decode.jar import CATALOG, JAR, SETTINGS, Found, digest, found_by
from cdc_assets.decode.json import SORTED, UNLIKE, compared, read_json

__all__ = [
    "CATALOG", "JAR", "SETTINGS", "SORTED", "UNLIKE", "Found", "compared", "digest", "found_by",
    "read_json",
]  # fmt: skip
