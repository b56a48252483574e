"""Many lives, on every core: ``python -m cdc_assets_tests.toy.soak 50000`` says how fast."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Iterable, Iterator
from itertools import combinations_with_replacement

from cdc_assets_tests.model.protocol.effects import Fault, How, Then
from cdc_assets_tests.toy.lives import KINDS, Kind, Lived, some_life

SMALL: dict[Kind, Lived] = {
    "hard": Lived(4745, "hard", 14),
    "soft": Lived(5104, "soft", 14),
    "keyless": Lived(1018, "keyless", 14),
}
"""Short logs in which nearly every effect occurs: two or more batches, deletes, a truncate or an
added partition, a new column, a record in quarantine that is merged again."""

_INLINE = 2000
"""Up to so many lives are not worth another process."""


def broken(lives: Iterable[Lived], most: int = 5) -> list[str]:
    """The lines that reproduce the first broken ones."""
    chosen = list(lives)
    found: list[str] = []
    for line in _faults(chosen):
        found.append(line)
        if len(found) == most:
            break
    return found


def random_lives(count: int, start: int = 0) -> Iterator[Lived]:
    """One per seed."""
    return (some_life(seed) for seed in range(start, start + count))


def single_faults(kind: Kind) -> Iterator[Lived]:
    """Every effect of a small life × every way to fail × everything that may come next."""
    for at in range(len(SMALL[kind].live().done)):
        for how in How:
            for then in Then:
                yield _with(SMALL[kind], Fault(at, how, then))


def pairs_of_faults(kind: Kind) -> Iterator[Lived]:
    """Every pair of kinds of effects × every way to fail × everything that may come next."""
    names = dict.fromkeys(SMALL[kind].live().done)
    for first, second in combinations_with_replacement(names, 2):
        for one in How:
            for other in How:
                for then in Then:
                    pair = Fault(first, one, then), Fault(second, other, then)
                    yield _with(SMALL[kind], *pair)


def each_once(lives: Iterable[Lived], every: int) -> Iterator[Lived]:
    """Every so many of them."""
    return (each for number, each in enumerate(lives) if number % every == 0)


def _with(life: Lived, *faults: Fault) -> Lived:
    return Lived(life.seed, life.kind, life.actions, faults)


def _faults(lives: list[Lived]) -> Iterator[str]:
    if len(lives) <= _INLINE:
        yield from filter(None, map(Lived.fault, lives))
        return
    processes = multiprocessing.get_context("spawn")
    with processes.Pool(os.cpu_count()) as pool:
        yield from filter(None, pool.imap_unordered(Lived.fault, lives, chunksize=200))


def main(count: int) -> int:
    """Live so many lives from random seeds, then every single fault and every pair."""
    parts = {f"{count} random lives": list(random_lives(count))}
    parts |= {f"single faults, {kind}": list(single_faults(kind)) for kind in KINDS}
    parts |= {f"pairs of faults, {kind}": list(pairs_of_faults(kind)) for kind in KINDS}
    failed = 0
    for name, lives in parts.items():
        begun = time.monotonic()
        lines = broken(lives)
        seconds = time.monotonic() - begun
        failed += len(lines)
        rate = 60 * len(lives) / seconds
        done = f"{len(lives)} in {seconds:.0f} s, {rate:.0f} a minute, {len(lines)} broken"
        print(f"{name}: {done}", *lines, sep="\n", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
