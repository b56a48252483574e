"""Permits a table to follow a source that began again: `cdc-assets accept-restart`."""
