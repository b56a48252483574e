"""Applies folded changes to a branch, and publishes it to readers."""
