"""Defines our own functions for Spark, which the package contains as a jar (``jvm``)."""

from cdc_assets.decode.jar import (
    CATALOG,
    JAR,
    SERVER_MANIFESTS,
    SETTINGS,
    JarMatch,
    artifacts,
    digest,
    found_by,
)
from cdc_assets.decode.json import (
    ALONE,
    NOT_UTF8,
    SORTED,
    UNLIKE,
    UTF8,
    called,
    compared,
    counted,
    counted_result,
    read_avro,
    read_change,
    read_json,
    read_key,
    read_value,
)

__all__ = [
    "ALONE", "CATALOG", "JAR", "NOT_UTF8", "SERVER_MANIFESTS", "SETTINGS", "SORTED", "UNLIKE",
    "UTF8", "JarMatch", "artifacts", "called", "compared", "counted", "counted_result", "digest",
    "found_by", "read_avro", "read_change", "read_json", "read_key", "read_value",
]  # fmt: skip
