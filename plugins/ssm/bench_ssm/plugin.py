"""The parts that this plugin provides, as Configs and hooks; imports no torch."""

import re
from collections.abc import Mapping
from typing import Annotated, Self, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, NonNegativeInt, PositiveInt, model_validator

from bench_core import DecoderConfig, Kind, ModelConfig, Scorer, Stepper, Vmappable, hookimpl
from bench_ssm.latent import Latent

KINDS = ("id", "diag", "tril", "real-nvp")


def parts(flow: str) -> tuple[int, str]:
    """Return how often a flow is composed with itself, and of what kind it is: 2 and tril for 2xtril."""
    found = re.fullmatch(rf"(?:([1-9]\d{{0,2}}) *x *)?({'|'.join(KINDS)})", flow.strip().lower())
    if found is None:
        raise ValueError(
            f"no flow is called {flow!r}. Say id, diag, tril or real-nvp, or several of one in a row: 2xtril"
        )
    return int(found[1] or 1), found[2]


def _tidy(flow: str) -> str:
    number, kind = parts(flow)
    return kind if number == 1 else f"{number}x{kind}"


def _keeps_away_from_zero(delta: float) -> float:
    if isinstance(delta, int | float) and not 0 < delta < 0.5:
        raise ValueError(f"diagonals stay out of (-delta, delta), with delta above 0 and below 0.5; it is {delta}")
    return delta


FlowName: TypeAlias = Annotated[str, AfterValidator(_tidy)]


class DeepSSMConfig(ModelConfig):
    """Deep state space model: tokens from a latent trajectory that none feeds back to.

    Schmidt and Hofmann, 2018, arXiv:1806.04550.
    """

    name, target = "deep-ssm", "bench_ssm.model:DeepSSM"
    cites = ("schmidt2018", "generative=real-nvp: dinh2017", "inference=real-nvp: dinh2017")
    capabilities = {Latent, Scorer, Vmappable}
    likelihoods = {"trajectories": Kind.ESTIMATE, "elbo": Kind.BOUND}
    evaluation = {"trajectories", "information_draws", "positions"}

    state: PositiveInt = 8  #: d, numbers of a state
    generative: FlowName = "tril"  #: F_g: id, diag, tril or real-nvp, or k of them in a row, such as 2xtril
    inference: FlowName | None = None  #: F_q, by default diag
    shared: bool = False  #: one flow with the same weights for both
    inverse: bool | None = None  #: whether F_g learns its inverse; by default diag and tril do
    delta: Annotated[float, BeforeValidator(_keeps_away_from_zero)] = 0.1  #: diagonals stay out of (-delta, delta)
    masks: tuple[int, ...] | None = None  #: of real-nvp: coordinates that each layer keeps, by default 2, ..., d - 1
    fixed_side: bool = False  #: whether these are the first ones always; else the last ones in every second layer
    samples: PositiveInt = 1  #: K, proposals a step, of which one is kept
    bidirectional: bool = False  #: whether inference reads the whole target at every step; else from there to its end
    q_sees_state: bool = False  #: whether inference also reads the state before
    embedding: PositiveInt | None = None  #: of what inference reads, by default `state`
    reader: PositiveInt = 64  #: units of the GRU that reads a target, in each direction
    posterior: PositiveInt = 64  #: hidden units between what it has read and the proposal
    steps: PositiveInt = 13  #: most tokens of a target, stop included
    trajectories: int = Field(10_000, ge=4)  #: N, which all targets share when scored by them
    information_draws: NonNegativeInt = 20  #: of noise, for each mutual information; 0 leaves it out
    positions: PositiveInt = 10  #: steps over which it is averaged
    logged: NonNegativeInt = Field(16, le=10_000)  #: trajectories behind the one in the log of training
    log_every: PositiveInt = 10  #: updates from one that the log of it is made of to the next

    @model_validator(mode="after")
    def _masks_fit(self) -> Self:
        if "real-nvp" not in (parts(self.generative)[1], parts(self.inference or "diag")[1]):
            if self.masks is not None or self.fixed_side:
                raise ValueError(
                    "`masks` and `fixed_side` are of real-nvp. Leave them out, or set `generative: real-nvp`"
                )
            return self
        masks = self.layers
        if not masks or not all(0 < mask < self.state for mask in masks):
            raise ValueError(
                f"a layer of real-nvp keeps at least 1 and at most {self.state - 1} of {self.state} coordinates, "
                f"but `masks` are {list(masks)}. Give others, or another `state`"
            )
        return self

    @model_validator(mode="after")
    def _flows_fit(self) -> Self:
        if self.inverse and parts(self.generative)[1] == "id":
            raise ValueError("a flow of kind id learns nothing, nor does its inverse. Leave `inverse` out")
        if self.shared and self.inference not in (None, self.generative):
            raise ValueError(
                f"one shared flow cannot be both {self.generative} and {self.inference}. Leave `inference` out, or "
                "set `shared: false`"
            )
        return self

    @model_validator(mode="after")
    def _spells_out_defaults(self) -> Self:
        """Replace each default by the value that it stands for, so that one model has one key."""
        defaults = {
            "inference": self.generative if self.shared else "diag",
            "inverse": parts(self.generative)[1] in ("diag", "tril"),
            "masks": self.layers or None,
            "embedding": self.state,
        }
        vars(self).update({name: value for name, value in defaults.items() if getattr(self, name) is None})
        return self

    @property
    def layers(self) -> tuple[int, ...]:
        """Return how many coordinates each layer of real-nvp keeps; none without such a flow."""
        if self.masks is not None:
            return self.masks
        flows = self.generative, self.inference or "diag"
        return tuple(range(2, self.state)) if "real-nvp" in {parts(flow)[1] for flow in flows} else ()


class CharGRUConfig(ModelConfig):
    """GRU language model of letters, the baseline of deep state space models (Schmidt and Hofmann, 2018).

    By trajectories, words are scored with letters that the model drew itself, which is not its own distribution.
    """

    name, target = "char-gru", "bench_ssm.char_gru:CharGRU"
    cites = ("schmidt2018", "cho2014")
    capabilities = {Stepper, Scorer, Vmappable}
    likelihoods = {"exact": Kind.EXACT, "trajectories": Kind.ESTIMATE}
    evaluation = {"trajectories"}

    state: PositiveInt = 8  #: d, units of the GRU
    embedding: PositiveInt | None = None  #: size of a letter's vector, by default `state`
    steps: PositiveInt = 13  #: most tokens of a target that is scored by trajectories, stop included
    trajectories: int = Field(10_000, ge=4)  #: N, which all targets share when scored by them

    @model_validator(mode="after")
    def _spells_out_defaults(self) -> Self:
        """Replace the default of `embedding` by its value, so that one model has one key."""
        vars(self).update(embedding=self.embedding or self.state)
        return self

    def exempt(self) -> Mapping[str, str]:
        why = "scores by trajectories are those of another distribution"
        return {"samples_occur_as_often_as_their_score_says": why} if "trajectories" in self.likelihoods else {}

    def smooths_labels(self) -> bool:
        return True


class TrajectoryArgmaxConfig(DecoderConfig):
    """Most probable tokens along a latent trajectory that is drawn (Schmidt and Hofmann, 2018, for Table 2)."""

    name, target = "trajectory-argmax", "bench_ssm.latent:TrajectoryArgmax"
    cites = ("schmidt2018",)
    needs = Latent


@hookimpl
def bench_models() -> list[type[ModelConfig]]:
    """Return the deep state space model and its baseline."""
    return [DeepSSMConfig, CharGRUConfig]


@hookimpl
def bench_decoders() -> list[type[DecoderConfig]]:
    """Return the decoder of latent trajectories."""
    return [TrajectoryArgmaxConfig]
