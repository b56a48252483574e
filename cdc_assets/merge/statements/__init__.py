"""Statements to Spark: their text, deadlines, failures, and checkpointed frames."""
