"""Suites mangled in every way that one can think of: their structure, text and bytes, and what is asked of them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from bench_core.registry import IN_SUITES, parts
from bench_core.suites import yaml_source as located

SUITES = Path(__file__).parents[3] / "suites"
FILES = [path for path in sorted(SUITES.rglob("*.yaml")) if path.parent.name != "references"]
PLAIN = re.compile(r"[A-Za-z][\w-]*(\.[\w-]+)*")  # words that mean themselves without quotes
WORDS = {"null", "true", "false", "yes", "no", "on", "off"}

#: What stands where something else should: YAML as it is written.
PIECES = [
    "null", "~", "", "true", "false", "yes", "0", "1", "-1", "2", "0.5", "1e-3", "1e400", "-1e400", "1e-400", ".nan",
    ".inf", "-.inf", "0x1F", "0o17", "0b11", "1_000", "1:30", "9" * 30, "9" * 400, "9" * 5000, "0x" + "f" * 5000,
    "1" + "0" * 12, "2001-01-01", "2001-01-01T00:00:00Z", "[]", "{}", "[[]]", "[null]", "[{}]", "[1, 2]", "[a, a]",
    "[[[[]]]]", "{null: 1}", "{1: 2}", "{true: 1}", "{.inf: 1}", "{[a]: b}", "{{a: b}: c}", "{a: {a: {a: 1}}}",
    "{a: 1}: b", "''", "'x'", "name", "beam", "loss", "seed", "test", "train", "valid", "default", "..", "/", "a/b",
    "/etc/passwd", "../../x", "{name: greedy}", "{name: rnn-lm}", "{name: [a]}", "{name: null}", "{chosen: x}",
    "wikitext-2", "{kind: bpe}", "{train: x, valid: y, test: z}", "[task, model, decoder, split, hardware, seed]",
    "&a x", "*a", "*nowhere", "&a [*a]", "&a {b: *a}", "{<<: {a: 1}}", "{<<: [1]}", "{<<: *nowhere}", "{<<: x}",
    "!!str 1", "!!int x", "!!float x", "!!bool x", "!!null x", "!!binary aGVsbG8=", "!!set {a, b}", "!!omap [a: 1]",
    "!!timestamp x", "!!python/object/apply:os.system [x]", "!tag {a: 1}", "!x", "!!map [a]", "!!seq {a: 1}",
    "|\n  text", ">-\n   folded\n  less", "? a", "? [a, b]\n: c", "- a", "a: b: c", '"', "'", "[", "]", "{", "}", ",",
    "#", "%", "@", "`", "&", "*", "!", "|", ">", ":", "?", "-", "---", "...", "\t", "\\", '"\\x1b[31m"', '"\\0"',
    '"\\ud800"', '"\\u202e"', "é", "日本語", "😀", "\u2028", "\x85", "\ufeff", "\x00", "\x1b", "'" + "x" * 100_000 + "'",
    "x" * 5000, "[" * 30 + "]" * 30, "[" * 60 + "]" * 60, "[" * 5000 + "]" * 5000, "{a: " * 60 + "1" + "}" * 60,
    "{a: " * 3000, "[" + "1, " * 3000 + "1]", "{" + ", ".join(f"k{n}: {n}" for n in range(500)) + "}",
]  # fmt: skip

#: Before a suite: anchors that make it endless, other documents, directives.
HEADS = [
    "a: &a [x, x]\n" + "".join(f"{y}: &{y} [{', '.join([f'*{x}'] * 9)}]\n" for x, y in zip("abcdefg", "bcdefgh", strict=True)),
    "".join(f"b{n}: &b{n} {{{', '.join(f'k{k}: *b{n - 1}' for k in range(9))}}}\n" if n else "b0: &b0 1\n" for n in range(9)),
    "---\n", "--- {}\n---\n", "---\na: 1\n...\n---\n", "%YAML 1.1\n---\n", "%YAML 9.9\n---\n", "%TAG ! x:\n---\n", "%X\n",
    "x\n", "- a\n", "[]\n", "# \x00\n", "\ufeff", "\t", "<<: {seeds: 2}\n", "<<: [a]\n", "? &k a\n: *k\n", "{}\n",
]  # fmt: skip
TAILS = [
    "\n---\n",
    "\n---\nsuite: b\n",
    "\n...\n",
    "\n...\nx",
    "\n- a\n",
    "\n]",
    "\n: x\n",
    "\n\t",
    "\n? a",
    "\nsuite: again\n",
]
PROFILES = ["smoke", "small", "paper", "Smoke", "", "x", "\x1b[31m", "a/b", "..", "é", "x" * 300, "\n"]
SEEDS = ["1", "3", "0", "-1", "x", "1.5", "", "1" + "0" * 12, "9" * 400]
STORES = ["", "/dev/null", "/dev/null/x", "suite.yaml", ".", "\n", "x" * 300]
DIGITS = re.compile(r"\d+(\.\d+)?")


class Pairs(list[Any]):
    """A mapping as it is written: keys and values, keys perhaps twice."""


class Raw(str):
    """YAML that is written as it stands."""


@dataclass(frozen=True)
class Case:
    """A mangled suite, and a command about it."""

    kind: str
    suite: bytes
    words: list[str]  # of the command; SUITE stands for the path
    references: bytes | None = None  # of published tables, where these are mangled


def cases(count: int, seed: int = 0) -> Iterator[Case]:
    """Yield mangled suites, the same for the same seed, whatever the count."""
    for number in range(count):
        yield case(Random(f"{seed}/{number}"))


def case(random: Random) -> Case:
    """Return a mangled suite."""
    path = random.choice(FILES)
    text, references = path.read_text(encoding="utf-8"), None
    kind = random.choice(
        ["structure"] * 5 + ["lines"] * 3 + ["bytes"] * 2 + ["claims", "asked", "asked", "published"]
    )
    suite = text.encode()
    if kind == "structure":
        suite = _encoded(restructured(path, random))
    elif kind == "lines":
        suite = _encoded(mangled(text, random))
    elif kind == "bytes":
        suite = damaged(suite, random)
    elif kind == "claims":
        suite = _encoded(claiming(path, random))
    elif kind == "published":
        path = SUITES / "strlm" / "references" / "strlm.yaml"
        references = damaged(
            _encoded(mangled(path.read_text(encoding="utf-8"), random)), random, random.randint(0, 1)
        )
        suite = random.choice([one for one in FILES if one.parent.name == "strlm"]).read_bytes()
    return Case(kind, suite, asked(path, random, often=kind == "asked"), references)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def asked(path: Path, random: Random, often: bool) -> list[str]:
    """Return a command about a suite; `often` says whether what it asks for is mangled, too."""
    words = random.choice([["check", "SUITE"], ["plan", "SUITE"], ["plan", "SUITE", "--json"]])
    if random.random() < 0.6 or words[0] == "check":  # which checks all profiles otherwise, and takes that long
        words += ["--profile", random.choice(PROFILES if often and random.random() < 0.3 else ["smoke"])]
    if often:
        words += [word for _ in range(random.randint(0, 3)) for word in ("--set", setting(path, random))]
        if words[0] == "plan" and random.random() < 0.3:
            words += ["--seeds", random.choice(SEEDS)]
        if random.random() < 0.1:
            words += ["--store", random.choice(STORES)]
    return words


def setting(path: Path, random: Random) -> str:
    """Return what `--set` may be given: mostly a key of the suite, and a piece."""
    keys = ".".join(map(str, random.choice([*located.read(path).places])))
    if random.random() < 0.2:
        keys = random.choice(
            [keys + ".x", keys.replace(".", "..", 1), keys[1:], "", ".", "x.y", keys + ".", "é", "\n", "=", "a" * 300]
        )
    text = random.choice([f"{keys}={random.choice(PIECES)}"] * 9 + [keys])
    return text.replace("\0", "")  # which no argument can hold


# Structure


def restructured(path: Path, random: Random) -> str:
    """Return a suite after some changes of its tree."""
    tree = deepcopy(_tree(path))
    for _ in range(random.choice([1, 1, 1, 2, 3])):
        random.choice(CHANGES)(tree, random)
    text = written(tree).removeprefix("\n") + "\n"
    if random.random() < 0.08:
        text = random.choice(HEADS) + text
    return text + random.choice(TAILS) if random.random() < 0.05 else text


@cache
def _tree(path: Path) -> Any:
    return _pairs(located.read(path).data)


def _pairs(value: Any) -> Any:
    if isinstance(value, dict):
        return Pairs([key, _pairs(item)] for key, item in value.items())
    return [_pairs(item) for item in value] if isinstance(value, list) else value


@dataclass
class Place:
    """Where a value stands in a tree."""

    around: list[Any]
    number: int
    inside: list[int] = field(default_factory=list)

    @property
    def value(self) -> Any:
        found = self.around[self.number]
        return found[1] if isinstance(self.around, Pairs) else found

    def put(self, value: Any) -> None:
        if isinstance(self.around, Pairs):
            self.around[self.number] = [self.around[self.number][0], value]
        else:
            self.around[self.number] = value


def places(tree: Any) -> list[Place]:
    """Return all places of a tree; those at the top as often as there are levels, or they would never be chosen."""
    found = []
    for number in range(len(tree) if isinstance(tree, list) else 0):
        place = Place(tree, number)
        found += [place, *places(place.value)]
    return found


def _some(tree: Any, random: Random) -> Place:
    """Return a place: at the top, or anywhere."""
    tops = [Place(tree, number) for number in range(len(tree))]
    return random.choice(tops if random.random() < 0.3 else places(tree)) if tops else _empty(tree)


def _empty(tree: Any) -> Place:
    tree.append(["x", None])
    return Place(tree, 0)


def drop(tree: Any, random: Random) -> None:
    place = _some(tree, random)
    del place.around[place.number]


def repeat(tree: Any, random: Random) -> None:
    place = _some(tree, random)
    place.around.insert(random.randint(0, len(place.around)), deepcopy(place.around[place.number]))


def rename(tree: Any, random: Random) -> None:
    place = _some(tree, random)
    if isinstance(place.around, Pairs):
        key = str(place.around[place.number][0])
        near = [key[1:], key + "x", key.upper(), key.replace("-", "_"), "name", "grid", "training", "<<", key[::-1]]
        place.around[place.number][0] = random.choice([*near, *map(Raw, near), *names(), Raw(random.choice(PIECES))])


def replace(tree: Any, random: Random) -> None:
    _some(tree, random).put(Raw(random.choice(PIECES)))


def refer(tree: Any, random: Random) -> None:
    """Put another name in the place of one."""
    words = [place for place in places(tree) if isinstance(place.value, str) and not isinstance(place.value, Raw)]
    if words:
        random.choice(words).put(random.choice([*names(), random.choice(words).value, *_keys(tree)]))


def resize(tree: Any, random: Random) -> None:
    """Put another number in the place of one."""
    numbers = [place for place in places(tree) if isinstance(place.value, int | float)]
    if numbers:
        random.choice(numbers).put(Raw(random.choice([piece for piece in PIECES if piece[:1] in "-.0123456789"])))


def swap(tree: Any, random: Random) -> None:
    one, other = _some(tree, random), _some(tree, random)
    ours, theirs = deepcopy(one.value), deepcopy(other.value)
    one.put(theirs)
    other.put(ours)


def wrap(tree: Any, random: Random) -> None:
    place = _some(tree, random)
    value = place.value
    for _ in range(random.choice([1, 1, 1, 2, 50])):
        value = [value] if random.random() < 0.5 else Pairs([[random.choice(["name", "x", "chosen", "grid"]), value]])
    place.put(value)


def retype(tree: Any, random: Random) -> None:
    """Make a list of a mapping, and a mapping of a list."""
    place = _some(tree, random)
    value = place.value
    if isinstance(value, Pairs):
        place.put([item for _, item in value] if random.random() < 0.5 else [Pairs([one]) for one in value])
    elif isinstance(value, list):
        place.put(Pairs([f"k{number}", item] for number, item in enumerate(value)))
    else:
        place.put(value if isinstance(value, Raw) else json.dumps(value))


def add(tree: Any, random: Random) -> None:
    place = _some(tree, random)
    key = random.choice([*names(), *_keys(tree), "x", "grid", "phases", "where", "chosen", "files", "by", "of"])
    around = place.value if isinstance(place.value, list) else place.around
    value = random.choice([Raw(random.choice(PIECES)), deepcopy(_some(tree, random).value)])
    around.append([key, value] if isinstance(around, Pairs) else value)


def grow(tree: Any, random: Random) -> None:
    """Give a model a grid, or a part of the suite many entries."""
    models = [
        place.value for place in places(tree) if isinstance(place.value, Pairs) and ["name", "rnn-lm"] in place.value
    ]
    if models:
        size = random.choice([1, 2, 2, 30, 300])
        values = [
            random.choice([number, number / 7, f"v{number}", Raw(random.choice(PIECES))]) for number in range(size)
        ]
        setting = random.choice(
            ["hidden", "training.lr", "cell", "x", "hidden.x", "", ".", "training", "name", "grid"]
        )
        random.choice(models).append(["grid", Pairs([[setting, values], *([["dropout", [0.1, 0.2]]] * (size < 30))])])


def anchor(tree: Any, random: Random) -> None:
    one, other = _some(tree, random), _some(tree, random)
    name = random.choice("abc")
    value = written(one.value, 30)
    if "\n" not in value or value.startswith("\n"):
        one.put(Raw(f"&{name} {value}"))
    other.put(Pairs([[Raw("<<"), Raw(f"*{name}")], ["x", 1]]) if random.random() < 0.4 else Raw(f"*{name}"))


CHANGES: list[Callable[[Any, Random], None]] = [
    drop, drop, repeat, rename, rename, replace, replace, replace, refer, refer, resize, swap, wrap, retype, add, add, grow, anchor,
]  # fmt: skip


@cache
def names() -> list[str]:
    """Return the names of all installed parts."""
    return [name for kind in IN_SUITES for name in parts(kind)]


def _keys(tree: Any) -> list[str]:
    return [
        str(pair[0])
        for place in places(tree)
        if isinstance(place.around, Pairs)
        for pair in [place.around[place.number]]
    ]


def written(value: Any, level: int = 0) -> str:
    """Return a tree as YAML, in blocks; what is raw is written as it stands."""
    space = "\n" + "  " * level
    if isinstance(value, Pairs) and value:
        return "".join(f"{space}{_word(key)}: {written(item, level + 1)}" for key, item in value)
    if isinstance(value, list) and value and not isinstance(value, Pairs):
        return "".join(f"{space}- {written(item, level + 1)}" for item in value)
    if isinstance(value, list):
        return "{}" if isinstance(value, Pairs) else "[]"
    return _word(value)


def _word(value: Any) -> str:
    if isinstance(value, Raw) or (isinstance(value, str) and PLAIN.fullmatch(value) and value not in WORDS):
        return str(value)
    return json.dumps(value)


# Text and bytes


def mangled(text: str, random: Random) -> str:
    """Return a text after some changes of its lines."""
    lines = text.split("\n")
    for _ in range(random.choice([1, 1, 2, 4])):
        number, piece = random.randrange(len(lines)), random.choice(PIECES)
        line, other = lines[number], random.randrange(len(lines))
        match random.choice(["delete", "repeat", "word", "letter", "value", "swap", "indent", "number"]):
            case "delete" if len(lines) > 1:
                del lines[number]
            case "repeat":
                lines.insert(number, lines[other])
            case "word":
                words = line.split(" ")
                words[random.randrange(len(words))] = piece
                lines[number] = " ".join(words)
            case "letter":
                start = random.randrange(len(line) + 1)
                lines[number] = line[:start] + piece + line[start + random.randint(0, 2) :]
            case "value":
                lines[number] = f"{line.partition(':')[0]}: {piece}"
            case "swap":
                lines[number], lines[other] = lines[other], line
            case "indent":
                lines[number] = random.choice(["  ", " ", "\t", "    "]) + line if random.random() < 0.5 else line[2:]
            case "number":
                lines[number] = DIGITS.sub(piece.replace("\\", ""), line, count=1)
    return "\n".join(lines)


def damaged(content: bytes, random: Random, times: int | None = None) -> bytes:
    """Return bytes of which some were cut, flipped, put in or moved; or in another encoding."""
    for _ in range(random.choice([1, 1, 2, 4]) if times is None else times):
        place, size = random.randrange(len(content) + 1), random.choice([1, 1, 2, 10, 200])
        match random.choice(["cut", "flip", "flip", "insert", "insert", "remove", "repeat", "encode", "lines"]):
            case "cut":
                content = content[:place]
            case "flip" if place < len(content):
                content = content[:place] + bytes([content[place] ^ 1 << random.randrange(8)]) + content[place + 1 :]
            case "insert":
                content = content[:place] + bytes(random.randrange(256) for _ in range(size)) + content[place:]
            case "remove":
                content = content[:place] + content[place + size :]
            case "repeat":
                content = content[: place + size] + content[place:]
            case "encode":
                encoding = random.choice(["utf-16", "utf-32", "utf-8-sig", "latin-1", "utf-7"])
                content = content.decode("utf-8", "replace").encode(encoding, "replace")
            case "lines":
                content = content.replace(
                    b"\n", random.choice([b"\r\n", b"\r", b"\n\n", b"\xe2\x80\xa8", b"\n\t", b" "])
                )
    return content


# Claims

ATOMS = [
    "v('perplexity')", "v('perplexity', model='lstm')", "v('x')", "v(1)", "v()", "v('perplexity', seed=1)",
    "v('perplexity', model=m)", "v('perplexity', **{})", "v(*['perplexity'])", "v('perplexity', model='lstm', model='lstm')",
    "1", "0", "-1", "1e400", "9" * 400, "9" * 5000, "0x" + "f" * 5000, "1j", "True", "None", "...", "'a'", "b'a'", "f'{1}'", "x", "m",
    "__import__('os').system('false')", "().__class__", "open('x')", "[1, 2]", "[]", "(1,)", "{1}", "{1: 2}", "lambda: 1",
    "(y := 1)", "(yield)", "(await x)", "*a", "'a' * 10 ** 9", "10 ** 10 ** 10", "1 if 2 else 3", "a[0]", "a.b", "é", "'\\ud800'",
    "'\\N{BULLET}'", "v('perplexity' 'x')", "v('per' + 'plexity')", "inf", "nan", "\x00", "\n", "\t", "#", "\\", "'", "(", ")", "[", ",",
]  # fmt: skip
SIGNS = [
    "+",
    "-",
    "*",
    "/",
    "**",
    "//",
    "%",
    "@",
    "<",
    "<=",
    ">",
    ">=",
    "==",
    "!=",
    "in",
    "is",
    "is not",
    "not in",
    "and",
    "or",
    "<<",
    "|",
    "=",
    ":=",
]
CALLS = ["abs", "ratio", "mean", "std", "min", "max", "all", "any", "v", "sum", "eval", "not ", "-", "~", "", "x."]


def claiming(path: Path, random: Random) -> str:
    """Return a suite with claims of all sorts."""
    tree = deepcopy(_tree(path))
    old = [claim[-1][1] for key, claims in tree if key == "claims" for claim in claims]
    kept = [pair for pair in tree if pair[0] != "claims"]
    new = [
        Pairs([["id", f"C{n}"], ["text", "t"], ["assert", expression(random, old)]])
        for n in range(random.randint(1, 4))
    ]
    return written(Pairs([*kept, ["claims", new]])).removeprefix("\n") + "\n"


def expression(random: Random, known: list[str]) -> str:
    """Return something like an expression."""
    if known and random.random() < 0.4:
        text = random.choice(known)
        for _ in range(random.randint(1, 3)):
            start = random.randrange(len(text) + 1)
            piece = random.choice(
                [random.choice(ATOMS), random.choice(SIGNS), random.choice(CALLS), "", "(", ")", "'"]
            )
            text = text[:start] + piece + text[start + random.randint(0, 8) :]
        return text
    if random.random() < 0.1:
        count = random.choice([30, 100, 1000, 50_000])
        left, right = random.choice(
            [("(", ")"), ("[", "]"), ("-", ""), ("not ", ""), ("abs(", ")"), ("1 + ", ""), ("1 < ", "")]
        )
        return left * count + random.choice(ATOMS) + right * count
    return _grown(random, 4)


def _grown(random: Random, depth: int) -> str:
    if depth == 0 or random.random() < 0.2:
        return random.choice(ATOMS)
    inner = [_grown(random, depth - 1) for _ in range(3)]
    match random.randrange(4):
        case 0:
            return f"({inner[0]} {random.choice(SIGNS)} {inner[1]})"
        case 1:
            return f"{random.choice(CALLS)}({', '.join(inner[: random.randint(0, 3)])})"
        case 2:
            loops = " ".join(
                f"for {random.choice('mxv')} in {random.choice(['[1, 2]', repr([*range(40)]), inner[2], 'm'])}"
                for _ in range(random.randint(1, 4))
            )
            return f"{random.choice(['all', 'any', 'mean', 'min'])}({inner[0]} {loops}{random.choice(['', ' if x'])})"
    return f"{inner[0]} < {inner[1]} < {inner[2]}"


# Files of runs and stores

VALUES = [
    None, True, -1, 0, 10**30, 1e308, -1.5, "x", "", "nan", "inf", "\x1b[31m", "x" * 5000, "../..", "\u2028é", [], {},
    [[]], [None], {"a": None}, {"x": {"y": [1]}}, {"value": 1},
]  # fmt: skip
KEYS = ["x", "value", "seed", "metrics", ""]


def mangled_file(name: str, content: bytes, random: Random) -> bytes:
    """Return a file after a change of what it says, or of its bytes."""
    if random.random() < 0.25:
        return random.choice(
            [b"", b"[" * 100_000, b'{"a":' * 50_000, damaged(content, random), damaged(content, random)]
        )
    match name.rpartition(".")[2]:
        case "json":
            return json.dumps(mangled_json(json.loads(content), random)).encode()
        case "jsonl":
            lines = content.splitlines()
            number = random.randrange(len(lines))
            lines[number] = json.dumps(mangled_json(json.loads(lines[number]), random)).encode()
            return b"\n".join([*lines, b""])
        case "yaml":
            return json.dumps(mangled_json(located.parse(content.decode()).data, random)).encode()
    return damaged(content, random)


def mangled_json(value: Any, random: Random) -> Any:
    """Return JSON data after one change, or a few."""
    whole = [deepcopy(value)]
    for _ in range(random.choice([1, 1, 1, 2])):
        around, key = random.choice([*_spots(whole)])
        match random.choice(["drop", "rename", "add", "put", "put"]):
            case "drop" if around is not whole:
                del around[key]
            case "rename" if isinstance(around, dict):
                around[random.choice(KEYS)] = around.pop(key)
            case "add" if isinstance(around, list) and around is not whole:
                around.append(deepcopy(random.choice(VALUES)))
            case _:
                around[key] = deepcopy(random.choice(VALUES))
    return whole[0]


def _spots(around: Any) -> Iterator[tuple[Any, Any]]:
    for key in list(around) if isinstance(around, dict) else range(len(around)):
        yield around, key
        if isinstance(around[key], dict | list):
            yield from _spots(around[key])
