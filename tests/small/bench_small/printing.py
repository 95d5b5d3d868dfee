"""Articles around tables, and how far these are too wide."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

needs_latex = pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")


def overfull(folder, body, options="10pt"):
    """Return how many points boxes are too wide in an article."""
    text = rf"\documentclass[{options}]{{article}}\usepackage{{booktabs,graphicx}}\begin{{document}}{body}\end{{document}}"
    (folder / "paper.tex").write_text(text)
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, encoding="latin1", timeout=120, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
    return [float(found) for found in re.findall(r"Overfull \\hbox \(([\d.]+)pt", done.stdout)]


def article_of(paths):
    """Return the text of an article with files of tables, a page after some of them as there are only so many floats."""
    inputs = [rf"Table {place} says so. \input{{{path}}}" for place, path in enumerate(paths, 1)]
    return "\n\\clearpage\n".join("\n".join(inputs[start : start + 6]) for start in range(0, len(inputs), 6))
