"""Provides the demo's database: a small shop, steady load on it, and its Debezium connector."""
