"""A toy source and a toy Debezium: logs as the real ones write them, with a known outcome."""
