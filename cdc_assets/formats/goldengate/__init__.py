"""Reads GoldenGate's JSON operations, typed by JSON alone; updates may leave columns out."""
