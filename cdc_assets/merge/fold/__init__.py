"""Folds decoded changes into one change for each key."""
