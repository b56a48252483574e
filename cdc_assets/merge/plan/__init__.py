"""Values for a batch's plan, for the request of a try, and for its outcome."""
