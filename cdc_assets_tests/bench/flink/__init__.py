"""The same log events by Flink: what its upsert sink for Iceberg takes for the backlog."""
