"""Oracle GoldenGate's operations in JSON, typed by JSON alone; updates may leave columns out."""
