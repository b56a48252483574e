"""Reads source databases' catalogs and maps their types, in one folder each."""
