"""However a shipped suite is mangled, what comes of it is a suite or a SuiteError."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from bench_core import located
from bench_core.check import check_fit
from bench_core.errors import SuiteError
from bench_core.plan import cells_of
from bench_core.suite import resolve

SUITES = Path(__file__).parent.parent / "suites"
FILES = [path for path in sorted(SUITES.rglob("*.yaml")) if path.parent.name != "references"]
PIECES = [
    "null", "true", "1", "-1", "1e400", ".nan", ".inf", "0.5", "[]", "{}", "''", "&a", "*a", "!!x", "~", "[1, 2]", "name",
    "{name: greedy}", "{a: 1}: b", "beam", "loss", "seed", "wikitext-2", "\t", "\x00", "é", ":", "- ", "? ", "'", '"', "#",
    "|", "%", "@", "`",
]  # fmt: skip
KINDS = ["delete", "repeat", "word", "letter", "value"]


def mangled(text, random):
    lines = text.split("\n")
    for _ in range(random.randint(1, 4)):
        place, kind = random.randrange(len(lines)), random.choice(KINDS)
        line, piece = lines[place], random.choice(PIECES)
        if kind == "delete" and len(lines) > 1:
            del lines[place]
        elif kind == "repeat":
            lines.insert(place, random.choice(lines))
        elif kind == "word":
            words = line.split(" ")
            words[random.randrange(len(words))] = piece
            lines[place] = " ".join(words)
        elif kind == "letter":
            start = random.randrange(len(line) + 1)
            lines[place] = line[:start] + piece + line[start + random.randint(0, 2) :]
        elif kind == "value":
            lines[place] = f"{line.partition(':')[0]}: {piece}"
    return "\n".join(lines)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_mangled_suites_give_no_traceback(path):
    random, refused = Random(path.stem), 0
    for _ in range(150):
        text = mangled(path.read_text(), random)
        try:
            suite = resolve(located.parse(text), path.parent, random.choice([None, "smoke"]))
            check_fit(suite, cells_of(suite))
        except SuiteError:
            refused += 1
    assert 50 < refused < 150
