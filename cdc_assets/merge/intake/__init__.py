"""From the log and the lake to a complete plan and decoded changes."""
