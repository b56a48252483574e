"""A project with two replications."""
