"""Rewinds a table to an earlier publish, and lists its publishes."""
