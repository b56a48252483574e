"""The formats of Debezium as a test's source uses them."""

from cdc_assets.config import SourceConfig
from cdc_assets.formats.registered import format_of


def debezium_json(**topics):
    """``debezium-json`` with these settings of its topics."""
    said = {"include": [".*"], **topics}
    return format_of(SourceConfig.model_validate({"format": "debezium-json", "topics": said}))
