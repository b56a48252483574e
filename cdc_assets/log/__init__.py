"""Reads Kafka: topics, offsets, hour windows."""
