"""Functions of our own for Spark, which lie in the package as a jar (``jvm``)."""

from cdc_assets.decode.jar import CATALOG, JAR, SETTINGS, Found, digest, found_by
from cdc_assets.decode.json import ALONE, SORTED, UNLIKE, compared, read_json, read_key

__all__ = [
    "ALONE", "CATALOG", "JAR", "SETTINGS", "SORTED", "UNLIKE", "Found", "compared", "digest",
    "found_by", "read_json", "read_key",
]  # fmt: skip
