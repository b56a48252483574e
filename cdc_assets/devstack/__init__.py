"""The local stack: what the demo, the tests and a laptop need, without Docker."""
