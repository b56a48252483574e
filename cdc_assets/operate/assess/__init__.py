"""Whether tables can be replicated exactly: facts of each part, judged by rules without I/O."""
