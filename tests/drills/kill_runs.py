"""Kill runs at random moments, run them again, and see that they end as if nothing had happened.

`python tests/drills/kill_runs.py [--times 50] [--seed 0] [--workers 1 2] [--in-a-row 1] [--only NUMBER]`
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from time import perf_counter

sys.path.insert(0, str(Path(__file__).parents[1] / "small"))

from bench_small.killing import SUITES, Kill, Place, Wrong, differences


def main() -> int:
    """Kill so many runs, a line each, and return 1 if one of them did not end as an undisturbed one."""
    words = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    words.add_argument("--times", type=int, default=50, help="how many kills")
    words.add_argument("--seed", type=int, default=0, help="of the moments and the victims")
    words.add_argument("--workers", type=int, nargs="+", default=[1, 2], help="of the runs, in turn")
    words.add_argument("--in-a-row", type=int, default=1, help="kills on one store before it may end")
    words.add_argument("--only", type=int, help="one store alone")
    given = words.parse_args()
    started = perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        drill = Drill(Path(folder), given.in_a_row)
        number = 0 if given.only is None else given.only
        while drill.kills < given.times and (given.only is None or number == given.only):
            workers = given.workers[number // len(SUITES) % len(given.workers)]
            drill.one(number, workers, Random(f"{given.seed}/{number}"))
            number += 1
    for what, count in sorted(drill.counts.items()):
        print(f"{what:30} {count:6}")
    print(f"{drill.kills} kills in {perf_counter() - started:.0f} s, {drill.wrong} of them made a difference")
    return 1 if drill.wrong else 0


@dataclass
class Drill:
    """Kills, and what came of them."""

    folder: Path
    in_a_row: int
    undisturbed: dict[str, tuple[dict[str, bytes], float]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    kills: int = 0
    wrong: int = 0

    def one(self, number: int, workers: int, random: Random) -> None:
        """Run a suite on a store of its own, killed some times, and compare its report with an undisturbed run's."""
        name = [*SUITES][number % len(SUITES)]
        if name not in self.undisturbed:
            self.undisturbed[name] = Place(self.folder / name, SUITES[name]).undisturbed()
        wanted, seconds = self.undisturbed[name]
        place, kills = Place(self.folder / str(number), SUITES[name], workers), []
        try:
            for _ in range(self.in_a_row):
                kill = place.kill(random.uniform(0, seconds), random.choice(["run", "worker"]), random)
                kills.append(kill)
            found, turns = place.finish()
            wrong = [f"{file} differs" for file in differences(found, wanted)] + place.leftovers()
        except Wrong as error:
            wrong, turns = [str(error)], 0
        self._tell(f"{number} {name}, {workers} workers", kills, turns, wrong)

    def _tell(self, head: str, kills: list[Kill], turns: int, wrong: list[str]) -> None:
        for kill in kills:
            self.kills += kill.victim != "nothing"
            self.counts[f"{kill.victim}, {kill.during.partition(' ')[0].rstrip(',')}"] += 1
        self.wrong += bool(wrong)
        end = "WRONG" if wrong else f"run {turns} {'time' if turns == 1 else 'times'} more, the same"
        print(f"{head}: {'; '.join(map(str, kills))}: {end}", *wrong, sep="\n    ", flush=True)


if __name__ == "__main__":
    sys.exit(main())
