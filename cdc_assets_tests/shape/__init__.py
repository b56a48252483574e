"""The structure's figures, from the syntax trees alone: `make shape`."""
