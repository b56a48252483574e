"""Statements to Spark: their text, deadlines, failures, and frames that are kept."""
