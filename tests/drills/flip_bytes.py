"""Flip every byte of every stored file of a small run: each is reported, and repaired without a difference.

`python tests/drills/flip_bytes.py [--every | --sample 2000] [--repairs 1] [--seed 0]`
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path
from random import Random
from time import perf_counter

sys.path.insert(0, str(Path(__file__).parents[1] / "small"))

import bench_small.plugin
from bench_small.flipping import Place

from bench_core import registry


def main() -> int:
    """Flip, print what came of it, and return 1 if a flip was overlooked, or not made good."""
    words = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    words.add_argument("--every", action="store_true", help="flip every byte of every file")
    words.add_argument("--sample", type=int, default=2000, help="or so many of them")
    words.add_argument("--repairs", type=int, default=1, help="runs for each file of each kind of artifact")
    words.add_argument("--seed", type=int, default=0, help="of places and bits")
    given = words.parse_args()
    random, wrong = Random(given.seed), 0
    with tempfile.TemporaryDirectory() as folder, registry.extra(bench_small.plugin):
        place, started = Place(Path(folder) / "place"), perf_counter()
        files, told = place.files(), Counter[str]()
        for flip in place.every(random) if given.every else place.some(random, given.sample):
            told[flip.kind] += 1
            if not place.told(flip):
                wrong += 1
                print(f"overlooked: {flip}")
        print(f"{len(files)} files of {sum(size for *_, size in files):,} bytes")
        print(f"{told.total():,} flips in {perf_counter() - started:.0f} s, {wrong} overlooked: {dict(told)}")
        started, repairs = perf_counter(), 0
        for flip in (flip for _ in range(given.repairs) for flip in place.one_of_each(random)):
            repairs += 1
            found = place.repaired(flip)
            wrong += bool(found)
            print("".join(f"{flip}: {text}\n" for text in found), end="")
        print(f"{repairs} repairs in {perf_counter() - started:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
