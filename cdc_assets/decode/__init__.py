"""Reads JSON on Spark by a function of our own, which lies in the package as a jar (``jvm``)."""

from cdc_assets.decode.json import CATALOG, JAR, SETTINGS, SORTED, UNLIKE, compared, read_json

__all__ = ["CATALOG", "JAR", "SETTINGS", "SORTED", "UNLIKE", "compared", "read_json"]
