"""Generates the pages of ``docs/reference/`` that the code knows."""
