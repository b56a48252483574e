"""What people do with a running replication: see its state, its failures, discover tables."""
