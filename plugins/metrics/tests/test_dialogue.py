from __future__ import annotations

import os
import sys
import tempfile
import time

import psutil
import pytest

from bench_metrics.line_process import Unanswered, ask

TWICE = "import sys\nfor line in sys.stdin: print(line.strip() * 2, flush=True)"


def program(code):
    return [sys.executable, "-c", code]


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path, monkeypatch):
    """See after every test that no program runs on and that no file is left."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = set(psutil.Process().children(recursive=True))
    yield
    assert set(psutil.Process().children(recursive=True)) <= before
    assert list(tmp_path.glob("bench-*")) == []


def test_answers_come_in_the_order_of_questions():
    assert ask(program(TWICE), ["a", "", "ü"], 30) == ["aa", "", "üü"]


def test_no_question_needs_no_answer():
    assert ask(program(TWICE), [], 30) == []


def test_more_than_pipes_hold_goes_both_ways():
    questions = [f"{number} " + "x" * 500 for number in range(3000)]
    assert ask(program(TWICE), questions, 30) == [question * 2 for question in questions]


def test_a_program_that_reads_all_before_it_answers_is_no_problem():
    late = "import sys\nfor line in sys.stdin.readlines(): print(line.strip())"
    questions = ["x" * 100] * 5000
    assert ask(program(late), questions, 30) == questions


def test_complaints_that_nobody_reads_hold_up_nothing():
    loud = "import sys\nfor line in sys.stdin: print('x' * 200_000, file=sys.stderr); print(line.strip(), flush=True)"
    assert ask(program(loud), ["a", "b"], 30) == ["a", "b"]


def test_a_silent_program_is_ended_and_the_question_named():
    silent = "import sys, time\nprint(sys.stdin.readline().strip(), flush=True)\ntime.sleep(1000)"
    with pytest.raises(Unanswered, match=r"no answer within 0\.7 seconds") as caught:
        ask(program(silent), ["a", "b", "c"], 0.7)
    assert caught.value.number == 1
    assert caught.value.silent


def test_a_program_that_ignores_its_input_and_its_end_is_ended():
    deaf = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(1000)"
    with pytest.raises(Unanswered, match="no answer"):
        ask(program(deaf), ["x" * 1000] * 5000, 0.7)  # more than its pipe holds


def test_a_program_that_dies_tells_its_status_and_why():
    dying = "import sys\nprint('fine', flush=True)\nsys.stderr.write('out of cheese')\nsys.exit(5)"
    with pytest.raises(Unanswered, match="exited with status 5 and printed: out of cheese") as caught:
        ask(program(dying), ["x" * 1000] * 5000, 30)
    assert caught.value.number == 1
    assert not caught.value.silent


def test_an_answer_too_many_is_an_error():
    with pytest.raises(Unanswered, match="more answers than questions"):
        ask(program("import sys\nfor line in sys.stdin: print(line.strip())\nprint('surplus')"), ["a"], 30)


def test_any_exception_ends_the_program():
    with pytest.raises(ValueError, match="timeout"):
        ask(program(TWICE), ["a"], -1)


@pytest.mark.skipif(os.name != "posix", reason="needs a shell")
def test_what_a_wrapper_starts_is_ended_with_it(tmp_path):
    note = tmp_path / "pid"
    with pytest.raises(Unanswered):
        ask(["sh", "-c", f"sleep 1000 & echo $! > {note}; wait"], ["a"], 0.7)
    number = int(note.read_text())
    for _ in range(100):  # it is no child of ours, so another reaps it
        if not psutil.pid_exists(number) or psutil.Process(number).status() == psutil.STATUS_ZOMBIE:
            return
        time.sleep(0.05)
    pytest.fail("what the wrapper started runs on")


def test_files_that_a_program_leaves_are_removed():
    leaving = "import os\nopen('dump', 'w').close()\nprint(os.getcwd())"
    (folder,) = ask(program(leaving), ["a"], 30)
    assert not os.path.exists(folder)


def test_a_question_of_two_lines_is_refused():
    with pytest.raises(ValueError, match="a question must be a single line"):
        ask(program(TWICE), ["a", "b\nc"], 30)


def test_what_utf_8_cannot_hold_is_replaced():
    assert ask(program(TWICE), ["\ud800"], 30) == ["??"]
