"""The parts that this plugin provides, as Configs and hooks; does not import torch."""

import re
from collections.abc import Mapping
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, NonNegativeInt, PositiveInt, model_validator

from bench_core import DecoderConfig, Kind, ModelConfig, ProbeConfig, Scorer, Stepper, Vmappable, hookimpl
from bench_ssm.latent import Latent

KINDS = ("id", "diag", "tril", "real-nvp")


def parse_flow(name: str) -> tuple[int, str]:
    """Return the number of composed flows and their kind: 2 and tril for 2xtril."""
    match = re.fullmatch(rf"(?:([1-9]\d{{0,2}}) *x *)?({'|'.join(KINDS)})", name.strip().lower())
    if match is None:
        raise ValueError(
            f"no flow is called {name!r}. Use id, diag, tril or real-nvp, or compose one with itself: 2xtril"
        )
    return int(match[1] or 1), match[2]


def _normalize(name: str) -> str:
    number, kind = parse_flow(name)
    return kind if number == 1 else f"{number}x{kind}"


def _check_delta(delta: float) -> float:
    if isinstance(delta, int | float) and not 0 < delta < 0.5:
        raise ValueError(f"`delta`, the minimum |diagonal|, must be above 0 and below 0.5; it is {delta}")
    return delta


FlowName: TypeAlias = Annotated[str, AfterValidator(_normalize)]


class DeepSSMConfig(ModelConfig):
    """Deep state space model: tokens depend on a latent trajectory, which does not depend on tokens.

    Schmidt and Hofmann, 2018, arXiv:1806.04550.
    """

    name, target = "deep-ssm", "bench_ssm.model:DeepSSM"
    cites = ("schmidt2018", "generative=real-nvp: dinh2017", "inference=real-nvp: dinh2017")
    capabilities = {Latent, Scorer, Vmappable}
    likelihoods = {"trajectories": Kind.ESTIMATE, "elbo": Kind.BOUND, "smc": Kind.ESTIMATE}
    evaluation = {"trajectories", "particles", "prior_share", "information_draws", "positions"}

    state: PositiveInt = 8  #: d, the dimension of a state
    generative: FlowName = "tril"  #: F_g: id, diag, tril or real-nvp, or a composition such as 2xtril
    inference: FlowName | None = None  #: F_q; by default the same as F_g if `shared`, else diag
    shared: bool = False  #: use the same flow, with the same weights, as F_g and F_q
    inverse: bool | None = None  #: parametrize F_g by its inverse; by default only if F_g is diag or tril
    delta: Annotated[float, BeforeValidator(_check_delta)] = 0.1  #: minimum absolute value of diagonal entries
    masks: tuple[int, ...] | None = None  #: numbers of coordinates kept by real-nvp layers; default: 2, ..., d - 1
    fixed_side: bool = False  #: keep the first coordinates in every layer; default: alternate first and last
    samples: PositiveInt = 1  #: K, the number of proposals per step, of which one survives
    bidirectional: bool = False  #: infer each step from the whole target; by default from this step to its end
    q_sees_state: bool = False  #: also infer each step from the previous state
    reads_state: bool = True  #: tokens depend on the state; if false, a control with independent tokens
    embedding: PositiveInt | None = None  #: size of the token embeddings for inference; by default `state`
    reader: PositiveInt = 64  #: units of the GRU that reads targets, in each direction
    posterior: PositiveInt = 64  #: units of the hidden layer between GRU and proposal
    steps: PositiveInt = 13  #: maximum number of tokens of a target, including EOS
    trajectories: int = Field(10_000, ge=4)  #: N, the number of trajectories, shared by all scored targets
    particles: int = Field(64, ge=4, multiple_of=4)  #: M, the number of particles per target, in four filters (`smc`)
    prior_share: float = Field(0.1, ge=0, le=1)  #: share of particles that the prior proposes, for `smc`; others: q
    information_draws: NonNegativeInt = 20  #: noise samples per estimate of mutual information; 0 disables it
    positions: PositiveInt = 10  #: number of steps over which mutual information and entropy are averaged
    logged: NonNegativeInt = Field(16, le=10_000)  #: trajectories sampled to log information and entropy; 0: none
    log_every: PositiveInt = 10  #: number of updates between logged values of mutual information and entropy

    @model_validator(mode="after")
    def _check_masks(self) -> Self:
        if "real-nvp" not in (parse_flow(self.generative)[1], parse_flow(self.inference or "diag")[1]):
            if self.masks is not None or self.fixed_side:
                raise ValueError(
                    "`masks` and `fixed_side` apply only to real-nvp. Remove them, or set `generative: real-nvp`"
                )
            return self
        masks = self.layers
        if not masks or not all(0 < mask < self.state for mask in masks):
            raise ValueError(
                f"a layer of real-nvp keeps at least 1 and at most {self.state - 1} of {self.state} coordinates, "
                f"but `masks` are {list(masks)}. Change `masks` or `state`"
            )
        return self

    @model_validator(mode="after")
    def _check_flows(self) -> Self:
        if self.inverse and parse_flow(self.generative)[1] == "id":
            raise ValueError("a flow of kind id has no parameters, and neither has its inverse. Remove `inverse`")
        if self.shared and self.inference not in (None, self.generative):
            raise ValueError(
                f"a shared flow cannot be both {self.generative} and {self.inference}. Remove `inference`, or set "
                "`shared: false`"
            )
        return self

    @model_validator(mode="after")
    def _fill_defaults(self) -> Self:
        """Replace defaults that depend on other settings by their values, so that equal models have equal keys."""
        defaults = {
            "inference": self.generative if self.shared else "diag",
            "inverse": parse_flow(self.generative)[1] in ("diag", "tril"),
            "masks": self.layers or None,
            "embedding": self.state,
        }
        vars(self).update({name: value for name, value in defaults.items() if getattr(self, name) is None})
        return self

    @property
    def layers(self) -> tuple[int, ...]:
        """Return how many coordinates each layer of real-nvp keeps; empty if neither flow is real-nvp."""
        if self.masks is not None:
            return self.masks
        flows = self.generative, self.inference or "diag"
        return tuple(range(2, self.state)) if "real-nvp" in {parse_flow(flow)[1] for flow in flows} else ()


class LineSSMConfig(DeepSSMConfig):
    """Deep state space model with d = 1, whose P(w) is exact by quadrature; its initial weights are always the same.

    With `training: {updates: 0}`, it is a known distribution that estimates can be compared with.
    """

    name, target = "deep-ssm-1d", "bench_ssm.line:LineSSM"
    likelihoods = {"exact": Kind.EXACT} | DeepSSMConfig.likelihoods

    state: Literal[1] = 1  #: d, the dimension of a state
    sharpness: float = Field(1.0, gt=0)  #: factor of the initial logits of tokens


class CharGRUConfig(ModelConfig):
    """Character GRU language model, the baseline for deep state space models (Schmidt and Hofmann, 2018).

    The likelihood `trajectories` conditions on letters sampled from the model, so it defines another distribution.
    """

    name, target = "char-gru", "bench_ssm.char_gru:CharGRU"
    cites = ("schmidt2018", "cho2014")
    capabilities = {Stepper, Scorer, Vmappable}
    likelihoods = {"exact": Kind.EXACT, "trajectories": Kind.ESTIMATE}
    evaluation = {"trajectories"}

    state: PositiveInt = 8  #: d, the number of GRU units
    embedding: PositiveInt | None = None  #: size of letter embeddings; by default `state`
    teacher_forcing: bool = True  #: train on the letters of words; if false, on letters that the model samples
    steps: PositiveInt = 13  #: maximum number of tokens of a target scored by `trajectories`, including EOS
    trajectories: int = Field(10_000, ge=4)  #: N, the number of trajectories, shared by all scored targets

    @model_validator(mode="after")
    def _fill_defaults(self) -> Self:
        """Replace the default of `embedding` by its value, so that equal models have equal keys."""
        vars(self).update(embedding=self.embedding or self.state)
        return self

    def exempt(self) -> Mapping[str, str]:
        why = "the likelihood `trajectories` is not the distribution of samples"
        return {"samples_occur_as_often_as_their_score_says": why} if "trajectories" in self.likelihoods else {}

    def smooths_labels(self) -> bool:
        return True


class HiddenMarkovConfig(ModelConfig):
    """Hidden Markov model, a state space model with discrete states, whose likelihood is exact.

    Rabiner, 1989. EOS is a token, so words end in some states more often than in others.
    """

    name, target = "hmm-lm", "bench_ssm.hmm:HiddenMarkovLM"
    cites = ("rabiner1989",)
    capabilities = {Stepper, Scorer, Vmappable}
    likelihoods = {"exact": Kind.EXACT}

    states: Annotated[int, Field(ge=1, le=4096)] = 64  #: S, the number of hidden states

    def smooths_labels(self) -> bool:
        return True


def _check_sizes(sizes: tuple[int, ...]) -> tuple[int, ...]:
    if not sizes or any(size < 4 or size % 4 for size in sizes) or [*sizes] != sorted({*sizes}):
        raise ValueError(f"numbers must be increasing multiples of 4, such as [16, 64], but are {[*sizes]}")
    return sizes


Increasing: TypeAlias = Annotated[tuple[int, ...], AfterValidator(_check_sizes)]


class TrajectoryArgmaxConfig(DecoderConfig):
    """The most probable tokens along a sampled latent trajectory (Schmidt and Hofmann, 2018, Table 2)."""

    name, target = "trajectory-argmax", "bench_ssm.latent:TrajectoryArgmax"
    cites = ("schmidt2018",)
    needs = Latent


class EstimatorsConfig(ProbeConfig):
    """Estimates of P(w) by trajectories and by particle filters, on words that the model samples."""

    name, target = "estimators", "bench_ssm.estimators:Estimators"

    words: PositiveInt = 500  #: number of sampled words
    trajectories: Increasing = (100, 1000, 10_000, 100_000)  #: numbers of trajectories
    particles: Increasing = (16, 64, 256)  #: numbers of particles per word


@hookimpl
def bench_models() -> list[type[ModelConfig]]:
    """Return the state space models, and the baseline."""
    return [DeepSSMConfig, LineSSMConfig, CharGRUConfig, HiddenMarkovConfig]


@hookimpl
def bench_decoders() -> list[type[DecoderConfig]]:
    """Return the decoder of latent trajectories."""
    return [TrajectoryArgmaxConfig]


@hookimpl
def bench_probes() -> list[type[ProbeConfig]]:
    """Return the probe of estimators."""
    return [EstimatorsConfig]
