"""Mangle the shipped suites, and see that each is taken or refused without a traceback.

`python tests/drills/fuzz_suites.py [--count 5000] [--seed 0] [--only NUMBER] [--show]`
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from collections import Counter
from pathlib import Path
from random import Random
from time import perf_counter
from types import FrameType

sys.path.insert(0, str(Path(__file__).parents[1] / "small"))

from bench_small.asking import Answer, Desk
from bench_small.mangling import Case, case

MOST_SECONDS = 20  # for one case, at most


def main() -> int:
    """Ask about so many mangled suites, print what came of them, and return 1 if anything was wrong."""
    words = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    words.add_argument("--count", type=int, default=5000, help="how many suites")
    words.add_argument("--seed", type=int, default=0, help="of their changes")
    words.add_argument("--only", type=int, help="one of them alone")
    words.add_argument("--show", action="store_true", help="print every answer")
    given = words.parse_args()
    numbers = range(given.count) if given.only is None else [given.only]
    signal.signal(signal.SIGALRM, _stop)
    counts: Counter[str] = Counter()
    slowest, started = (0.0, 0), perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        desk = Desk(Path(folder))
        for number in numbers:
            one, begun = case(Random(f"{given.seed}/{number}")), perf_counter()
            signal.alarm(MOST_SECONDS)
            answer = desk.ask(one)
            signal.alarm(0)
            slowest = max(slowest, (perf_counter() - begun, number))
            counts[f"{one.kind}, {_word(answer)}"] += 1
            if answer.wrong or given.show:
                print(_told(given.seed, number, one, answer), flush=True)
            counts["wrong"] += bool(answer.wrong)
    for what, count in sorted(counts.items()):
        print(f"{what:30} {count:6}")
    print(
        f"{len(numbers)} suites in {perf_counter() - started:.0f} s; the slowest, {slowest[1]}, took {slowest[0]:.1f} s"
    )
    return 1 if counts["wrong"] else 0


def _stop(number: int, frame: FrameType | None) -> None:
    raise TimeoutError(f"no answer within {MOST_SECONDS} s")


def _word(answer: Answer) -> str:
    return (
        {0: "taken", 2: "refused"}.get(answer.code or 0, f"exit {answer.code}") if answer.code is not None else "died"
    )


def _told(seed: int, number: int, one: Case, answer: Answer) -> str:
    head = f"--seed {seed} --only {number} ({one.kind}): bench {' '.join(map(repr, one.words))[:500]}"
    return "\n".join(
        [
            head,
            *(f"    {text}" for text in answer.wrong),
            *(f"  {line[:300]}" for line in answer.text.splitlines()[:40]),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
