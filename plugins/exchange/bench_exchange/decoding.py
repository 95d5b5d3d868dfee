"""Decodes lines from a file or a terminal with a trained model and writes the outputs."""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import BinaryIO

from bench_core import Decoder, Prediction
from bench_core.errors import BenchError, DataError, SuiteError
from bench_core.terminal import say, to_json, visible, write
from bench_exchange.outputs import as_example, line_break
from bench_notebook import TrainedModel

LINES_PER_BATCH = 256
MARK = "\N{BOM}"


@dataclass
class Session:
    """Decodes lines, which are numbered from 0 like the examples of a split."""

    trained: TrainedModel
    decoder: Decoder
    model: str
    as_json: bool = False
    has_noted: bool = False  # whether the note on sampled outputs was printed

    def decode(self, lines: Iterable[bytes]) -> None:
        """Write the output for each line of a file; raise DataError with the line number if a line is invalid."""
        texts = self._texts(enumerate(lines))
        first = 0
        while batch := [*islice(texts, LINES_PER_BATCH)]:
            self._answer(batch, first)
            first += len(batch)

    def converse(self, terminal: BinaryIO) -> None:
        """Ask for prompts on a terminal until end of input; report errors and continue with the next prompt."""
        number = 0
        while True:
            say(f"{visible(self.model)}> ", err=True, end="")
            sys.stderr.flush()
            if not (line := terminal.readline()):
                say("", err=True)
                return
            try:
                self._answer([*self._texts([(number, line)])], number)
            except BenchError as error:
                say(f"bench: {visible(str(error))}", err=True)
            number += 1

    def _texts(self, lines: Iterable[tuple[int, bytes]]) -> Iterator[str]:
        for number, line in lines:
            try:
                text = line.decode().removesuffix("\n").removesuffix("\r")
            except UnicodeDecodeError as error:
                raise DataError(
                    f"line {number + 1} is not UTF-8 (byte {error.start + 1} is 0x{line[error.start]:02x}). Convert "
                    "the file to UTF-8, or choose another file."
                ) from None
            text = text.removeprefix(MARK) if number == 0 else text
            if "\0" in text:
                raise DataError(f"line {number + 1} contains a zero byte, so it is not text. Choose a text file.")
            if not text.strip():
                raise DataError(f"line {number + 1} is empty. Each line is a prompt: add text or remove the line.")
            yield text

    def _answer(self, texts: list[str], first: int) -> None:
        """Decode and write a batch of lines."""
        for prediction in self.trained.decode(texts, self.decoder, first):
            write(self._line(prediction))
        sys.stdout.flush()
        if self.trained.sampled and not self.has_noted:
            self.has_noted = True
            about = f"with seed {self.trained.seed} (--seed) and the number of the line."
            say(f"note: outputs are sampled, {about}", err=True)

    def _line(self, prediction: Prediction) -> str:
        if self.as_json:
            example = as_example(prediction, {"line": prediction.id + 1})
            return to_json({name: example[name] for name in ("line", "prompt", "outputs")}) + "\n"
        text = prediction.texts[0]
        if (name := line_break(text)) and not sys.stdout.isatty():
            raise SuiteError(
                f"the output of line {prediction.id + 1} has a line break ({name}), but outputs are written one per "
                "line. Choose --json."
            )
        return f"{text}\n"
