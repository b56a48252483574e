"""Runs the local stack for the demo, the tests and a laptop, without Docker."""
