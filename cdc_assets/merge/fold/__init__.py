"""From decoded changes to one change for each key."""
