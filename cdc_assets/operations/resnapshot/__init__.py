"""Reads tables again from their live source, and corrects their rows in the lake.

Spark reads a table in waves of its keys (`spark_resnapshot`, `wave`), or the connector does, by an
incremental snapshot that a signal asks for (`signal_resnapshot`, `connector_snapshot`). Newer
changes win in both ways.
"""
