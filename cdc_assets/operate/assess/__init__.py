"""Assesses whether tables can be replicated exactly: rules without I/O judge each part's facts."""
