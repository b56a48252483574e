"""Operates a running replication: shows its state and its failures, discovers tables."""
