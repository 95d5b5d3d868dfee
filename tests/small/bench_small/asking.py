"""Commands about mangled suites, asked in this process, and what is to be said of every answer."""

from __future__ import annotations

import re
import shutil
import sys
import traceback
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path

from bench_core.commands.main import main
from bench_small.mangling import SUITES, Case

CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]")
PLACE = re.compile(r"\.yaml:|--\w+|suite [\w/.-]+: |corpus |/data/|Usage|is missing|store|Correct `corpus:`")
LONGEST_LINE, LONGEST = 2_000, 50_000


@dataclass
class Answer:
    """What a command said, and what is wrong with that."""

    code: int | None  # None if it died
    text: str
    wrong: list[str] = field(default_factory=list)


class Desk:
    """A folder in which commands are asked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "suite.yaml"
        self.references = folder / "references" / "strlm.yaml"
        self.references.parent.mkdir()
        self._published(None)

    def _published(self, content: bytes | None) -> None:
        if content is None:
            shutil.copy(SUITES / "strlm" / "references" / "strlm.yaml", self.references)
        else:
            self.references.write_bytes(content)

    def ask(self, one: Case) -> Answer:
        """Ask for what a case wants to know."""
        self.path.write_bytes(one.suite)
        if one.references is not None:
            self._published(one.references)
        words = [str(self.path) if word == "SUITE" else word for word in one.words]
        words += ["--data", str(self.folder / "data")]
        words += [] if "--store" in words else ["--store", str(self.folder / "store")]
        answer = asked(words)
        if one.references is not None:
            self._published(None)
        return answer


def asked(words: list[str], codes: tuple[int, ...] = (0, 2)) -> Answer:
    """Return what `bench` answers to a command, and what is wrong with that: it must be short, and end with a code."""
    before, said, complained = sys.argv, StringIO(), StringIO()
    sys.argv = ["bench", *words]
    try:
        with redirect_stdout(said), redirect_stderr(complained):
            main()
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 0
    except BaseException:
        trace = traceback.format_exc()
        return Answer(None, f"{complained.getvalue()}\n{trace[-4000:]}", [trace.splitlines()[-1][:300]])
    finally:
        sys.argv = before
    text = said.getvalue() + complained.getvalue()
    return Answer(code, text, [*_wrong(code, text, complained.getvalue(), codes)])


def _wrong(code: int, text: str, complaint: str, codes: tuple[int, ...]) -> list[str]:
    found = [f"it ended with {code}"] if code not in codes else []
    if code == 2 and not complaint.strip():
        found.append("it was refused without a word")
    if len(complaint) > LONGEST or any(len(line) > LONGEST_LINE for line in complaint.splitlines()):
        found.append(f"the refusal is too long to be read: {len(complaint):,} characters")
    if odd := CONTROLS.search(text):
        found.append(f"it writes {odd[0]!r} to the terminal")
    if "Traceback" in text or "Warning:" in text:
        found.append("it shows a traceback or a warning of Python")
    if code == 2 and not PLACE.search(complaint):
        found.append("it says not where")
    return found
