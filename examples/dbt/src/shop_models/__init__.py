"""A replication, and dbt models on its tables."""
