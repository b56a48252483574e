"""Loads the installed formats: entry points of the group ``cdc_assets.formats``.

Any package can add one by naming a subclass of `cdc_assets.formats.format.Format` there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from cdc_assets.config import ReplicationConfig, SourceConfig
from cdc_assets.config.formats import entry_points_of_formats
from cdc_assets.errors import ConfigError

if TYPE_CHECKING:
    from cdc_assets.formats.format import Format


def formats_of(config: ReplicationConfig) -> dict[str, Format]:
    """Returns the format of each source.

    Raises:
        ConfigError: if one cannot be loaded.
    """
    return {name: format_of(source) for name, source in config.sources.items()}


def format_of(source: SourceConfig) -> Format:
    """Returns the format of a source, made for it.

    Raises:
        ConfigError: if its package cannot be loaded.
    """
    found = tuple(entry_points_of_formats().select(name=source.format))
    try:
        kind = cast("type[Format]", found[0].load())
    except (ImportError, AttributeError, IndexError) as error:
        what = f"format {source.format!r} cannot be loaded: {type(error).__name__}"
        remedy = "install the package that brings it, for this Python"
        raise ConfigError(what, where="sources.*.format", remedy=remedy) from error
    return kind(source)
