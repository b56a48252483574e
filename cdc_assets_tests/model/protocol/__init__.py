"""Models the life of a batch: lake, side table, log, writers and faults, all in memory.

Deterministic and without I/O, so that every order of effects and failures can be tried.
"""
