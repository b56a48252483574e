"""Coordinates, positions and fold rules of changes. Pure Python."""
