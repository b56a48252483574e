"""Comparing a live source with its lake table, and putting right what differs."""
