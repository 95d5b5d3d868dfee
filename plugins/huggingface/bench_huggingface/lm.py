"""Causal language models of transformers."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from bench_core import STOP, Batch, Rng, Scores, Scoring, SuiteError, TaskInfo, Training, waits_for_device
from bench_core.files import digest
from bench_core.kit import Head, LanguageModel, LanguageModelState
from bench_huggingface import network
from bench_huggingface.folder import CONFIG, TOKENIZER
from bench_huggingface.kv_cache import Past
from bench_huggingface.numbering import Numbering
from bench_huggingface.plugin import CausalLMConfig
from bench_huggingface.reader import NetworkReader

MAX_LOGITS = 2**27  # maximum number of logits computed at once in scoring, 512 MiB in float32


class CausalLM(LanguageModel):
    """p(y) = prod_t p(y_t | y_<t), from the logits of a transformers network after y_<t.

    A head, by default a softmax, converts logits to probabilities. All prompts of a batch have equal length and
    padding is on the right, so causal attention needs no other mask. Windows of a stream are independent. Stepping
    does not compute gradients.
    """

    def __init__(self, config: CausalLMConfig, info: TaskInfo, head: Head | None = None) -> None:
        super().__init__()
        self.folder = None if config.path is None else info.files[CONFIG].parent
        if self.folder is None:
            settings = network.build_config(config.architecture or {}, len(info.vocabulary))
            self.numbering = Numbering(len(info.vocabulary))
        else:
            settings = network.load_config(self.folder)
            self.numbering = _numbering(config, info, settings.get_text_config().vocab_size)
        self.network = network.build(settings, initialize=self.folder is None)
        if head is not None:
            self.head = head
        self.reader = NetworkReader(self.network)
        self.positions = network.positions(settings)
        first = getattr(settings.get_text_config(), "bos_token_id", None)
        self.first = (first if isinstance(first, int) else self.numbering.stop) if config.bos else None

    def setup(self, info: TaskInfo, rng: Rng) -> None:
        if self.folder is not None:
            network.load(self.network, self.folder)
        network.refuse_errors(type(self.network).__name__, self._check)
        super().setup(info, rng)

    def score(self, batch: Batch, scoring: Scoring) -> Scores:
        """Score rows of similar length together, up to MAX_LOGITS at once."""
        total = torch.zeros(len(batch), dtype=torch.float64, device=batch.ids.device)
        number = max(1, MAX_LOGITS // (batch.gold.shape[1] * self.numbering.tokens))
        for rows in torch.split(batch.length.argsort(stable=True), number):
            part = batch.select(rows)
            part = replace(part, gold=part.gold[:, : int(part.length.max())])
            total = total.index_add(0, rows, super().score(part, scoring).log_probs)
        return Scores(total)

    def limit(self, batch: Batch) -> Tensor | None:
        if self.positions is None:
            return None
        remaining = self.positions[0] - self._tokens(batch, batch.prompt).shape[1]
        return torch.full_like(batch.ids, remaining + 1)  # the last token is not read

    @torch.no_grad()
    def start(self, batch: Batch) -> tuple[Tensor, LanguageModelState]:
        tokens, head = self._tokens(batch, batch.prompt), self._head()
        logits, past = self(tokens, None, tokens.shape[1] if head.reads_prefix else 1)
        return self._next(logits, LanguageModelState(past, head=head.start(logits[:, :-1])))

    @torch.no_grad()
    def step(self, state: LanguageModelState, actions: Tensor) -> tuple[Tensor, LanguageModelState]:
        logits, past = self(self.numbering.of_model(actions)[:, None], state.past, 1)
        return self._next(logits, replace(state, past=past))

    def predict(self, batch: Batch, given: Training | Scoring, **more: Any) -> tuple[Tensor, LanguageModelState]:
        tokens, targets, head = self._tokens(batch, batch.inputs), batch.gold.shape[1], self._head()
        last = tokens.shape[1] if head.reads_prefix else targets
        with waits_for_device("transformers checks whether positions are of several concatenated sequences"):
            logits = self.reader.logits(tokens, last)
        logits = self.numbering.of_task(logits)
        prefix, last_logits = logits[:, :-targets].detach(), logits
        if last > targets:
            prefix, last_logits = torch.split(logits, [last - targets, targets], 1)
        return last_logits, LanguageModelState(head=head.start(prefix))

    def forward(self, tokens: Tensor, past: Past | None, last: int) -> tuple[Tensor, Past]:
        """Read more tokens; return the logits at the final `last` positions [N, last, V], and the new state."""
        logits, after = self.reader(tokens, past, last)
        return self.numbering.of_task(logits), after

    def _tokens(self, batch: Batch, tokens: Tensor) -> Tensor:
        """Return the network's input for `tokens`, which begin with the prompt of `batch`."""
        read = self.numbering.of_model(tokens)
        if self.first is None:
            if batch.prompt.shape[1] == 1:
                raise SuiteError("`bos: false` leaves the input empty for texts without a prefix. Set `bos: true`.")
            read = read[:, 1:]
        elif self.first != self.numbering.stop:
            read = torch.cat([torch.where(tokens[:, :1] == STOP, self.first, read[:, :1]), read[:, 1:]], 1)
        if self.positions and read.shape[1] > self.positions[0]:
            most, name = self.positions
            raise SuiteError(
                f"{read.shape[1]} tokens exceed the {most} positions (`{name}`) of the network. "
                f"Increase `{name}` if it is trained from scratch, or exclude longer texts (the task's `longest:`)."
            )
        return read

    @torch.no_grad()
    def _check(self) -> None:
        """Raise SuiteError if incremental predictions, with reordered rows, differ from full-sequence predictions."""
        was_training = self.training
        self.eval()
        device = next(self.network.parameters()).device
        tokens = torch.tensor([[0, 1, 0, 1], [1, 1, 0, 0]], device=device)[:, : self.positions and self.positions[0]]
        whole = self.numbering.of_task(self.reader.logits(tokens, tokens.shape[1]))
        past, is_consistent = None, self.reader.returns_cache(tokens)
        for position in range(tokens.shape[1] if is_consistent else 0):
            logits, past = self(tokens[:, position, None], past, 1)
            is_consistent &= bool((logits[:, 0] - whole[:, position]).abs().max() < 1e-3 * whole.abs().max())
            past, tokens, whole = past.select(torch.tensor([1, 0], device=device)), tokens.flip(0), whole.flip(0)
        if not is_consistent:
            raise SuiteError(
                f"incremental and full-sequence predictions of {type(self.network).__name__} differ with these "
                "settings. If it has a setting `is_decoder`, set it to true; otherwise choose another architecture."
            )
        self.train(was_training)


def _numbering(config: CausalLMConfig, info: TaskInfo, size: int) -> Numbering:
    """Return the numbering of a pretrained model's tokens; raise SuiteError if the task has a different tokenizer."""
    tokens, of_task = len(info.vocabulary), info.extras.get("tokenizer")
    if of_task != digest(info.files[TOKENIZER]):
        what = "builds its own vocabulary" if of_task is None else "uses another model's tokenizer"
        raise SuiteError(
            f"the model in {config.path} supports only its own tokens, but the task {what}. "
            f"Set `tokenizer: {{kind: pretrained, path: {config.path}}}`."
        )
    if tokens > size:
        raise SuiteError(
            f"the task has {tokens:,} tokens, but the model in {config.path} has only {size:,}. "
            "If the extra token is `<cpad>`, set `short: drop`, which needs no padding."
        )
    return Numbering(tokens, info.extras["stop"])
