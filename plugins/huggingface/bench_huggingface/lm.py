"""Causal language models of transformers."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from bench_core import STOP, Batch, Noise, Scores, Scoring, SuiteError, TaskInfo, Training, waits_for_device
from bench_core.files import digest
from bench_core.kit import Head, LanguageModel, LanguageModelState
from bench_huggingface import network
from bench_huggingface.folder import CONFIG, TOKENIZER
from bench_huggingface.kv_cache import Past
from bench_huggingface.numbering import Numbering
from bench_huggingface.plugin import CausalLMConfig
from bench_huggingface.reader import Reader

LOGITS = 2**27  # scored at a time, 512 MiB in float32, so that scoring needs no more for a larger batch


class CausalLM(LanguageModel):
    """p(y) = prod_t p(y_t | y_<t), from the logits that a network of transformers gives after y_<t.

    How logits become probabilities is up to the head; by default a softmax. Openings of a batch
    are equally long and padding is on the right, so that causal attention needs no other mask. Windows of a stream
    stand alone. Stepping gives no gradients.
    """

    def __init__(self, config: CausalLMConfig, info: TaskInfo, head: Head | None = None) -> None:
        super().__init__()
        self.folder = None if config.path is None else info.files[CONFIG].parent
        if self.folder is None:
            settings = network.described(config.architecture or {}, len(info.vocabulary))
            self.numbering = Numbering(len(info.vocabulary))
        else:
            settings = network.stored(self.folder)
            self.numbering = _numbering(config, info, settings.get_text_config().vocab_size)
        self.network = network.allocated(settings, drawn=self.folder is None)
        if head is not None:
            self.head = head
        self.reader = Reader(self.network)
        self.positions = network.positions(settings)
        first = getattr(settings.get_text_config(), "bos_token_id", None)
        self.first = (first if isinstance(first, int) else self.numbering.stop) if config.bos else None

    def setup(self, info: TaskInfo, noise: Noise) -> None:
        if self.folder is not None:
            network.load(self.network, self.folder)
        network.tried(type(self.network).__name__, self._check)
        super().setup(info, noise)

    def score(self, batch: Batch, scoring: Scoring) -> Scores:
        """Take rows of like length together, as many as LOGITS allows."""
        total = torch.zeros(len(batch), dtype=torch.float64, device=batch.ids.device)
        most = max(1, LOGITS // (batch.gold.shape[1] * self.numbering.tokens))
        for rows in torch.split(batch.length.argsort(stable=True), most):
            part = batch.select(rows)
            part = replace(part, gold=part.gold[:, : int(part.length.max())])
            total = total.index_add(0, rows, super().score(part, scoring).log_probs)
        return Scores(total)

    def limit(self, batch: Batch) -> Tensor | None:
        if self.positions is None:
            return None
        room = self.positions[0] - self._tokens(batch, batch.opening).shape[1]
        return torch.full_like(batch.ids, room + 1)  # the last token is not read

    @torch.no_grad()
    def start(self, batch: Batch) -> tuple[Tensor, LanguageModelState]:
        tokens, head = self._tokens(batch, batch.opening), self._head()
        logits, past = self(tokens, None, tokens.shape[1] if head.reads_prefix else 1)
        return self._next(logits, LanguageModelState(past, head=head.start(logits[:, :-1])))

    @torch.no_grad()
    def step(self, state: LanguageModelState, actions: Tensor) -> tuple[Tensor, LanguageModelState]:
        logits, past = self(self.numbering.of_model(actions)[:, None], state.past, 1)
        return self._next(logits, replace(state, past=past))

    def predict(self, batch: Batch, given: Training | Scoring, **more: Any) -> tuple[Tensor, LanguageModelState]:
        tokens, targets, head = self._tokens(batch, batch.inputs), batch.gold.shape[1], self._head()
        last = tokens.shape[1] if head.reads_prefix else targets
        with waits_for_device("transformers looks whether positions are those of several sequences in a row"):
            logits = self.reader.logits(tokens, last)
        logits = self.numbering.of_task(logits)
        prefix, own = logits[:, :-targets].detach(), logits
        if last > targets:
            prefix, own = torch.split(logits, [last - targets, targets], 1)
        return own, LanguageModelState(head=head.start(prefix))

    def forward(self, tokens: Tensor, past: Past | None, last: int) -> tuple[Tensor, Past]:
        """Return the logits after the `last` of more tokens [N, last, V], and what is kept of all."""
        logits, after = self.reader(tokens, past, last)
        return self.numbering.of_task(logits), after

    def _tokens(self, batch: Batch, tokens: Tensor) -> Tensor:
        """Return what the network reads for `tokens`, which begin with the opening of `batch`."""
        read = self.numbering.of_model(tokens)
        if self.first is None:
            if batch.opening.shape[1] == 1:
                raise SuiteError("`bos: false` leaves nothing to begin with: a text has no prefix. Set `bos: true`.")
            read = read[:, 1:]
        elif self.first != self.numbering.stop:
            begins = torch.where(tokens[:, :1] == STOP, self.first, read[:, :1])
            read = torch.cat([begins, read[:, 1:]], 1)
        if self.positions and read.shape[1] > self.positions[0]:
            most, name = self.positions
            raise SuiteError(
                f"{read.shape[1]} tokens do not fit into the {most} positions (`{name}`) of the network. "
                "Give it more where it is trained from the start, or leave out longer texts (`longest:` of a task)."
            )
        return read

    @torch.no_grad()
    def _check(self) -> None:
        """Raise SuiteError unless the network predicts alike token by token, with rows reordered, and all at once."""
        was = self.training
        self.eval()
        device = next(self.network.parameters()).device
        tokens = torch.tensor([[0, 1, 0, 1], [1, 1, 0, 0]], device=device)[:, : self.positions and self.positions[0]]
        whole = self.numbering.of_task(self.reader.logits(tokens, tokens.shape[1]))
        past, alike = None, self.reader.remembers(tokens)
        for place in range(tokens.shape[1] if alike else 0):
            logits, past = self(tokens[:, place, None], past, 1)
            alike &= bool((logits[:, 0] - whole[:, place]).abs().max() < 1e-3 * whole.abs().max())
            past, tokens, whole = past.select(torch.tensor([1, 0], device=device)), tokens.flip(0), whole.flip(0)
        if not alike:
            raise SuiteError(
                f"{type(self.network).__name__} with these settings does not predict alike token by token and all at "
                "once. If it has a setting `is_decoder`, make it true; else choose another architecture."
            )
        self.train(was)


def _numbering(config: CausalLMConfig, info: TaskInfo, size: int) -> Numbering:
    """Return how a task numbers the tokens of a pretrained model; raise SuiteError if they do not belong together."""
    tokens, of_task = len(info.vocabulary), info.extras.get("tokenizer")
    if of_task != digest(info.files[TOKENIZER]):
        what = "has a tokenizer of its own" if of_task is None else "has the tokenizer of another"
        raise SuiteError(
            f"the model in {config.path} knows its own tokens alone, and the task {what}. "
            f"Give it `tokenizer: {{kind: pretrained, path: {config.path}}}`."
        )
    if tokens > size:
        raise SuiteError(
            f"the task has {tokens:,} tokens, the model in {config.path} {size:,}. "
            "If one too many is `<cpad>`, set `short: drop`, which needs no padding."
        )
    return Numbering(tokens, info.extras["stop"])
