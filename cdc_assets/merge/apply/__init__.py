"""From folded changes to the branch, and from there to readers."""
