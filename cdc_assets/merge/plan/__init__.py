"""Values: what a batch will do, what is asked of a try, and what becomes of it."""
