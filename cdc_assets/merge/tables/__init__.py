"""Reads and writes the lake's tables for a batch: rows, side tables, quarantine."""
