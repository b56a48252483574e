"""Ends a table's replication, or begins it again: `cdc-assets drop` and `cdc-assets reset`."""
