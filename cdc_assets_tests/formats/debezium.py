"""The formats of Debezium as a test's source uses them."""

from cdc_assets.config import SourceConfig
from cdc_assets.formats.registered import format_of


def debezium_json(**topics):
    """``debezium-json`` with these settings of its topics."""
    return _format({"topics": {"include": [".*"], **topics}})


def debezium_json_with(connector):
    """The same with what is known of its connector."""
    return _format({"topics": {"include": [".*"]}, "connector": connector})


def debezium_avro(registry):
    """``debezium-avro`` with the registry at this URL."""
    registry = {"url": registry}
    return _format({"topics": {"include": [".*"]}, "schema_registry": registry}, "debezium-avro")


def _format(source, name="debezium-json"):
    return format_of(SourceConfig.model_validate({"format": name, **source}))
