"""Text is UTF-8 on disk and between processes, whatever the locale says."""

import ast
import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PATTERNS = (
    "bench_core/**/*.py",
    "plugins/*/bench_*/**/*.py",
    "plugins/*/block_bootstrap/*.py",
    "plugins/*/code_digests/*.py",
    "plugins/*/input_digests/*.py",
    "plugins/*/placed_settings/*.py",
    "plugins/*/plain_files/*.py",
    "plugins/*/process_watch/*.py",
    "benchmarks/*.py",
)
SOURCES = [path for pattern in PATTERNS for path in ROOT.glob(pattern)]


def locale_bound(source):
    """Return the lines of the calls that read or write text in the encoding of the locale."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return [
        call.lineno for call in calls if _is_text(call) and "encoding" not in {word.arg for word in call.keywords}
    ]


def _is_text(call):
    words = {word.arg: word.value for word in call.keywords}
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name == "read_text":
        return not call.args
    if name == "write_text":
        return len(call.args) < 2
    if name in ("open", "fdopen") and "Image" not in ast.unparse(call.func):
        modes = [words.get("mode"), *call.args]
        given = [mode.value for mode in modes if isinstance(mode, ast.Constant) and isinstance(mode.value, str)]
        return not any("b" in mode for mode in given) and ast.unparse(call.func) not in BINARY
    return any(word in words and ast.unparse(words[word]) == "True" for word in ("text", "universal_newlines"))


BINARY = {"gzip.open", "archive.open", "os.open"}


def test_calls_in_the_encoding_of_the_locale_are_found():
    source = 'p.read_text()\np.write_text(a + b)\np.open()\nopen(p, "w")\nrun(c, text=True)\nos.fdopen(1, "w")\n'
    assert locale_bound(source) == [1, 2, 3, 4, 5, 6]
    assert not locale_bound('p.read_text("utf-8")\np.open("rb")\nrun(c)\nopen(p, "w", encoding="utf-8")\n')


@pytest.mark.quick(4)
@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_text_is_in_the_encoding_of_the_locale(path):
    assert not locale_bound(path.read_text(encoding="utf-8"))


SUITE = """
suite: tests/words
title: Wörter – 日本 ± 1
tasks:
  wörter: {name: sequence-completion, corpus: {train: a.txt, valid: a.txt, test: a.txt}, tokenizer: {kind: word}, prefix: 1}
models: {naïf: {name: rnn-lm, hidden: 4, layers: 1}}
decoders: {ähnlich: {name: greedy}}
metrics: {length: {name: length}}
training: {updates: 1, batch_size: 4, select: {examples: 4}}
limits: {max_tokens: 4}
hardware: {device: cpu, threads: 1}
tables: [{id: main, caption: "Ärger – ±", rows: [decoder], columns: [model], values: [length]}]
"""
STRICT = """
import warnings
warnings.filterwarnings("error", category=EncodingWarning, module="bench_")
from bench_core.commands.main import main
main()
"""


@pytest.mark.nightly
def test_a_run_stores_and_shows_every_letter_under_a_locale_of_ascii(tmp_path):
    (tmp_path / "suite.yaml").write_text(SUITE, encoding="utf-8")
    (tmp_path / "a.txt").write_text("\ufeffnaïve 日本 ț\nnaïve ț 日本 é\n" * 20, encoding="utf-8")
    posix = {
        "LC_ALL": "C",
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
        "PYTHONIOENCODING": "",
        "OMP_NUM_THREADS": "1",
    }

    def bench(*words):
        command = [sys.executable, "-X", "warn_default_encoding", "-c", STRICT, *words]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, env={**os.environ, **posix}, timeout=600)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    bench("run", "suite.yaml", "--workers", "1")
    store = tmp_path / ".bench/store"
    (run,) = (tmp_path / "runs").iterdir()
    (predictions,) = store.glob("decode/*/predictions.jsonl.gz")
    info = next(store.glob("prepare/*/task_info.json"))  # of what trainings read, and of test
    assert "naïf" in (run / "run.json").read_text(encoding="utf-8")
    assert "日本" in info.read_text(encoding="utf-8")
    assert "naïve" in gzip.decompress(predictions.read_bytes()).decode()
    assert "Wörter" in (tmp_path / "reports/tests/words/report.md").read_text(encoding="utf-8")
    assert "no contradictions" in bench("verify", str(run))
