"""Makes a complete plan and decoded changes from the log and the lake."""
