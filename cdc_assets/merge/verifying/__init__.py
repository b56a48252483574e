"""Compares a live source with its lake table, and repairs differences."""
