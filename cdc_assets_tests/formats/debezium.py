"""The formats of Debezium as a test's source uses them."""

from cdc_assets.config import SourceConfig
from cdc_assets.formats.registered import format_of


def debezium_json(**topics):
    """``debezium-json`` with these settings of its topics."""
    return _format({"topics": {"include": [".*"], **topics}})


def debezium_json_with(connector):
    """The same with what is known of its connector."""
    return _format({"topics": {"include": [".*"]}, "connector": connector})


def _format(source):
    return format_of(SourceConfig.model_validate({"format": "debezium-json", **source}))
