"""Computes the hash by which both Spark and Python identify schemas."""

from __future__ import annotations

from typing import Final

import xxhash

_SEED: Final = 42
"""The seed of Spark's ``xxhash64``."""


def spark_hash(*texts: bytes) -> int:
    """Returns the same number as Spark's ``xxhash64`` of these columns: each seeds the next."""
    number = _SEED
    for text in texts:
        number = xxhash.xxh64_intdigest(text, seed=number)
    return number - 2**64 if number >= 2**63 else number
