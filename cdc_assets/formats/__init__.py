"""Decodes wire formats: one module each, raw record to change."""
