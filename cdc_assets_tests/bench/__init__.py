"""Speed on this machine: ``make bench``. Prints figures and fails on none of them.

Everything that is measured is real: events that Debezium made of a PostgreSQL, a Kafka, the
product's own merge, and for the latency the real daemon.
"""
