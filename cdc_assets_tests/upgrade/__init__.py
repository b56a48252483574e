"""What each release has left behind, and what it has promised: the present code goes on with it."""
