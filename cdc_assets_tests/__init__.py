"""Tests, in the same folders as what they test."""
