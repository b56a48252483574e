"""Numbers by which Spark and Python tell schemas alike."""

from __future__ import annotations

from typing import Final

import xxhash

_SEED: Final = 42
"""Of Spark's ``xxhash64``."""


def spark_hash(text: bytes) -> int:
    """What Spark's ``xxhash64`` gives for the text."""
    number = xxhash.xxh64_intdigest(text, seed=_SEED)
    return number - 2**64 if number >= 2**63 else number
