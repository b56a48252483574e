"""Debezium's change events: one envelope, in JSON and in Avro."""
